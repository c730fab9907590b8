"""A run shown in the terminal while it goes: what is shown, how often, and that it changes nothing."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest
from command_line import exit_code
from rich.console import Console
from small_site import SmallSite, small_site

from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.watch import Decided, Watch, picture
from beasy_sched.planner.plan import PlanStore
from beasy_sched.run.building import build_session
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs

HYDROGEN = """
[hydrogen]
tank_kg = 2.0
level_start_kg = 1.0
level_target_kg = 1.0
electrolyzer_max_kw = 1.0
fuel_cell_max_kw = 0.5
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    made = small_site(tmp_path_factory.mktemp("site"))
    made.site.write_text(made.site.read_text() + HYDROGEN)
    return made


@pytest.fixture(scope="module")
def plan(site: SmallSite) -> Path:
    pytest.importorskip("highspy", reason="planning needs highspy")
    out = site.site.with_name("plan.msgpack")
    files = ("-p", str(site.platform), "-w", str(site.workload), "--production", str(site.events))
    assert exit_code("plan", *files, "--site", str(site.site), "-o", str(out), "-q") == 0
    return out


def settings_of(site: SmallSite, plan: Path | None = None) -> RunSettings:
    return RunSettings(site=site.site.read_text(), plan=None if plan is None else str(plan))


def shown_at(site: SmallSite, time_s: float, plan: Path | None = None) -> dict[str, str]:
    """What is shown at a moment of a run, by heading."""
    seen: list[list[tuple[str, str]]] = []
    decided: deque[Decided] = deque(maxlen=3)
    session = build_session(
        settings_of(site, plan), log=lambda *line: decided.append(Decided(*line[:5]))
    )  # fmt: skip

    def step(message):
        reply = session.step(message)
        if not seen and session.now >= time_s:
            seen.append(picture(session, "easy", 2.0, 0.5, decided))
        return reply

    site.simulation().run(step)
    lines: dict[str, str] = {}
    heading = ""
    for label, line in seen[0]:
        heading = label or heading
        lines[heading] = f"{lines[heading]}\n{line}" if heading in lines else line
    return lines


@pytest.mark.slow
def test_what_is_shown_of_a_site(site: SmallSite, plan: Path) -> None:
    noon = shown_at(site, 12 * 3600.0, plan)
    assert re.fullmatch(r"easy; 12:0\d:\d\d of 1d 00:00:00; 50 % of the jobs submitted", noon["Run"])
    assert re.fullmatch(r"2 s, 21,\d{3} times real time", noon["Running for"])
    level = r"█+░* +\d+\.\d %, \d+\.\d % planned; target 50 % \(20 to 90 %\)"
    assert re.fullmatch(level, noon["Battery"])
    assert re.fullmatch(r"█+░+  \d\.\d\d of 2 kg, \d\.\d\d kg planned; target 1 kg", noon["Hydrogen"])
    assert re.fullmatch(r"[\d.]+ kW of solar and wind", noon["Power now"])
    assert noon["Last step"].startswith("servers ")
    sun, servers, battery = noon["Plan"].splitlines()
    assert "solar and wind, next 12 h, up to " in sun
    assert sun[0] == "█"  # noon
    assert sun[23] == "▁"  # midnight
    assert "on the same scale" in servers
    assert re.search(r"battery, to \d+\.\d %$", battery)
    counted = [int(number) for number in re.findall(r"(\d+) ", noon["Servers"])]
    assert sum(counted) == 16
    assert re.match(r"\d+ submitted, \d+ running", noon["Jobs"])
    assert len(noon["Decisions"].splitlines()) == 3


def test_without_a_site_only_servers_and_jobs(site: SmallSite) -> None:
    session = build_session(RunSettings())
    site.simulation(events=False).run(session.step)
    headings = [label for label, _ in picture(session, "easy", 0.0, None, deque())]
    assert headings == ["Run", "Servers", "Jobs", "Queue"]


def test_before_the_first_message() -> None:
    lines = dict(picture(build_session(RunSettings()), "easy", 0.0, None, deque()))
    assert lines == {
        "Run": "easy; 00:00:00",
        "Servers": "none yet",
        "Jobs": "0 submitted, 0 running",
        "Queue": "empty",
    }


def test_after_the_planned_time(site: SmallSite, plan: Path) -> None:
    session = build_session(settings_of(site, plan))
    site.simulation().run(session.step)
    lines = picture(session, "easy", 0.0, None, deque())
    assert isinstance(session.power.plans, PlanStore)
    assert ("Plan", "no plan for this time") in lines
    assert ("Power now", "not yet known") in lines


def watched(site: SmallSite, prefix: Path, watch: Watch | None) -> None:
    inputs = Inputs(site.platform, [site.workload], [site.events])
    run_in_process(inputs, RunFiles(str(prefix), settings_of(site)), observers=[watch])


