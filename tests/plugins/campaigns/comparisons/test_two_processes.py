"""Scheduler and simulator as two processes, played by small programs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from beasy_sched.plugins.campaigns.comparisons.repeated_command import StepFailed
from beasy_sched.plugins.campaigns.comparisons.two_processes import run_both

LISTENS = "import sys, time; print('listening on tcp://127.0.0.1:1', file=sys.stderr, flush=True);"


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_simulator_learns_the_endpoint_and_the_output_comes_last(capfd: pytest.CaptureFixture[str]):
    run_both(
        program(LISTENS + "print('table', flush=True); print('bye', file=sys.stderr); time.sleep(0.2)"),
        program("import sys, time; time.sleep(0.1); print(*sys.argv[1:])"),
    )
    out, err = capfd.readouterr()
    assert out == "-s tcp://127.0.0.1:1\ntable\n"
    assert err == "listening on tcp://127.0.0.1:1\nbye\n"


def test_a_simulator_may_write_its_files_long_after_the_scheduler_has_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("beasy_sched.plugins.campaigns.comparisons.two_processes.FAREWELL_S", 0.1)
    monkeypatch.setattr("beasy_sched.plugins.campaigns.comparisons.two_processes.ORPHAN_S", 0.1)
    run_both(program(LISTENS), program("import time; time.sleep(0.6)"))


@pytest.mark.parametrize(
    ("scheduler", "simulator", "text", "exit_code"),
    [
        ("raise SystemExit(2)", "", "the scheduler ended with exit code 2 before it listened", 2),
        ("", "", "the scheduler ended with exit code 0 before it listened", 1),
        (LISTENS + "sys.exit(3)", "import time; time.sleep(1000)", "the scheduler ended with exit code 3", 3),
        (LISTENS + "time.sleep(1000)", "raise SystemExit(4)",
         "the simulator ended with exit code 4; the scheduler kept running without a simulator", 4),
        (LISTENS + "time.sleep(0.2); sys.exit(1)", "import os; os.kill(os.getpid(), 9)",
         "the scheduler ended with exit code 1; the simulator was ended by SIGKILL", 1),
    ],
)  # fmt: skip
def test_when_one_dies_the_other_is_ended(
    scheduler: str, simulator: str, text: str, exit_code: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("beasy_sched.plugins.campaigns.comparisons.two_processes.FAREWELL_S", 1.0)
    monkeypatch.setattr("beasy_sched.plugins.campaigns.comparisons.two_processes.ORPHAN_S", 0.2)
    with pytest.raises(StepFailed) as caught:
        run_both(program(scheduler), program(simulator))
    assert str(caught.value) == text
    assert caught.value.exit_code == exit_code


def test_a_scheduler_that_never_listens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("beasy_sched.plugins.campaigns.comparisons.two_processes.START_LIMIT_S", 0.3)
    with pytest.raises(StepFailed, match="no endpoint within"):
        run_both(program("import time; time.sleep(1000)"), program(""))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both(number: signal.Signals, tmp_path: Path):
    """The scheduler is asked to end and gets the time to write what it has; a deaf simulator is killed."""
    note = tmp_path / "note"
    scheduler = (
        f"import signal, sys, time\n"
        f"def stop(*_): open({str(note)!r}, 'w').write('saved'); sys.exit(1)\n"
        f"signal.signal(signal.SIGTERM, stop)\n{LISTENS}time.sleep(1000)"
    )
    simulator = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print(os.getpid(), flush=True); time.sleep(1000)"
    )
    main = (
        "import signal, sys\nfrom beasy_sched.plugins.campaigns.comparisons import two_processes as t\n"
        "t.FAREWELL_S = 1.0\n"
        f"signal.signal({int(number)}, lambda number, _: sys.exit(128 + number))\n"
        f"t.run_both([sys.executable, '-c', {scheduler!r}], [sys.executable, '-c', {simulator!r}])"
    )
    process = subprocess.Popen(program(main), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    simulator_id = int(process.stdout.readline())
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert note.read_text() == "saved"
    with pytest.raises(ProcessLookupError):
        os.kill(simulator_id, 0)
