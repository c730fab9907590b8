"""Files that commands write: a link in the place of one is replaced, whatever else is there stays."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from command_line import ALL_COMMANDS, exit_code
from daemon.serving import BEGIN, END, Served, serving
from plugins.slurm.fake_slurm import FakeSlurm
from small_campaign import SMALL, run_campaign, scenario
from small_site import small_site

from beasy_sched.plugins.slurm import live
from beasy_sched.plugins.slurm.slurm_commands import Slurm
from beasy_sched.policies.easy import Easy

Place = Callable[[Path], object]

INPUTS = {
    "--platform", "--workload", "--workflow", "--events", "--site", "--plan", "--demand", "--production",
    "--other-year", "--swf", "--pv", "--wind", "--grid", "--ninja-pv", "--ninja-wind",
    "--replan-workload", "--replan-demand", "--replan-production", "--replan-season", "--sched-cfg-file",
    "--file", "--failures", "--price", "--carbon",
}  # fmt: skip
"""Options that name files to read; every other one that names a file or a folder is a place to write to."""
SACCT_TEXT = "JobID|State|Submit|Start|End|NNodes|Timelimit\n1|COMPLETED|100|200|300|2|UNLIMITED\n"
NODES_JSON = '{"nodes": [{"name": "n1", "state": ["IDLE"]}]}'
OF_BATSIM = ["jobs.csv", "machine_states.csv", "schedule.csv", "consumed_energy.csv", "pstate_changes.csv"]
OF_SERVE = ["summary.json", "decisions.jsonl", "energy_trace.csv"]
OF_SCENARIO = [
    *("platform.xml", "workload.json", "power.txt", "forecast_workload.json", "forecast_power.txt"),
    *("site.toml", "plan.msgpack"),
]


@dataclass(frozen=True)
class Writes:
    """What a call of a command writes into the folder ``out``."""

    call: str
    files: list[str]
    needs: str | None = None
    """A package without which the command ends."""
    reads: bool = False
    """An older file of that name counts, so that what a link leads to must not be there."""
    served: bool = False
    """It writes only when somebody talks to it, in tests of its own."""


def run(*names: str) -> list[str]:
    return [f"run_{name}" for name in names]


SITE = "--site site.toml -q"
PLATFORM = "-p platform.xml -w workload.json --events power.txt"
EXPORTS = "--figure out/a.svg --export-json out/a.json --export-csv out/a.csv -q"
COMMANDS = {
    "simulate": Writes(
        f"simulate {PLATFORM} {SITE} -o out/run --record out/a.rec",
        [*run(*OF_BATSIM, *OF_SERVE, "deadlines.csv", "inputs.json"), "a.rec"],
    ),
    "simulate with plans": Writes(
        f"simulate {PLATFORM} {SITE} -o out/run --replan window",
        run(*OF_BATSIM, *OF_SERVE, "deadlines.csv", "inputs.json", "plan.msgpack", "plans.csv"),
        "highspy",
    ),
    "serve": Writes(
        f"serve -s tcp://127.0.0.1:0 --timeout 0.01 {SITE} -o out/run --record out/a.rec",
        [*run(*OF_SERVE), "a.rec"],
        served=True,
    ),
    "batsim": Writes(
        f"batsim {PLATFORM} --forward-unknown-events -E -s tcp://127.0.0.1:1 --timeout 0.1 -e out/run -q",
        run(*OF_BATSIM),
        served=True,
    ),
    "platform": Writes("generate platform -n gros:2 -o out/p.xml", ["p.xml"]),
    "workload": Writes("generate workload --synthetic --jobs 3 --hosts 16 -o out/w.json", ["w.json"]),
    "slurm import": Writes("slurm import --file jobs.txt -o out/w.json -q", ["w.json"]),
    "slurm run": Writes(
        "slurm run -P main -p nodes.xml -q --for 0.2 -o out/run --record out/a.rec",
        [*run("summary.json", "decisions.jsonl", "shadow.csv"), "a.rec"],
        served=True,
    ),
    "slurm platform": Writes("slurm platform --file nodes.json --server gros -o out/p.xml -q", ["p.xml"]),
    "power": Writes(
        "generate power --synthetic --pv-kw 1 --wind-kw 1 -o out/p.txt --write-ninja out/n",
        ["p.txt", "n_pv.csv", "n_wind.csv"],
    ),
    "forecast": Writes(
        "generate power --pv past_pv.csv --pv-kw 1 --start 2019-04-09 --days 1 -o out/p.txt"
        " --write-forecast out/f.csv",
        ["p.txt", "f.csv"],
    ),
    "site": Writes("generate site --battery-kwh 1 -o out/s.toml", ["s.toml"]),
    "scenario": Writes("generate scenario best-begin -o out/s.toml", ["s.toml"]),
    "inputs": Writes("generate scenario small.toml --inputs out", OF_SCENARIO, "highspy"),
    "policy": Writes("generate policy mine -o out", ["mine.py", "mine_test.py"], reads=True),
    "budget": Writes(
        "generate budget --price prices.csv --kwh 11 --start 2022-03-07T00:00:00+01:00 --period-end 4h"
        " -o out/b.csv -q",
        ["b.csv"],
    ),
    "convert": Writes("convert workload.json -o out/w.json", ["w.json"]),
    "plan": Writes(
        "plan -p platform.xml -w workload.json --production power.txt --site site.toml -o out/a.msgpack "
        + EXPORTS,
        ["a.msgpack", "a.svg", "a.json", "a.csv"],
        "highspy",
    ),
    "plan show": Writes(
        f"plan show plan.msgpack {EXPORTS.replace('-q', '')}", ["a.svg", "a.json", "a.csv"], "highspy"
    ),
    "figure": Writes("campaign figure swept --guard kill-all -o out/a.svg", ["a.svg"], "matplotlib"),
    "learn": Writes(
        "learn --policy bandit --scenario peak.toml --episodes 1 -j 1 -q -o out/m.msgpack --figure out/m.svg",
        ["m.msgpack", "m.svg"],
        "matplotlib",
        reads=True,
    ),
    "campaign compare": Writes("campaign compare swept --figure out/a.svg", ["a.svg"], "matplotlib"),
    "compare": Writes(
        "compare small.toml --policy easy --policy fcfs -j 1 -o elsewhere --figure out/a.svg",
        ["a.svg"],
        "matplotlib",
    ),
    "what-if": Writes(
        "what-if done/run --at 14h --lose 0-3 -n 2 -j 2 --chart out/a.svg", ["a.svg"], "matplotlib"
    ),
    "report": Writes("report done/run -o out/a.html", ["a.html"]),
}
FOLDERS = {
    "campaign run": "campaign run small.toml -o out/folder -j 1 -q",
    "campaign bundle": "campaign bundle swept -o out/folder -q",
    "campaign rerun": "campaign rerun bundled -o out/folder --environment present -j 1 -q",
    "size": "size small.toml --policy easy --seeds 1 -o out/folder -j 1 -q",
    "compare": f"compare {PLATFORM} --site site.toml --policy easy -o out/folder",
    "year": "year --days 3 --policy easy -o out/folder",
    "generate scenario": "generate scenario small.toml --inputs out/folder",
    "generate policy": "generate policy mine -o out/folder",
}
"""Calls that are given a folder."""
NOT_FILES: dict[str, Place] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": lambda path: socket.socket(socket.AF_UNIX).bind(path.name),
}


def places() -> Iterator[tuple[str, str]]:
    """Every option that names a file or a folder to write to, with its command."""
    for name, command in ALL_COMMANDS.items():
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag:
                continue
            names_a_file = isinstance(option.type, click.Path) or option.metavar in ("FILE", "DIR", "PREFIX")
            if names_a_file and not INPUTS & {*option.opts, *option.secondary_opts}:
                yield name, max(option.opts, key=len)


def test_every_option_that_names_an_output_is_tested() -> None:
    """A new option needs a call in `COMMANDS` or `FOLDERS`, or its name in `INPUTS`."""
    calls = [*(each.call for each in COMMANDS.values()), *FOLDERS.values()]
    short = {"--output": "-o", "--export": "-e"}
    untested = [
        f"{command} {option}"
        for command, option in places()
        if not any(
            call.startswith(f"{command} ") and {option, short.get(option, option)} & {*call.split()}
            for call in (call.replace("-o out/run", "--export -o out/run") for call in calls)
        )
    ]
    assert untested == []
    assert len([*places()]) > 25


class Exchanges(Easy):
    """Exchanges a folder of its run for a link, in the middle of the run: those of ``exchange.json``."""

    name = "exchanges"

    def schedule(self, view):
        exchange = Path("exchange.json")
        if view.now > 0 and exchange.exists():
            folder, link = json.loads(exchange.read_text())
            exchange.unlink()
            os.rename(folder, "moved")
            os.symlink(link, folder)
        return super().schedule(view)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    made = tmp_path_factory.mktemp("made")
    site = small_site(made, jobs=3)
    workload = json.loads(site.workload.read_text())
    for job in workload["jobs"]:
        job["deadline_s"] = 80_000.0
    site.workload.write_text(json.dumps(workload))
    (made / "jobs.txt").write_text(SACCT_TEXT)
    (made / "nodes.json").write_text(NODES_JSON)
    (made / "prices.csv").write_text("time_s,price EUR/MWh\n0,50\n3600,100\n7200,150\n10800,200\n")
    one = SMALL.replace("seeds = [1, 2]", "seeds = [1]").replace(', "follow-plan", "workload-reactive"', "")
    (made / "small.toml").write_text(one)
    (made / "peak.toml").write_text(one.replace('"easy"', '"peak"'))
    run_campaign(
        made / "swept", scenario(("[platform]", "[sweep]\nbattery_kwh = [1, 2]\n[platform]")), jobs=1
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        nodes = ("--file", "nodes.json", "--server", "gros", "-o", "nodes.xml")
        assert exit_code("slurm", "platform", *nodes) == 0
        assert exit_code(*f"simulate {PLATFORM} {SITE} -o done/run".split()) == 0
        sky = "generate power --synthetic --pv-kw 1 --start 2019-01-01 --days 100 --dt 3600 -q"
        assert exit_code(*sky.split(), "-o", "past.txt", "--write-ninja", "past") == 0
        exit_code(*["campaign", "bundle", "swept", "-o", "bundled", "-q"])  # where it can
        plan = "plan -p platform.xml -w workload.json --production power.txt -o plan.msgpack"
        exit_code(*plan.split(), *SITE.split())  # where it can
    return made


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    shutil.copytree(made, folder)
    (folder / "out").mkdir()
    monkeypatch.chdir(folder)
    slurm = FakeSlurm(["n1"])
    monkeypatch.setattr(live, "Slurm", lambda: Slurm(slurm))
    return folder


def put_links(folder: Path, files: list[str], *, somewhere: bool = True) -> Path:
    """Put links in the place of files; return where they lead."""
    precious = folder / "precious"
    if somewhere:
        precious.write_text("precious")
    for file in files:
        (folder / "out" / file).symlink_to(precious)
    return precious


def check_replaced(folder: Path, files: list[str], precious: Path, *, somewhere: bool = True) -> None:
    written = [path for path in (folder / "out").iterdir() if path.name != "run_plans"]
    assert {path.name for path in written} == set(files)
    assert not any(path.is_symlink() for path in written)
    assert (precious.read_text() if precious.exists() else None) == ("precious" if somewhere else None)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name, writes in COMMANDS.items() if not writes.served])
def test_links(folder: Path, name: str) -> None:
    writes = COMMANDS[name]
    if writes.needs:
        pytest.importorskip(writes.needs)
    somewhere = not writes.reads
    precious = put_links(folder, writes.files, somewhere=somewhere)
    assert exit_code(*writes.call.split()) == 0
    check_replaced(folder, writes.files, precious, somewhere=somewhere)


def test_links_in_the_place_of_what_slurm_run_writes(folder: Path) -> None:
    writes = COMMANDS["slurm run"]
    precious = put_links(folder, writes.files)
    assert exit_code(*writes.call.split()) == 0
    check_replaced(folder, writes.files, precious)


def test_links_in_the_place_of_what_serve_writes(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = [*run("summary.json", "decisions.jsonl"), "a.rec"]
    precious = put_links(folder, files)
    assert Served(folder, capfd, [BEGIN, END], "--record", "out/a.rec").wait() == 0
    check_replaced(folder, files, precious)


@pytest.mark.sampled
@pytest.mark.parametrize("protocol", ["4", "5"])
def test_links_in_the_place_of_what_batsim_writes(folder: Path, protocol: str, tmp_path: Path) -> None:
    (tmp_path / "daemon").mkdir()
    files, call = run(*OF_BATSIM), COMMANDS["batsim"].call
    if protocol == "5":
        for name in ("workload.json", "power.txt"):
            assert exit_code("convert", name, "-o", name, "-q") == 0
        files = run("jobs.csv", "schedule.json", "real_exec_info.json", "consumed_energy.csv")
        inputs = PLATFORM.replace("--events", "--external-events")
        call = f"batsim --protocol 5 {inputs} --energy-host -s tcp://127.0.0.1:1 '' -e out/run_ -q"
    precious = put_links(folder, files)
    with serving(tmp_path / "daemon") as daemon:
        call = call.replace("tcp://127.0.0.1:1", daemon.endpoint)
        assert exit_code(*shlex.split(call), "--timeout", "9") == 0
        assert daemon.wait() == 0
    check_replaced(folder, files, precious)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "file", "kind"),
    [
        (name, file, kind)
        for (name, writes), kinds in zip(
            COMMANDS.items(), itertools.cycle(itertools.permutations(NOT_FILES)), strict=False
        )
        for file, kind in zip(writes.files, itertools.cycle(kinds), strict=False)
    ],
)
def test_what_is_no_file(
    folder: Path, capfd: pytest.CaptureFixture[str], name: str, file: str, kind: str
) -> None:
    writes = COMMANDS[name]
    if writes.needs:
        pytest.importorskip(writes.needs)
    place = folder / "out" / file
    os.chdir(folder / "out")
    NOT_FILES[kind](place)
    os.chdir(folder)
    before = stat.S_IFMT(place.lstat().st_mode)
    assert exit_code(*writes.call.split()) in (1, 2)
    last = capfd.readouterr().err.splitlines()[-1]
    assert file in last
    assert any(each in last for each in ("it is a", "is a directory", "cannot be read", "already there"))
    assert stat.S_IFMT(place.lstat().st_mode) == before
    assert not list(folder.glob("**/*.part"))


@pytest.mark.parametrize("kind", ["pipe", "socket", "file", "dangling link"])
@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_no_folder(folder: Path, capfd: pytest.CaptureFixture[str], name: str, kind: str) -> None:
    place = folder / "out" / "folder"
    os.chdir(folder / "out")
    others: dict[str, Place] = {
        "file": lambda path: path.write_text("precious"),
        "dangling link": lambda path: path.symlink_to("nowhere"),
    }
    (NOT_FILES | others)[kind](place)
    os.chdir(folder)
    before = place.lstat().st_mode
    assert exit_code(*FOLDERS[name].split()) == 2
    told = capfd.readouterr().err
    assert "Traceback" not in told
    assert "out/folder" in " ".join(told.split())
    assert place.lstat().st_mode == before
    assert [path.name for path in (folder / "out").iterdir()] == ["folder"]


# --- the folder of the plans made during a run, and folders that are exchanged in the middle ------------

REPLANNED = f"simulate {PLATFORM} {SITE} --windows 2 --replan window -o out/run"


@pytest.mark.parametrize("kind", ["pipe", "socket", "file"])
def test_what_is_no_folder_of_plans(folder: Path, capfd: pytest.CaptureFixture[str], kind: str) -> None:
    pytest.importorskip("highspy")
    os.chdir(folder / "out")
    (NOT_FILES | {"file": lambda path: path.write_text("precious")})[kind](folder / "out" / "run_plans")
    os.chdir(folder)
    assert exit_code(*REPLANNED.split()) == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert "out/run_plans: is a" in last
    assert "expected a folder: remove it" in last
    assert [path.name for path in (folder / "out").iterdir()] == ["run_plans"]


@pytest.mark.slow
def test_a_link_in_the_place_of_the_folder_of_plans_is_replaced(folder: Path) -> None:
    pytest.importorskip("highspy")
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "0000.msgpack").write_text("precious")
    (folder / "out" / "run_plans").symlink_to(theirs)
    assert exit_code(*REPLANNED.split()) == 0
    assert not (folder / "out" / "run_plans").is_symlink()
    assert [path.read_text() for path in theirs.iterdir()] == ["precious"]


def exchanging(folder: Path, name: str) -> dict[Path, str]:
    """Let the policy put a link to files of the same names in a folder's place; return these."""
    theirs = folder / "theirs"
    (theirs / "run_plans").mkdir(parents=True)
    files = [
        *run(*OF_BATSIM, *OF_SERVE, "deadlines.csv", "inputs.json", "plan.msgpack", "plans.csv"),
        "a.rec",
    ]
    files += ["run_plans/0000.msgpack", "run_plans/0001.msgpack"]
    for file in files:
        (theirs / file).write_text("precious")
    link = theirs if name == "out" else theirs / "run_plans"
    (folder / "exchange.json").write_text(json.dumps([name, str(link)]))
    return dict.fromkeys(map(theirs.joinpath, files), "precious")


def contents(folder: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_folder_of_outputs_that_is_exchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are written where the run began, also those that are opened at its end."""
    pytest.importorskip("highspy")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    before = exchanging(folder, "out")
    policy = "--policy test_output_places:Exchanges --record out/a.rec"
    assert exit_code(*REPLANNED.split(), *policy.split()) == 0
    assert (folder / "out").is_symlink()
    assert contents(folder / "theirs") == before
    expected, found = (
        {str(path.relative_to(folder / name)) for path in (folder / name).rglob("*.*")}
        for name in ("theirs", "moved")
    )
    assert found == expected


@pytest.mark.slow
def test_a_folder_of_plans_that_is_exchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("highspy")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    before = exchanging(folder, "out/run_plans")
    (folder / "out" / "run_plans").mkdir()
    policy = "--policy test_output_places:Exchanges"
    assert exit_code(*REPLANNED.split(), *policy.split()) == 0
    assert not (folder / "out" / "run_plans").is_symlink()
    assert contents(folder / "theirs") == before
