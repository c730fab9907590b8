"""A run repeated to a moment and continued: unchanged it is the run itself, byte for byte."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from command_line import exit_code

import beasy_sched as bs
from beasy_sched.cli import cli
from beasy_sched.energy import sources
from beasy_sched.engine.observed import ObservedSession
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.model.events import Message
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.foresee.changed_site import read_changed_site
from beasy_sched.plugins.foresee.charts import comparison_chart
from beasy_sched.plugins.foresee.children import Lost, run_children
from beasy_sched.plugins.foresee.what_if import Change, figures, repeat_to, what_if
from beasy_sched.policies.registry import built_in
from beasy_sched.run.following import RunFollower
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.repeating import InputsKeeper, repeatable_run
from beasy_sched.simulator import Simulation
from tests.plugins.foresee.foreseen_site import (
    GRID,
    HOUR_S,
    LOADS,
    MILL,
    SITE,
    FutureSite,
    changed,
    replace,
    some_jobs,
    sunny_w,
    with_policy,
)
from tests.river import RIVER

PLAIN = [
    name
    for name in ("easy", "bid-price", "power-reactive", "fcfs", "workload-reactive")
    if name in built_in()
]

ALL = range(1, len(built_in()))
"""Numbers of the policies, from the second on."""


def built_in_names() -> list[str]:
    return [*built_in()]


def _run(folder: Path, policy: str = "easy", *, grid: bool = False) -> str:
    """Make a run that can be repeated; return its prefix."""
    jobs = some_jobs(np.random.default_rng(3), until_s=30 * HOUR_S, count=90)
    prices = [0.1 + 0.01 * (hour % 24) for hour in range(24 * 4)] if grid else ()
    return _run_of(FutureSite(jobs, sunny_w(48), window_h=48, hosts=5, prices=prices), folder, policy)


def _run_of(site: FutureSite, folder: Path, policy: str) -> str:
    inputs, settings = site.write(folder)
    settings = changed(settings, policy=policy)
    prefix = str(folder / "run")
    run_in_process(inputs, RunFiles(prefix, settings), followers=[InputsKeeper(prefix, inputs, settings)])
    return prefix


class _Replies(RunFollower):
    """Keeps all replies."""

    def __init__(self) -> None:
        self.replies: list[tuple[float, bytes]] = []

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        running.step = partial(self.keep, running.step)

    def keep(self, step, message: Message):
        reply = step(message)
        self.replies.append((reply.now, repr(reply.decisions).encode()))
        return reply


def _rest(simulation: Simulation, running: ObservedSession) -> bytes:
    """Continue a paused run to its end; return its replies, outcomes and trace."""
    session, replies = running.session, []
    copy = running.detached()
    simulation.world.stop_tracing()

    def step(message: Message):
        reply = copy.step(message)
        replies.append((reply.now, repr(reply.decisions).encode()))
        return reply

    simulation.resume(step, ignores_power=lambda: session.over)
    columns = session.outcomes.columns()
    trace = repr(session.power.trace).encode()
    return msgspec.msgpack.encode(
        [replies, {name: repr(list(column)) for name, column in columns.items()}, trace]
    )


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("policy", PLAIN)
@pytest.mark.sampled(2)
def test_a_continuation_that_is_not_changed_is_the_run(tmp_path: Path, policy: str, grid: bool) -> None:
    prefix = _run(tmp_path, policy, grid=grid)
    _check_continuations(prefix, np.random.default_rng(8).uniform(0.0, 47 * HOUR_S, 2).tolist())


@pytest.mark.parametrize("number", [pytest.param(0), *(pytest.param(n, marks=pytest.mark.slow) for n in ALL)])
def test_a_continuation_with_plans_is_the_run(tmp_path: Path, number: int) -> None:
    policy = built_in_names()[number] if number else "beasy"
    rng = np.random.default_rng(100 + number)
    jobs = some_jobs(rng, until_s=20 * HOUR_S, count=60)
    site = with_policy(FutureSite(jobs, sunny_w(48), window_h=18, windows=2, hosts=5), policy, number)
    _check_continuations(_run_of(site, tmp_path, policy), rng.uniform(0.0, 35 * HOUR_S, 1).tolist())


def _check_continuations(prefix: str, at_s: list[float]) -> None:
    """Check that a run, continued from moments without a change, is the run."""
    run = repeatable_run(prefix)
    kept = _Replies()
    sessions: list[ObservedSession] = []

    class Session(RunFollower):
        def begin(self, simulation: Simulation, running: ObservedSession) -> None:
            sessions.append(running)

    run_in_process(run.inputs, RunFiles(None, run.settings, decisions=False), followers=[kept, Session()])
    session = sessions[0].session
    for time_s in at_s:
        found: list[bytes | Lost] = []

        def act(simulation: Simulation, running: ObservedSession, found: list[bytes | Lost] = found) -> None:
            found.extend(run_children([lambda: _rest(simulation, running)], 1))

        repeat_to(run, time_s, act)
        assert not isinstance(found[0], Lost), found
        replies, columns, trace = msgspec.msgpack.decode(found[0])
        expected = [[now, decisions] for now, decisions in kept.replies if now > time_s]
        assert expected
        assert replies == expected
        assert columns == {name: repr(list(column)) for name, column in session.outcomes.columns().items()}
        assert trace == repr(session.power.trace).encode()


def test_known_and_unchanged_there_is_no_difference(tmp_path: Path) -> None:
    comparison = what_if(_run(tmp_path), 14 * HOUR_S, Change(), is_known=True)
    (pair,) = comparison.pairs
    assert pair.as_it_was == pair.changed
    assert all(each.difference == 0.0 for each in figures(comparison))


def test_lost_servers_run_nothing_more(tmp_path: Path) -> None:
    prefix = _run(tmp_path)
    comparison = what_if(prefix, 14 * HOUR_S, Change(lost=HostSet.parse("0-4")), is_known=True)
    (pair,) = comparison.pairs
    assert pair.as_it_was.totals.finished > 0
    assert pair.changed.totals.finished == 0


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name in ("bid-price", "power-reactive") if name in built_in()])
def test_another_policy_takes_over(tmp_path: Path, policy: str) -> None:
    comparison = what_if(
        _run(tmp_path), 14 * HOUR_S + 17.0, Change(policy=policy), continuations=2, at_once=2
    )
    assert comparison.problems == ()
    assert len(comparison.pairs) == 2
    assert all(pair.changed.totals.finished > 0 for pair in comparison.pairs)


def test_production_is_replaced(tmp_path: Path) -> None:
    prefix = _run(tmp_path)
    night = tmp_path / "night.txt"
    night.write_text('{"timestamp": 54000, "type": "power", "power_available": 0.0}\n')
    (pair,) = what_if(prefix, 14 * HOUR_S, Change(production=str(night)), is_known=True).pairs
    assert pair.changed.totals.soc_pct < pair.as_it_was.totals.soc_pct


def test_servers_are_put_back_into_service(tmp_path: Path) -> None:
    jobs = some_jobs(np.random.default_rng(3), until_s=30 * HOUR_S, count=90)
    broken = [{"timestamp": 5 * HOUR_S, "type": "breaks", "resources": "0-3"}]
    site = FutureSite(jobs, sunny_w(48), window_h=48, hosts=5, failures=broken)
    prefix = _run_of(site, tmp_path, "easy")
    (pair,) = what_if(prefix, 14 * HOUR_S, Change(added=HostSet.parse("0-3")), is_known=True).pairs
    assert pair.changed.totals.finished > pair.as_it_was.totals.finished


def test_prices_and_limits_change_from_the_moment_on(tmp_path: Path) -> None:
    jobs = some_jobs(np.random.default_rng(3), until_s=30 * HOUR_S, count=90)
    prices = [0.1 + 0.01 * (hour % 24) for hour in range(24 * 4)]
    site = FutureSite(jobs, sunny_w(48, 300.0), window_h=48, hosts=5, prices=prices)
    prefix = _run_of(site, tmp_path, "easy")
    text = SITE.format(window_h=48) + GRID
    dear, limited = tmp_path / "dear.toml", tmp_path / "limited.toml"
    lines = (tmp_path / "price.csv").read_text().splitlines()
    prices = [f"{time},{2.0 * float(price):.6f}" for time, price in (line.split(",") for line in lines[1:])]
    (tmp_path / "dear.csv").write_text("\n".join([lines[0], *prices, ""]))
    dear.write_text(text.replace("price.csv", "dear.csv"))
    limited.write_text(text.replace("import_limit_kw = 1.0", "import_limit_kw = 0.2"))
    (pair,) = what_if(prefix, 14 * HOUR_S, Change(site=str(dear)), is_known=True).pairs
    assert pair.as_it_was.totals.import_kwh > 0.0
    assert pair.changed.totals.cost > 1.2 * pair.as_it_was.totals.cost
    (pair,) = what_if(prefix, 14 * HOUR_S, Change(site=str(limited)), is_known=True).pairs
    assert pair.changed.totals.import_kwh < pair.as_it_was.totals.import_kwh
    larger = tmp_path / "larger.toml"
    larger.write_text(text.replace("capacity_kwh = 12.0", "capacity_kwh = 13.0"))
    with pytest.raises(ConfigError, match=r"larger.toml: battery.capacity_kwh is not that of the run"):
        what_if(prefix, 14 * HOUR_S, Change(site=str(larger)), is_known=True)


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ("capacity_kwh = 12.0", "capacity_kwh = 12.0\nsoc_target_pct = 80", "battery.soc_target_pct"),
        ("2019-06-01", "2019-06-02", "time.start"),
        ("[grid]", "[guard]\n[grid]", None),
        ("import_limit_kw = 1.0", "import_limit_kw = 1.0\nexport = 'feed-in'", None),
        ("charge_limit_kw = 6.0", "charge_limit_kw = 5.0", None),
    ],
)
def test_fields_are_compared_with_their_defaults(
    tmp_path: Path, before: str, after: str, field: str | None
) -> None:
    text = SITE.format(window_h=24) + GRID
    site = FutureSite([], sunny_w(24), window_h=24, hosts=2, prices=[0.1] * 48)
    _, settings = site.write(tmp_path)
    path = tmp_path / "changed.toml"
    path.write_text(text.replace(before, after))
    if field is None:
        read_changed_site(path, text, settings.site_name)
        return
    with pytest.raises(ConfigError, match=f"changed.toml: {field} is not that of the run"):
        read_changed_site(path, text, settings.site_name)


def test_a_file_of_services_cannot_change(tmp_path: Path) -> None:
    text = SITE.format(window_h=24) + LOADS
    site = FutureSite(
        [], sunny_w(24), window_h=24, hosts=2, temperatures_c=[15.0] * 48, services_kw=[0.1] * 48
    )
    _, settings = site.write(tmp_path)
    other = tmp_path / "elsewhere"
    other.mkdir()
    site.write(other)
    for folder in (tmp_path, other):
        (folder / "changed.toml").write_text(text)
    read_changed_site(tmp_path / "changed.toml", text, settings.site_name)
    with pytest.raises(ConfigError, match=r"cooling.temperature is not that of the run"):
        read_changed_site(other / "changed.toml", text, settings.site_name)


def test_changes_without_an_effect_are_refused(tmp_path: Path) -> None:
    jobs = some_jobs(np.random.default_rng(3), until_s=30 * HOUR_S, count=20)
    broken = [{"timestamp": 7200.0, "type": "breaks", "resources": "0-1"}]
    site = FutureSite(jobs, sunny_w(48), window_h=48, hosts=5, failures=broken)
    prefix = _run_of(site, tmp_path / "site", "easy")
    for change, message in (
        (Change(added=HostSet.parse("2-4")), "--add: found 2-4, but the servers are in service at that time"),
        (Change(lost=HostSet.parse("0-1")), "--lose: found 0-1, but the servers are out of service at"),
        (
            Change(lost=HostSet.parse("2-4"), added=HostSet.parse("1-3")),
            "--lose and --add: found 2-3 in both",
        ),
        (Change(policy="beasy"), "--policy beasy: requires an offline plan: pass --plan FILE to 'simulate'"),
    ):
        with pytest.raises(ConfigError, match=message):
            what_if(prefix, 14 * HOUR_S, change, is_known=True)
    with pytest.raises(ConfigError, match=r"--at: found 172800 s, but the run .* ended at 172800 s"):
        what_if(prefix, 48 * HOUR_S, Change(), is_known=True)
    no_site = _run_of(replace(site, with_site=False), tmp_path / "none", "easy")
    production = str(tmp_path / "site" / "power.txt")
    for option, change in (
        ("--production", Change(production=production)),
        ("--site", Change(site="default")),
    ):
        with pytest.raises(ConfigError, match=f"{option}: the run has no site"):
            what_if(no_site, 14 * HOUR_S, change, is_known=True)
    with pytest.raises(ConfigError, match="--policy power-reactive: requires a site"):
        what_if(no_site, 14 * HOUR_S, Change(policy="power-reactive"), is_known=True)
    comparison = what_if(no_site, 14 * HOUR_S, Change(lost=HostSet.parse("3")), is_known=True)
    with pytest.raises(ConfigError, match="--chart: the run has no battery"):
        comparison_chart(comparison, ".svg")


def test_a_drawn_sum_of_all_sources_cannot_be_replaced_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sources.KINDS, RIVER.name, RIVER)
    site = FutureSite([], sunny_w(48), window_h=48, hosts=2, site_more=MILL)
    prefix = _run_of(site, tmp_path, "easy")
    change = Change(production=str(tmp_path / "power.txt"))
    with pytest.raises(ConfigError, match="--production: the site file has sources"):
        what_if(prefix, 14 * HOUR_S, change, continuations=1)
    (pair,) = what_if(prefix, 14 * HOUR_S, change, is_known=True).pairs
    assert pair.as_it_was == pair.changed


def test_a_changed_price_takes_the_place_of_announced_ones(tmp_path: Path) -> None:
    jobs = some_jobs(np.random.default_rng(3), until_s=30 * HOUR_S, count=60)
    site = FutureSite(jobs, sunny_w(48, 300.0), window_h=48, hosts=5, prices=[0.1] * (24 * 4))
    inputs, settings = site.write(tmp_path)
    power = tmp_path / "power.txt"
    events = [json.loads(line) | {"import_price_per_kwh": 0.1} for line in power.read_text().splitlines()]
    power.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    prefix = str(tmp_path / "run")
    run_in_process(inputs, RunFiles(prefix, settings), followers=[InputsKeeper(prefix, inputs, settings)])
    text = SITE.format(window_h=48) + GRID
    (tmp_path / "dear.csv").write_text((tmp_path / "price.csv").read_text().replace(",0.1", ",0.2"))
    (tmp_path / "dear.toml").write_text(text.replace("price.csv", "dear.csv"))
    (tmp_path / "limit.toml").write_text(text.replace("import_limit_kw = 1.0", "import_limit_kw = 0.9"))
    at_s = 14 * HOUR_S
    for futures in ({"is_known": True}, {"continuations": 1}):
        (pair,) = what_if(prefix, at_s, Change(site=str(tmp_path / "dear.toml")), **futures).pairs
        assert pair.changed.totals.cost == pytest.approx(2.0 * pair.as_it_was.totals.cost, rel=1e-3)
    changed_limit = read_changed_site(tmp_path / "limit.toml", text, settings.site_name)
    assert changed_limit.rates == set()


def test_costs_include_those_of_a_higher_peak_from_the_moment_on(tmp_path: Path) -> None:
    """Energy from the grid is free: the cost is that of the peak, at 10 for a kW."""
    jobs = some_jobs(np.random.default_rng(3), until_s=30 * HOUR_S, count=90)
    grid = "[grid]\nimport_limit_kw = 0.2\npeak_per_kw = 10.0\n"
    site = FutureSite(jobs, sunny_w(48, 300.0), window_h=48, hosts=5, site_more=grid)
    prefix = _run_of(site, tmp_path, "easy")
    higher = tmp_path / "higher.toml"
    higher.write_text(SITE.format(window_h=48) + grid.replace("0.2", "0.5"))
    (pair,) = what_if(prefix, 40 * HOUR_S, Change(site=str(higher)), is_known=True).pairs
    assert pair.as_it_was.totals.cost == pytest.approx(0.0, abs=1e-9)
    assert pair.changed.totals.cost == pytest.approx(3.0, rel=0.01)


def test_an_end_within_the_band_does_not_miss_the_target(tmp_path: Path) -> None:
    jobs = some_jobs(np.random.default_rng(3), until_s=30 * HOUR_S, count=90)
    misses = []
    for band in ("", "target_band_pct = 60\n"):
        site = FutureSite(jobs, sunny_w(48), window_h=48, hosts=5)
        folder = tmp_path / f"band{len(misses)}"
        inputs, settings = site.write(folder)
        text = settings.site.replace("[time]", f"soc_target_pct = 90\n{band}[time]")
        settings = changed(settings, site=text)
        prefix = str(folder / "run")
        run_in_process(inputs, RunFiles(prefix, settings), followers=[InputsKeeper(prefix, inputs, settings)])
        (pair,) = what_if(prefix, 14 * HOUR_S, Change(), is_known=True).pairs
        assert 30.0 < pair.changed.totals.soc_pct < 90.0
        misses.append(pair.changed.totals.misses_target)
    assert misses == [True, False]


def test_errors_name_what_to_do(tmp_path: Path) -> None:
    prefix = _run(tmp_path)
    with pytest.raises(
        ConfigError, match=r"--at: found 720000 s, but the run .* ended at 17\d+ s: use an earlier time"
    ):
        what_if(prefix, 200 * HOUR_S, Change(), is_known=True)
    (tmp_path / "power.txt").write_text((tmp_path / "power.txt").read_text() + "\n")
    with pytest.raises(InputError, match="has changed since the run"):
        what_if(prefix, HOUR_S, Change(), is_known=True)
    os.remove(tmp_path / "power.txt")
    with pytest.raises(InputError, match="which is gone: restore it"):
        what_if(prefix, HOUR_S, Change(), is_known=True)
    os.remove(tmp_path / "run_inputs.json")
    with pytest.raises(InputError, match="cannot be repeated"):
        what_if(prefix, HOUR_S, Change(), is_known=True)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(json.loads(Path("run_inputs.json").read_text())["settings"]["site"])
    simulate = [
        "simulate",
        "-p",
        "platform.xml",
        "-w",
        "workload.json",
        "--events",
        "power.txt",
        "--site",
        "own.toml",
    ]
    done = CliRunner().invoke(cli, [*simulate, "-o", "cli", "--foresee", "20h", "-n", "2", "-j", "2"])
    assert done.exit_code == 0, done.output
    assert "starts foreseen" in done.output
    assert len(Path("cli_foresee.jsonl").read_text().splitlines()) == 2
    done = CliRunner().invoke(
        cli, ["what-if", "cli", "--at", "14h", "--lose", "0-3", "-n", "2", "-j", "2", "--chart", "c.png"]
    )
    assert done.exit_code == 0, done.output
    assert "without servers 0-3" in done.output
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")
    done = CliRunner().invoke(cli, [*simulate, "--foresee-at", "20h", "-n", "2", "-j", "2", "--json", "-q"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told["forecasts"]["count"] == 1
    assert told["settings"]["policy"] == "easy"
    done = CliRunner().invoke(cli, [*simulate, "-n", "2"])
    assert done.exit_code != 0


@pytest.mark.parametrize(("chart", "tables"), [("c.gif", 0), ("none/c.png", 1)])
def test_a_chart_that_cannot_be_written_does_not_cost_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], chart: str, tables: int
) -> None:
    prefix = _run(tmp_path)
    arguments = ["--at", "14h", "--lose", "0-3", "--known", "--chart", str(tmp_path / chart)]
    assert exit_code("what-if", prefix, *arguments) == 2
    assert capsys.readouterr().out.count("jobs finished") == tables


def test_a_run_is_named_by_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path)
    assert exit_code("what-if", str(tmp_path), "--at", "14h", "--lose", "0-3", "--known") == 0
    assert "without servers 0-3" in capsys.readouterr().out


def test_from_python(tmp_path: Path) -> None:
    prefix = _run(tmp_path)
    frame = bs.foresee(prefix, at="14h", continuations=2, at_once=2)
    assert {"start_s", "started_s", "start_by_walltimes_s"} <= {*frame.columns}
    compared = bs.what_if(prefix, at="14h", lose="0-3", continuations=2, at_once=2)
    assert compared.loc["jobs finished", "difference"] < 0


@pytest.mark.parametrize("function", [bs.foresee, bs.what_if])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"at": -5}, "at: '-5' is not a valid time"),
        ({"at": float("nan")}, "at: 'nan' is not a valid time"),
        ({"at": None}, "at: 'None' is not a valid time"),
        ({"at": 60, "continuations": 0}, "continuations: found 0, expected an integer from 1 to 10000"),
        ({"at": 60, "continuations": 2.5}, r"continuations: found 2\.5, expected an integer"),
        ({"at": 60, "at_once": -2}, "at_once: found -2, expected an integer from 1 to 1000"),
        ({"at": 60, "at_once": 0}, "at_once: found 0, expected an integer from 1 to 1000"),
    ],
)
def test_wrong_numbers_are_errors(
    tmp_path: Path, function: Callable[..., object], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        function(str(tmp_path / "run"), **given)


@pytest.mark.parametrize("name", ["price.csv", "temperature.csv", "services.csv"])
def test_files_that_the_site_file_names_are_inputs(tmp_path: Path, name: str) -> None:
    hours = range(24 * 4)
    site = FutureSite(
        some_jobs(np.random.default_rng(3), until_s=HOUR_S, count=2),
        sunny_w(24),
        window_h=24,
        hosts=5,
        prices=[0.1 + 0.01 * (hour % 24) for hour in hours],
        temperatures_c=[15.0 for _ in hours],
        services_kw=[0.1 for _ in hours],
    )
    prefix = _run_of(site, tmp_path, "easy")
    (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
    with pytest.raises(InputError, match=f"{name}: the file has changed since the run"):
        what_if(prefix, HOUR_S, Change(), is_known=True)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=f"{name}: the run .* used this file, which is gone: restore it"):
        what_if(prefix, HOUR_S, Change(), is_known=True)