def console(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=30, highlight=False)


@pytest.mark.slow
def test_the_run_is_the_same_and_the_picture_fits(site: SmallSite, tmp_path: Path) -> None:
    screen = console()
    with Watch(screen, "easy").shown() as watch:
        watched(site, tmp_path / "a", watch)
    watched(site, tmp_path / "b", None)
    for name in ("jobs.csv", "decisions.jsonl", "energy_trace.csv", "summary.json"):
        assert (tmp_path / f"a_{name}").read_bytes() == (tmp_path / f"b_{name}").read_bytes(), name
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.file.getvalue())
    assert max(len(line) for line in re.split(r"[\r\n]+", text)) <= 80
    assert "Battery     █" in text
    assert "Decisions   1d 00:00:00  " in text  # the last picture is that of the end


class Clock:
    """Tells a time that goes on by a step each time it is asked."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("real_s", "processor_s", "least", "most"),
    [
        (1e-3, 0.0, 1, 40),  # at most four a second
        (1.0, 0.0, 500, 10**6),  # a slow simulator: each message may be drawn
        (0.1, 1.0, 20, 300),  # drawing takes all the time: once a second
    ],
)
def test_how_often_it_is_drawn(
    site: SmallSite, tmp_path: Path, real_s: float, processor_s: float, least: int, most: int
) -> None:
    screen = console()
    real = Clock(real_s)
    watch = Watch(screen, "easy", clock_s=real, processor_s=Clock(processor_s))
    with watch.shown():
        watched(site, tmp_path / "run", watch)
    drawn = screen.file.getvalue().count("easy; ")
    assert least <= drawn <= most
    assert drawn <= real.now_s / 0.25 + 4  # and at the end


def inputs_of(site: SmallSite) -> list[str]:
    return ["-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events),
            "--site", str(site.site)]  # fmt: skip


def test_where_there_is_no_terminal_a_note_says_so(
    site: SmallSite, capfd: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("simulate", *inputs_of(site), "--watch", "--json") == 0
    out, err = capfd.readouterr()
    assert err.count("warning: --watch is ignored: stderr is not a terminal\n") == 1
    assert out.startswith("{")


def on_a_terminal(*arguments: str, stop_at: bytes | None = None) -> tuple[int, str]:
    """Run ``beasy-sched`` on a terminal of 80 columns; press Ctrl-C once ``stop_at`` is shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "beasy_sched", *arguments],
        env={**os.environ, "COLUMNS": "80", "LINES": "30", "TERM": "xterm"},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # how a terminal that nobody writes to any more is told
        while piece := os.read(ours, 65536):
            written += piece
            if stop_at is not None and stop_at in written:
                os.killpg(process.pid, signal.SIGINT)
                stop_at = None
    os.close(ours)
    return process.wait(300), written.decode()


@pytest.mark.slow
def test_on_a_terminal(site: SmallSite, tmp_path: Path) -> None:
    code, text = on_a_terminal("simulate", *inputs_of(site), "--watch", "-o", str(tmp_path / "run"))
    assert code == 0
    assert "Battery" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") > 0  # the cursor is there again
    assert "jobs submitted" in text.rpartition("\x1b[?25h")[2]  # the summary comes after the picture


@pytest.mark.slow
def test_ctrl_c_ends_it_in_order(site: SmallSite, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\nfrom beasy_sched.policies.easy import Easy\n"
        "class Slow(Easy):\n    def schedule(self, view):\n        time.sleep(0.05)\n"
        "        return super().schedule(view)\n"
    )
    command = ["simulate", *inputs_of(site), "--watch", "-o", str(tmp_path / "run"), "--policy", "slow:Slow"]
    os.environ["PYTHONPATH"] = str(tmp_path)
    try:
        code, text = on_a_terminal(*command, stop_at=b"Battery")
    finally:
        del os.environ["PYTHONPATH"]
    assert code == 1, text
    assert "\x1b[?25h" in text
    assert "beasy-sched: stopped by SIGINT" in text
    assert "Traceback" not in text
    assert (tmp_path / "run_failed_summary.json").exists()


@pytest.mark.slow
def test_a_daemon_is_shown_too(site: SmallSite, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path / 'socket'}"
    simulator = subprocess.Popen(
        [sys.executable, "-m", "beasy_sched", "batsim", *inputs_of(site)[:6], "-E",
         "--forward-unknown-events", "-e", str(tmp_path / "sim"), "-s", endpoint, "--timeout", "300"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    code, text = on_a_terminal(
        "serve", "-s", endpoint, "--site", str(site.site), "--watch", "--timeout", "300"
    )
    assert simulator.wait(300) == 0
    assert code == 0, text
    assert "Battery" in text
    assert "1d 00:00:00" in text
