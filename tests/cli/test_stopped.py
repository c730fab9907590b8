"""Commands that are told to end, or killed: what they say, and what they leave."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import exit_code
from processes import PATIENCE_S, free_endpoint, program

import beasy_sched

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
POLICIES = """
import os, resource, signal, time
from beasy_sched.policies.easy import Easy

class Stopped(Easy):
    name = "stopped"

    def __init__(self, options):
        super().__init__({})
        self.number, self.times = options["number"], options.get("times", 1)

    def schedule(self, view):
        if view.now > 3600:
            for _ in range(self.times):
                os.kill(os.getpid(), self.number)
        return super().schedule(view)

class Swallowed(Stopped):
    def schedule(self, view):
        try:
            return super().schedule(view)
        except BaseException:
            self.times = 0
        time.sleep(1.0)
        return []

class Replaced(Stopped):
    def schedule(self, view):
        try:
            return super().schedule(view)
        except BaseException as error:
            raise RuntimeError("something else") from error

class Dropped(Stopped):
    def __del__(self):
        pass

    def schedule(self, view):
        if view.now > 3600:
            Finalized(self)
        return [*super(Stopped, self).schedule(view)]

class Finalized:
    def __init__(self, policy):
        self.policy = policy

    def __del__(self):
        if self.policy.times:
            self.policy.times = 0
            os.kill(os.getpid(), self.policy.number)

