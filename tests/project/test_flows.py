"""scripts/flows tells which files a reader opens to follow a message, or scripts/run."""

import re

import pytest
from project.shell import ROOT, run


@pytest.mark.slow
def test_the_flows_are_followed():
    done = run(ROOT / "scripts/flows")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(.*): (\d+) files;", done.stdout, re.MULTILINE)
    assert [name for name, _ in found] == [
        "power NOTIFY to decision",
        "submission to EXECUTE_JOB",
        "scripts/run to its table",
    ]
    assert all(int(files) > 5 for _, files in found)
