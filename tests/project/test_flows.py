"""Who follows a message, or scripts/run, through the code opens few files."""

import re
import subprocess
import sys

from project.shell import ROOT


def test_the_flows_open_few_files():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/flows"], capture_output=True, text=True, check=True, timeout=240
    )
    found = re.findall(r"^(.*): (\d+) files \(aim: at most (\d+)\)", done.stdout, re.MULTILINE)
    assert [name for name, _, _ in found] == [
        "power NOTIFY to decision",
        "submission to EXECUTE_JOB",
        "scripts/run to its table",
    ]
    for name, files, at_most in found:
        assert 5 < int(files) <= int(at_most), name