class Greedy(Easy):
    name = "greedy"

    def results(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        self.files = []
        try:
            while True:
                self.files.append(open(os.devnull))
        except OSError:
            return {}
"""


FOUND_HERE = {**os.environ, "PYTHONPATH": str(Path(beasy_sched.__file__).parents[1])}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inputs, and policies of its own."""
    place = tmp_path_factory.mktemp("stopped")
    assert exit_code("generate", "platform", "-n", "gros:4", "-o", str(place / "p.xml"), "-q") == 0
    synthetic = ("generate", "workload", "--synthetic", "--hosts", "4", "--jobs", "60")
    assert exit_code(*synthetic, "-o", str(place / "w.json"), "-q") == 0
    power = ("generate", "power", "--synthetic", "--pv-kw", "2")
    assert exit_code(*power, "-o", str(place / "power.txt"), "-q") == 0
    (place / "stopping_policies.py").write_text(POLICIES)
    return place


@pytest.fixture
def out(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for outputs, from where the policies are found."""
    monkeypatch.syspath_prepend(str(place))
    shutil.rmtree(place / "out", ignore_errors=True)
    (place / "out").mkdir()
    return place / "out"


def simulate(place: Path, *arguments: str) -> list[str]:
    files = ["-p", str(place / "p.xml"), "-w", str(place / "w.json"), "--events", str(place / "power.txt")]
    return ["simulate", *files, "--site", "default", "-e", str(place / "out" / "run"), "-q", *arguments]


def policy(name: str, number: signal.Signals, **more: int) -> list[str]:
    return ["--policy", f"stopping_policies:{name}", "--options", json.dumps({"number": number, **more})]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


OURS = ["run_failed_decisions.jsonl", "run_failed_energy_trace.csv", "run_failed_summary.json"]


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """The error on the standard error, without the lines that list files."""
    error, *lists = capsys.readouterr().err.splitlines(keepends=True)
    assert [line.partition(":")[0] for line in lists] in (
        ["wrote the results so far"],
        ["wrote the results so far", "kept the earlier results"],
    )
    return error


@pytest.mark.sampled
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", ["Stopped", "Dropped", "Swallowed"])
def test_a_simulation_that_is_stopped_leaves_what_there_is(
    place: Path, out: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals, name: str
) -> None:
    """Also where what a signal's handler raises is dropped: in a finalizer, and by a policy."""
    assert exit_code(*simulate(place, "--record", str(out / "a.rec"))) == 0
    old = {path: path.read_bytes() for path in out.iterdir()}
    assert exit_code(*simulate(place, *policy(name, number))) == 1
    assert told(capsys) == f"beasy-sched: stopped by {number.name}\n"
    assert names(out) == sorted([*(path.name for path in old), *OURS])
    assert {path: path.read_bytes() for path in old} == old
    summary = json.loads((out / "run_failed_summary.json").read_text())
    assert (summary["complete"], summary["error"]) == (False, f"stopped by {number.name}")
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_behind_another_error(
    place: Path, out: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """As a class body raises a RuntimeError from it, up to Python 3.11."""
    assert exit_code(*simulate(place, *policy("Replaced", number))) == 1
    assert told(capsys) == f"beasy-sched: stopped by {number.name}\n"


def test_impatient_signals_cost_nothing(place: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*simulate(place, *policy("Stopped", signal.SIGTERM, times=3))) == 1
    assert told(capsys) == "beasy-sched: stopped by SIGTERM\n"
    assert names(out) == OURS


def test_what_is_ignored_stays_ignored(place: Path, out: Path) -> None:
    """As SIGHUP is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert exit_code(*simulate(place, *policy("Stopped", signal.SIGHUP))) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_too_many_open_files_at_the_end(place: Path, out: Path) -> None:
    """Whatever is needed then is open, and imported, by then."""
    command = [program("beasy-sched"), *simulate(place, "--policy", "stopping_policies:Greedy")]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run(
        [word for word in command if word != "-q"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert len(names(out)) == 9
    assert json.loads((out / "run_summary.json").read_text())["complete"]


def started(place: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [program("beasy-sched"), *arguments],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    )


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", [[program("beasy-sched")], [sys.executable, "-m", "beasy_sched"]])
def test_a_signal_while_the_program_is_loaded(
    tmp_path: Path, number: signal.Signals, command: list[str]
) -> None:
    """The first of the packages that the command line imports sends it."""
    (tmp_path / "click.py").write_text(f"import os\nos.kill(os.getpid(), {number.value})\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*command, "policies"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (1, f"beasy-sched: stopped by {number.name}\n")


ENDING = """
import atexit, os
atexit.register(print, "tidied up", flush=True)
atexit.register(lambda: {first})

class Late:
    def __del__(self, kill=os.kill, own=os.getpid()):
        kill(own, {number})

late = Late()
"""


@pytest.mark.sampled
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("first", ["None", "os.kill(os.getpid(), {number})"])
def test_a_signal_once_the_command_has_ended(tmp_path: Path, number: signal.Signals, first: str) -> None:
    """Neither in the interpreter's last callbacks nor while it takes itself apart."""
    text = ENDING.format(first=first.format(number=number.value), number=number.value)
    (tmp_path / "ending.py").write_text(f"from beasy_sched.policies.easy import Easy\n{text}")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [program("beasy-sched"), "policies", "ending:Easy"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("tidied up\n")


def test_little_is_loaded_before_signals_are_answered() -> None:
    names = "import sys; old = {*sys.modules}; import beasy_sched.__main__; print(*{*sys.modules} - old)"
    done = subprocess.run([sys.executable, "-S", "-c", names], capture_output=True, text=True, env=FOUND_HERE)
    loaded = done.stdout.split()
    assert "beasy_sched.signals" in loaded, done.stderr
    assert not {"typing", "contextlib", "beasy_sched.errors"} & {*loaded}


def sound(folder: Path) -> None:
    """Check that no file is half-written."""
    for path in folder.iterdir():
        text = path.read_bytes().decode("utf-8", "replace")
        if path.suffix == ".json" and not path.name.startswith("."):
            json.loads(text)
        elif path.suffix == ".jsonl":
            for line in text.splitlines():
                json.loads(line)
            assert text.endswith("\n") or not text
        elif path.suffix == ".csv":
            assert text.endswith("\n")
            assert len({line.count(",") for line in text.splitlines()}) == 1
        elif path.suffix == ".html":
            assert text.rstrip().endswith("</html>")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["simulate", "serve and batsim", "plan", "report"])
def test_killed_at_random_moments(place: Path, out: Path, command: str) -> None:
    """No half-written file under its name, a message, and nothing hidden left once the next run is over."""
    if command == "plan":
        pytest.importorskip("highspy")
    if command == "report":
        pytest.importorskip("plotly")
        assert exit_code(*simulate(place)) == 0
    moments = random.Random(11)

    def begin() -> list[subprocess.Popen[str]]:
        if command == "simulate":
            return [started(place, *simulate(place))]
        if command == "plan":
            files = (
                "-p",
                "p.xml",
                "-w",
                "w.json",
                "--production",
                "power.txt",
                "--export-csv",
                "out/plan.csv",
            )
            return [started(place, "plan", *files, "-o", "out/plan.msgpack", "-q")]
        if command == "report":
            return [started(place, "report", "out/run", "-o", "out/report.html", "-q")]
        endpoint = free_endpoint()
        files = ("-p", "p.xml", "-w", "w.json", "--events", "power.txt", "--forward-unknown-events", "-E")
        return [
            started(place, "batsim", *files, "-s", endpoint, "-e", "out/run", "-q", "--timeout", "300"),
            started(place, "serve", "-s", endpoint, "--site", "default", "-e", "out/run", "--timeout", "300"),
        ]

    def end(processes: list[subprocess.Popen[str]]) -> list[str]:
        gone_s = None
        while None in [process.poll() for process in processes]:
            time.sleep(0.02)
            if gone_s is None and any(process.returncode for process in processes):
                gone_s = time.monotonic()
            elif gone_s is not None and time.monotonic() > gone_s + 5.0:
                for process in processes:  # one that waits for another that is gone
                    process.terminate()
        return [process.communicate(timeout=PATIENCE_S)[0] for process in processes]

    before = time.monotonic()
    assert all("Traceback" not in text for text in end(begin()))
    lasts_s = time.monotonic() - before
    for number in [*SIGNALS, signal.SIGKILL] * 3:
        hidden = {path.stat().st_ino for path in out.glob(".*.part")}
        processes = begin()
        time.sleep(moments.uniform(0.0, lasts_s))
        struck = moments.choice(processes)
        if struck.poll() is None:
            struck.send_signal(number)
        said = end(processes)
        sound(out)
        if struck.returncode == 1:
            assert all("Traceback" not in text for text in said), "\n".join(said)
            reasons = ("stopped by", "disconnected during")
            assert any(reason in text for text in said for reason in reasons), "\n".join(said)
            assert {path.stat().st_ino for path in out.glob(".*.part")} <= hidden
    processes = begin()
    end(processes)
    assert [process.returncode for process in processes] == [0] * len(processes)
    assert not list(out.glob(".*.part"))
    sound(out)


if sys.platform == "win32":
    pytest.skip("signals as POSIX has them", allow_module_level=True)
