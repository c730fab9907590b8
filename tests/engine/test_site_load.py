"""A run on a site with cooling and services: figures by hand, and the balance of random sites."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talk import Talk, hosts, only, production, small_battery, start, submitted
from world_checks import check
from worlds import run

from beasy_sched.energy.cooling import Cooling
from beasy_sched.energy.devices.battery import NO_BATTERY
from beasy_sched.energy.grid import Signal
from beasy_sched.energy.site import Site
from beasy_sched.energy.site_load import Course, LoadKnown
from beasy_sched.energy.storage import Storage
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.engine.session_words import NO_ENERGY
from beasy_sched.model import decisions as d
from beasy_sched.outputs.files import trace_csv
from beasy_sched.policies.registry import built_in, make_policy
from beasy_sched.testing.worlds import loaded_world

IDLE_J, BUSY_J = 3000.0, 6000.0
"""Energy of an idle and of a busy server in a step of 60 s."""


def in_steps(*values: float) -> Course:
    return Course(Signal(60.0 * np.arange(len(values) + 1.0), np.array(values)))


def begun(load: dict[str, object], supply_j: float, policy: str = "easy", count: int = 4) -> Talk:
    """A session in its first step, its servers idle, the battery at SoC_min, with a supply of the site."""
    site = dataclasses.replace(small_battery(soc_pct=20.0, charge_w=1e-9), **load)  # type: ignore[arg-type]
    talk = Talk(make_policy(policy), count=count, site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, supply_j / 60))
    return talk


def test_cooling_takes_its_part_of_a_step() -> None:
    """Four idle servers need 12 kJ with a PUE of 1.5 18 kJ: of 24 kJ, 6 are left, which are 4 for servers."""
    talk = begun({"cooling": Cooling(1.5)}, 24_000.0)
    assert talk.session.view.budget is not None
    assert talk.session.view.budget.headroom_j == pytest.approx(4000.0)
    started = only(d.ExecuteJob, talk.at(0.0, *(submitted(0.0, name) for name in "ab")))
    assert len(started) == 1  # a second one would need 3 kJ and 1.5 kJ of cooling more
    talk.at(30.0, production(30.0, (24_000.0 + 9000.0) / 60))
    # Half a step of 9 kJ more is 3 kJ for servers, of which the second job takes half a step's 3 kJ.
    assert talk.session.view.budget.headroom_j == pytest.approx(1000.0 + 3000.0 - 1500.0)


def test_services_are_served_first() -> None:
    talk = begun({"services": in_steps(50.0, 50.0, 50.0)}, 4 * IDLE_J + 3000.0 + 3000.0)
    assert talk.session.view.budget is not None
    assert talk.session.view.budget.headroom_j == pytest.approx(3000.0)


@pytest.mark.parametrize(
    ("load", "fact"),
    [
        ({"cooling": Cooling(1.25)}, ("pue", 1.25)),
        ({"services": in_steps(0.0, 75.0, 75.0)}, ("services_w", 75.0)),
    ],
)
def test_the_guard_kills_for_what_cooling_and_services_take(
    load: dict[str, object], fact: tuple[str, float]
) -> None:
    """Two jobs of 6 kJ a step each: the supply of the second step feeds both, but not what comes beside."""
    battery = small_battery(soc_pct=20.0, charge_w=1e-9)
    site = dataclasses.replace(battery, **load)  # type: ignore[arg-type]
    talk = Talk(count=2, site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 1000.0), submitted(0.0, "a"), submitted(0.0, "b"))
    for number, job in enumerate("ab"):
        talk.ask(1.0 + number, lambda view, n=number, j=job: [start(view, j, str(n))])
    talk.at(60.0, production(60.0, 2 * BUSY_J / 60))
    facts = [
        facts
        for line, facts in zip(talk.log, talk.facts, strict=True)
        if NO_ENERGY in line and "needed_j" in facts
    ]
    assert len(facts) == 1
    assert facts[0][fact[0]] == pytest.approx(fact[1])
    assert facts[0]["needed_j"] == pytest.approx(2 * BUSY_J)


def test_the_trace_has_the_columns_of_what_the_site_has() -> None:
    talk = begun({"cooling": Cooling(1.5)}, 60_000.0)
    talk.at(60.0, production(60.0, 1000.0))
    side = talk.session.power
    assert side is not None
    record = side.trace[0].record
    assert record.demand_w * 60 == pytest.approx(4 * IDLE_J)
    assert record.cooling_w * 60 == pytest.approx(2 * IDLE_J)
    plain, cooled = trace_csv(side.trace), trace_csv(side.trace, cooled=True)
    assert "cooling_w" not in plain
    header, row = (line.split(",") for line in cooled.splitlines())
    assert float(row[header.index("cooling_w")]) == pytest.approx(100.0)


def test_power_reactive_feeds_fewer_servers_with_cooling_and_services() -> None:
    """Of 100 W beyond four sleeping servers, cooling and services leave fewer idle servers on."""

    def on(load: dict[str, object]) -> int:
        talk = begun(load, 60 * 165.0, "power-reactive")
        view = talk.session.view
        return view.platform.size - len(hosts("0-3").ids[view.pstate == view.platform.sleep_pstate])

    assert (
        on({})
        > on({"cooling": Cooling(1.4)})
        >= on({"cooling": Cooling(1.4), "services": in_steps(60.0, 60.0, 60.0)})
    )


@pytest.mark.sampled
@pytest.mark.parametrize("policy", sorted(built_in()))
@given(seed=st.integers(0, 10**6))
@settings(max_examples=3, deadline=None)
def test_every_run_balances(policy: str, seed: int) -> None:
    """Servers, cooling and base load take exactly what is produced, imported, discharged, and what lacks."""
    world = loaded_world(np.random.default_rng(seed))
    done = run(world, policy)
    check(world, done)
    assert done.session.power is not None
    records = [row.record for row in done.session.power.trace]
    inflow_j = math.fsum(
        (r.renew_w + r.import_w + r.discharge_w + r.fuel_cell_w + r.unserved_w) * r.dt_s for r in records
    )
    outflow_j = math.fsum(
        (r.charge_w + r.electrolyzer_w + r.curtailed_w + r.export_w + r.cooling_w + r.base_w) * r.dt_s
        + r.consumed_j
        for r in records
    )
    assert outflow_j == pytest.approx(inflow_j, rel=1e-9)


@pytest.mark.sampled
@given(seed=st.integers(0, 10**6), known=st.sampled_from([LoadKnown.YESTERDAY, LoadKnown.DAY, LoadKnown.ALL]))
@settings(max_examples=8, deadline=None)
def test_a_constant_load_is_known_at_any_look_ahead(seed: int, known: LoadKnown) -> None:
    """Where nothing changes, all look-aheads give the same run as a base load and a constant PUE."""
    world = loaded_world(np.random.default_rng(seed))
    steps = len(world.production_w)
    constant = world.but(services_w=(40.0,) * steps, temperature_c=(20.0,) * steps, load_known=known)
    done = run(constant, "bid-price")
    other = run(constant.but(load_known=LoadKnown.ALL), "bid-price")
    assert [repr(x) for x in done.decisions] == [repr(x) for x in other.decisions]


def test_a_site_of_services_alone_has_no_energy_for_servers() -> None:
    services = Course(Signal(np.array([0.0, 180.0]), np.array([80.0])))
    site = Site(Storage(NO_BATTERY), 60.0, 180.0, services=services)
    talk = Talk(make_policy("easy"), count=1, site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 60.0))
    talk.at(60.0, production(60.0, 60.0))
    assert talk.session.power is not None
    record = talk.session.power.trace[0].record
    assert record.base_w == 80.0
    assert record.unserved_w == pytest.approx(record.demand_w + 80.0 - 60.0)
