"""`beasy-sched serve`: what it refuses, what it says, and that it decides as `simulate` does."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import exit_code
from daemon.serving import BEGIN, END, Served, job, raw, serving
from processes import program, started
from recording_files import exchanges_in
from small_site import SmallSite, differing, small_site

from beasy_sched.cli.serve import say_listening, serve
from beasy_sched.outputs.recording import open_recording

Capture = pytest.CaptureFixture[str]


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def refused(capfd: Capture, *arguments: str) -> str:
    """Check for exit code 2 and one line, told before anything listens; return the line."""
    assert exit_code("serve", "--timeout", "0.01", *arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


def test_a_busy_port(capfd: Capture) -> None:
    with taken_port() as port:
        line = refused(capfd, "-s", f"tcp://127.0.0.1:{port}")
    assert line == (
        f"beasy-sched: cannot listen on 'tcp://127.0.0.1:{port}': Address already in use"
        " (address already in use: choose another port, or 0 for any free port)"
    )


@pytest.mark.parametrize(
    "endpoint",
    ["", "28000", "tcp://127.0.0.1", "tcp://*:99999", "tcp://*:-1", "tcp://*:28000x", "tcp://*:", "tcp://::1:28000",
     "tcp://192.0.2.1:28000", "udp://127.0.0.1:28000", "inproc://x",
     "ipc:///no/such/folder/socket"],
)  # fmt: skip
def test_bad_endpoints(capfd: Capture, endpoint: str) -> None:
    assert f"cannot listen on {endpoint!r}: " in refused(capfd, "-s", endpoint)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--policy", "nothing-like-it"], "nothing-like-it"),
        (["--options", "[1]"], "--options: expected a JSON object"),
        (["--options", '{"no such option": 1}'], "no such option"),
        (["--option", "no such option=1"], "no such option"),
        (["--option", "priority"], "--option: found 'priority', expected NAME=VALUE"),
        (["--options", "@no/such/file"], "no/such/file: cannot be read"),
        (["--policy", "power-reactive"], "pass --site FILE"),
        (["--site", "no/such/site.toml"], "no/such/site.toml: cannot be read"),
        (["-p", "no/such/platform.xml"], "no/such/platform.xml"),
    ],
)
def test_bad_settings(capfd: Capture, arguments: list[str], text: str) -> None:
    assert text in refused(capfd, "-s", "tcp://127.0.0.1:0", *arguments)


@pytest.mark.parametrize(
    "options", [["-e", "{}/run"], ["-e", "{}/run", "--no-decisions"], ["--record", "{}/a.rec"]]
)
def test_a_place_that_cannot_be_written_is_told_first(
    tmp_path: Path, capfd: Capture, options: list[str]
) -> None:
    """Not after hours, when the summary is due."""
    (tmp_path / "file").write_text("in the way")
    here = [option.format(tmp_path / "file" / "out") for option in options]
    assert f"cannot write to {tmp_path}/file/out: Not a directory" in refused(
        capfd, "-s", "tcp://127.0.0.1:0", *here
    )


def test_missing_folders_are_made(tmp_path: Path, capfd: Capture) -> None:
    record = tmp_path / "deep" / "down" / "a.rec"
    daemon = Served(tmp_path, capfd, [BEGIN, END], "--record", str(record), "--no-decisions")
    assert daemon.wait() == 0
    assert daemon.files() == ["run_summary.json"]
    assert len(exchanges_in(record)) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("jobs", [1, 300], ids=["at the end", "in the middle"])
def test_a_full_disk(tmp_path: Path, capfd: Capture, jobs: int) -> None:
    """The run is lost, the other files are not."""
    messages = [BEGIN, *(raw(job(str(number))) for number in range(jobs)), END]
    daemon = Served(tmp_path, capfd, messages, "--record", "/dev/full")
    assert daemon.wait() == 2
    last, wrote = daemon.stderr.splitlines()[-2:]
    assert last == "beasy-sched: /dev/full: cannot be written: No space left on device"
    assert wrote.startswith("wrote the results so far: ")
    assert daemon.files() == ["run_failed_decisions.jsonl", "run_failed_summary.json"]
    assert daemon.summary("run_failed")["complete"] is (jobs == 1)


@pytest.mark.parametrize(
    ("verbosity", "said"),
    [
        ("debug", ["listening", "waiting", "warning", "wrote", "wrote", "3 messages"]),
        ("info", ["listening", "waiting", "warning", "wrote", "wrote"]),
        ("quiet", ["listening", "waiting", "warning"]),
        ("silent", []),
    ],
)
def test_verbosity(tmp_path: Path, capfd: Capture, verbosity: str, said: list[str]) -> None:
    news = raw(job("a")).replace(b"JOB_SUBMITTED", b"NEWS")
    daemon = Served(tmp_path, capfd, [BEGIN, news, END], "-v", verbosity)
    lines = daemon.stderr.splitlines()
    assert [line[: len(start)] for line, start in zip(lines, said, strict=True)] == said


# --- the same run over ZeroMQ and in one process -------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    return small_site(tmp_path_factory.mktemp("site"), jobs=80)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "options",
    [["easy"], ["easy", "--site", "site.toml"], ["easy", "--site", "site.toml", "--energy", "model"],
     ["workload-reactive"], ["power-reactive", "--site", "site.toml"]],
    ids=" ".join,
)  # fmt: skip
def test_as_in_one_process(
    site: SmallSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(site.platform.parent)
    one, two = tmp_path / "one", tmp_path / "out"
    policy, *more = options
    shared = ["--policy", policy, *(str(site.site) if option == "site.toml" else option for option in more)]
    inputs = ["-p", "platform.xml", "-w", "workload.json", "--events", "power.txt"]
    record = str(tmp_path / "one.rec")
    assert exit_code("simulate", "-q", *inputs, *shared, "-e", str(one / "run"), "--record", record) == 0
    with serving(tmp_path, *shared, "--record", "two.rec") as daemon:
        batsim = ["batsim", "-q", "-E", "--forward-unknown-events", *inputs, "-s", daemon.endpoint]
        with started([program("beasy-sched"), *batsim, "-e", str(two / "run")], Path.cwd()) as simulator:
            assert simulator.wait() == 0, simulator.said()
        assert daemon.wait() == 0, daemon.stderr
    with open_recording(tmp_path / "one.rec") as ours, open_recording(tmp_path / "two.rec") as theirs:
        exchanges = list(ours.exchanges())
        assert len(exchanges) > 160
        assert list(theirs.exchanges()) == exchanges
        assert ours.settings == theirs.settings
    assert differing(one, two) == ["run_inputs.json"], "a daemon does not know Batsim's files"


def test_a_master_host_of_another_name(site: SmallSite, tmp_path: Path, capfd: Capture) -> None:
    """As Batsim's -m: 'serve' and 'replay' read the platform file that 'simulate' reads."""
    platform, record = tmp_path / "platform.xml", str(tmp_path / "a.rec")
    platform.write_text(site.platform.read_text().replace("master_host", "boss"))
    known = ["-p", str(platform), "-m", "boss"]
    assert exit_code("simulate", *known, "-w", str(site.workload), "--record", record, "-q") == 0
    assert exit_code("replay", record, *known) == 0
    served = ["serve", "-s", "tcp://127.0.0.1:0", "--timeout", "0.01"]
    assert exit_code(*served, *known) == 1
    assert "no simulator sent a first message" in capfd.readouterr().err
    assert exit_code(*served, *known[:2]) == 2
    assert "no master host: expected a host named 'master_host'; name it with -m" in capfd.readouterr().err


