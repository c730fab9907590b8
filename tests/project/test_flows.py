"""scripts/flows tells which files a reader opens to follow a message, or scripts/run."""

import re
import subprocess
import sys

import pytest
from project.shell import ROOT


@pytest.mark.slow
def test_the_flows_are_followed():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/flows"], capture_output=True, text=True, check=True, timeout=600
    )
    found = re.findall(r"^(.*): (\d+) files;", done.stdout, re.MULTILINE)
    assert [name for name, _ in found] == [
        "power NOTIFY to decision",
        "submission to EXECUTE_JOB",
        "scripts/run to its table",
    ]
    assert all(int(files) > 5 for _, files in found)
