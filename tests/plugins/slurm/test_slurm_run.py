"""``slurm run`` and ``slurm release`` refuse what cannot be, with one message, before anything is asked."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from command_line import exit_code

from beasy_sched.plugins.slurm.commands.slurm_run import stopped_by_signals
from beasy_sched.signals import ENDING_SIGNALS

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    path = tmp_path / "p.xml"
    assert exit_code("generate", "platform", "--servers", "gros:2", "-o", str(path), "-q") == 0
    return path


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--site", "default"], "a site requires a production: pass --power SOURCE"),
        (["--power", "p.txt"], "--power requires a site: pass --site FILE"),
        (["--battery", "b.txt"], "--battery requires a site: pass --site FILE"),
        (["-s", "tcp://localhost:1", "--metrics", ":0"], "omit -s/--socket-endpoint"),
        (["--for", "soon"], "soon"),
        (["--on-kill", "forget"], "found 'forget', expected one of drop, requeue, checkpoint"),
        (["--on-kill", "cancel"], "found 'cancel', which is now called 'drop': use --on-kill drop"),
        (["--order", "priority"], "--order priority requires --act and a policy of this process"),
        (["--order", "priority", "--act", "-s", "tcp://localhost:1"], "--order priority requires --act"),
        (["--mode", "nodes-only"], "--mode nodes-only requires a site"),
        (["--mode", "some-nodes"], "some-nodes"),
        (
            ["--mode", "nodes-only", "--site", "default", "--power", "p", "-s", "tcp://localhost:1"],
            "--mode nodes-only requires a policy of this program",
        ),
    ],
)
def test_bad_options(options: list[str], told: str, nodes: Path, capsys: Capture) -> None:
    assert exit_code("slurm", "run", "-P", "main", "-p", str(nodes), *options) == 2
    assert told in capsys.readouterr().err


def test_without_slurm_there_is_one_message(
    nodes: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in (("run", "-P", "main", "-p", str(nodes)), ("release", "-P", "main")):
        assert exit_code("slurm", *command) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beasy-sched:")]
        assert "Slurm" in line


def test_a_first_signal_is_noted_and_a_second_one_ends_at_once() -> None:
    ended: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    try:
        signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
        with stopped_by_signals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop == []
            signal.raise_signal(signal.SIGTERM)
            assert (stop, ended) == ([signal.SIGTERM], [])
            signal.raise_signal(signal.SIGTERM)
            assert ended == [signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