def test_the_help_tells_who_can_reach_it(capsys: Capture) -> None:
    assert exit_code("serve", "--help") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "tcp://127.0.0.1:28000 (or tcp://[::1]:28000) means this machine only" in told
    assert "tcp://*:28000 means every network interface" in told


@pytest.mark.parametrize(
    ("endpoint", "timeout_s", "said"),
    [
        ("tcp://127.0.0.1:1", None, "start it with '-s tcp://127.0.0.1:1'"),
        ("tcp://127.0.0.1:1", 60.0, "start it with '-s tcp://127.0.0.1:1'; timeout 60 s"),
        (
            "tcp://0.0.0.0:1",
            None,
            "start it with '-s tcp://127.0.0.1:1' (on other machines, use the name of this one)",
        ),
    ],
)
def test_what_is_said_first(capfd: Capture, endpoint: str, timeout_s: float | None, said: str) -> None:
    say_listening(endpoint, timeout_s)
    assert capfd.readouterr().err == f"listening on {endpoint}\nwaiting for Batsim: {said}\n"


def test_the_default_is_this_machine_only() -> None:
    (endpoint,) = (option for option in serve.params if option.name == "socket_endpoint")
    assert endpoint.default == "tcp://127.0.0.1:28000"


# --- what -p allows to be checked before Batsim connects ---

NO_POWERS = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="None">
  <host id="master_host" speed="1Gf"/>
  <host id="a" speed="1Gf"/>
  <host id="b" speed="1Gf"/>
</zone></platform>
"""


def test_a_site_on_a_platform_without_powers_is_refused_at_once(tmp_path: Path, capfd: Capture) -> None:
    platform = tmp_path / "platform.xml"
    platform.write_text(NO_POWERS)
    line = refused(capfd, "-p", str(platform), "--site", "default")
    assert line.startswith("beasy-sched: the hosts have no wattage_per_state, which --site requires")


@pytest.mark.slow
def test_a_plan_for_other_servers_is_refused_at_once(tmp_path: Path, capfd: Capture) -> None:
    made = small_site(tmp_path)
    plan, fewer, more = tmp_path / "plan.msgpack", tmp_path / "fewer.xml", tmp_path / "more.xml"
    for servers, path in (("gros:4", fewer), ("gros:17", more)):
        assert exit_code("generate", "platform", "--servers", servers, "-o", str(path)) == 0
    assert exit_code(
        "plan", "-p", str(made.platform), "--site", str(made.site), "-w", str(made.workload),
        "--production", str(made.events), "-o", str(plan), "-q",
    ) == 0  # fmt: skip
    capfd.readouterr()
    planned = ["--policy", "follow-plan", "--site", str(made.site), "--plan", str(plan)]
    line = refused(capfd, "-p", str(fewer), *planned)
    assert (
        "the plan does not fit this run: window 0: the plan is for 16 servers, but the platform has 4" in line
    )
    # Batsim may be told to use only the first hosts of its file, so it is asked
    assert exit_code("serve", "--timeout", "0.01", "-s", "tcp://127.0.0.1:0", "-p", str(more), *planned) == 1
    assert "no simulator sent a first message" in capfd.readouterr().err
