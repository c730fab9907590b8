"""The policy of docs/guides/own-policies.md is run as the page says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "own-policies.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    (tmp_path / "my_policies.py").write_text(code.group(1))
    beasy(tmp_path, "generate", "platform", "--servers", "gros:8", "-o", "platform.xml")
    beasy(
        tmp_path, "generate", "workload", "--synthetic", "--jobs", "80", "--hosts", "8", "-o", "workload.json"
    )
    return tmp_path


def beasy(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [str(Path(sys.executable).with_name("beasy-sched"))]
    return subprocess.run([*program, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def shown_command() -> list[str]:
    command = re.search(r"```bash\nbeasy-sched ([^`]*my_policies:Widest[^`]*)```", PAGE.read_text("utf-8"))
    assert command is not None
    import shlex

    return shlex.split(command.group(1).replace("\\\n", " "))


@pytest.mark.slow
def test_the_example_runs(folder: Path) -> None:
    done = beasy(folder, *shown_command())
    assert done.returncode == 0, done.stderr
    assert "my_policies:Widest" in done.stdout
    assert re.search(r"finished +80 ", done.stdout)


@pytest.mark.slow
def test_its_options_are_checked(folder: Path) -> None:
    arguments = [a if a != "patience_s=600" else "patience=600" for a in shown_command()]
    done = beasy(folder, *arguments)
    assert done.returncode == 2
    assert "patience_s" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_policy_that_errs_is_told_so(folder: Path) -> None:
    (folder / "greedy.py").write_text(
        "from beasy_sched.policies import HostSet, Policy, Start\n"
        "class Greedy(Policy):\n"
        "    def schedule(self, view):\n"
        "        return [Start(job, HostSet.of([0]), 'mine') for job in view.queue]\n"
    )
    done = beasy(folder, "simulate", "-p", "platform.xml", "-w", "workload.json", "--policy", "greedy:Greedy")
    assert done.returncode == 1
    assert re.search(
        r"job w0!\d+ (asks for \d hosts and was given 1|was given hosts that are not free: 0 \(busy\))",
        done.stderr,
    )
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_policy_that_crashes_is_named(folder: Path) -> None:
    (folder / "broken.py").write_text(
        "from beasy_sched.policies import Policy\n"
        "class Broken(Policy):\n"
        "    def schedule(self, view):\n"
        "        return view.no_such_thing\n"
    )
    done = beasy(folder, "simulate", "-p", "platform.xml", "-w", "workload.json", "--policy", "broken:Broken")
    assert done.returncode == 1
    assert "policy 'broken:Broken' failed" in done.stderr
    assert "broken.py" in done.stderr


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("results", "told"),
    [
        ("raise KeyError('oops')", "KeyError: 'oops'"),
        ("sys.exit(0)", "SystemExit: 0"),
        ("return None", "found None, expected a dictionary"),
        ("return {'mine': float('nan')}", "mine: found nan, expected a finite number"),
        ("return {'jobs': {}}", "found a section 'jobs', a name reserved for the summary"),
    ],
)
def test_results_that_cannot_be_had(folder: Path, results: str, told: str) -> None:
    (folder / "ending.py").write_text(
        "import sys\n"
        "from beasy_sched.policies.easy import Easy\n"
        "class Ending(Easy):\n"
        f"    def results(self): {results}\n"
    )
    arguments = [
        "simulate",
        "-p",
        "platform.xml",
        "-w",
        "workload.json",
        "--policy",
        "ending:Ending",
        "-e",
        "out",
    ]
    done = beasy(folder, *arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert told in done.stderr
    summary = json.loads((folder / "out_failed_summary.json").read_text("utf-8"))
    assert any(told in warning for warning in summary["warnings"])
    assert summary["jobs"]["finished"] == 80


@pytest.mark.slow
def test_easy_with_a_rule_of_ones_own(folder: Path) -> None:
    """The second policy of the page keeps all invariants, on sites and without one."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (folder / "sunny.py").write_text(next(each for each in code if "class Sunny(" in each))
    check = (
        "from sunny import Sunny; from beasy_sched.testing import check_policy as c; print(c(Sunny, runs=14))"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Sunny: 14 runs" in done.stdout
    assert "easy in the same worlds" in done.stdout
    files = ("-p", "platform.xml", "-w", "workload.json", "--site", "default", "--events", "night.txt")
    (folder / "night.txt").write_text('{"timestamp": 0, "type": "power", "power_available": 0}\n')
    done = beasy(folder, "simulate", *files, "--policy", "sunny:Sunny", "-o", "out")
    assert done.returncode == 0, done.stderr
    log = (folder / "out_decisions.jsonl").read_text("utf-8")
    assert "waits for solar power" in log
