"""The energy that nodes use, as it is measured: a power, a counter, Slurm's accounting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugins.slurm.fake_slurm import FakeSlurm
from plugins.slurm.live_cases import Beside, all_over, platform_of, submit

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import ConfigError
from beasy_sched.plugins.slurm.meter import EnergyMeter, SlurmSource, open_meter
from beasy_sched.plugins.slurm.readings import METER
from beasy_sched.plugins.slurm.slurm_commands import Slurm
from beasy_sched.plugins.slurm.sources.base import Source
from beasy_sched.plugins.slurm.sources.watcher import Watcher

EPOCH_S = 1_800_000_000.0


class Said(Source):
    """A source that says what it is told to say."""

    def __init__(self) -> None:
        super().__init__("said", METER, EPOCH_S)
        self.lines: list[str] = []

    def close(self) -> None:
        pass

    def _look(self, now: float) -> None:
        for line in self.lines:
            self._take(line.encode(), now)
        self.lines.clear()


class Looking:
    """A meter that hears a source when it looks."""

    def __init__(self, source: Source, stale_s: float = 600.0) -> None:
        self._watcher, self._meter = Watcher(source, stale_s, EPOCH_S), EnergyMeter(EPOCH_S)
        self.notes, self.used_j = self._watcher.notes, self._meter.used_j

    def look(self, now_s: float) -> None:
        if (reading := self._watcher.read(EPOCH_S + now_s)) is not None:
            self._meter.take(reading)


def metered(*said: tuple[float, str], stale_s: float = 600.0) -> Looking:
    """A meter that has heard lines, each at its time."""
    source = Said()
    meter = Looking(source, stale_s)
    for at_s, line in said:
        source.lines.append(line)
        meter.look(at_s)
    return meter


def test_a_power_counts_until_the_next_one_and_the_first_from_the_beginning_on() -> None:
    meter = metered((4.0, "100"), (10.0, '{"power_w": 50}'))
    assert meter.used_j(12.0) == pytest.approx(10 * 100.0 + 2 * 50.0)
    assert meter.used_j(20.0) == pytest.approx(10 * 100.0 + 10 * 50.0)


def test_a_counter_counts_by_its_growth_and_may_begin_anew() -> None:
    said = ((0.0, 7000), (10.0, 7500), (20.0, 30), (30.0, 90))
    meter = metered(*((at_s, f'{{"energy_j": {joules}}}') for at_s, joules in said))
    assert meter.used_j(31.0) == 500.0 + 30.0 + 60.0


def test_a_silent_meter_is_told_and_goes_on_with_its_last_power() -> None:
    meter = metered((0.0, "100"), stale_s=60.0)
    meter.look(61.0)
    assert meter.used_j(100.0) == pytest.approx(100 * 100.0)
    assert meter.notes == ["the meter source said has sent no reading for 61 s: using its last reading"]


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 1e6), st.sampled_from(["power_w", "energy_j"]))))
def test_the_energy_never_falls(said: list[tuple[float, float, str]]) -> None:
    source, now_s, before_j = Said(), 0.0, 0.0
    meter = Looking(source, 1e9)
    for pause_s, value, field in said:
        source.lines.append(f'{{"{field}": {value}}}')
        now_s += pause_s
        meter.look(now_s)
        assert meter.used_j(now_s) >= before_j
        before_j = meter.used_j(now_s)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-5", "found power_w -5"),
        ('{"energy_j": "much"}', "found energy_j 'much'"),
        ('{"watts": 5}', "found neither power_w nor energy_j"),
        ("lots", "expected a number (W), or a JSON object or a table with power_w"),
    ],
)
def test_what_is_no_reading_is_told_once(line: str, told: str) -> None:
    meter = metered((0.0, line), (1.0, line))
    assert len(meter.notes) == 1
    assert told in meter.notes[0]
    assert meter.used_j(10.0) == 0.0


# --- Slurm's accounting -------------------------------------------------------------------------------------

GATHERS = {"AcctGatherEnergyType": "acct_gather_energy/ipmi", "AcctGatherNodeFreq": "30 sec"}


def slurm_meter(slurm: FakeSlurm) -> Looking:
    slurm.settings |= GATHERS
    source = open_meter("slurm", Slurm(slurm), platform_of(len(slurm.nodes)), EPOCH_S)
    assert source is not None
    return Looking(source)


def test_nodes_that_are_off_or_switch_draw_what_the_platform_says() -> None:
    slurm = FakeSlurm(5)
    slurm.watts = {"n1": 93, "n2": 999, "n3": 999, "n4": 999, "n5": 41}
    slurm.nodes["n2"].flags.add("POWERED_DOWN")
    slurm.nodes["n3"].flags.add("POWERING_DOWN")
    slurm.nodes["n4"].flags.add("POWERING_UP")
    meter = slurm_meter(slurm)
    meter.look(0.0)
    assert meter.used_j(10.0) == pytest.approx(10 * (93 + 5 + 60 + 80 + 41))
    assert slurm.changing == []


def test_slurm_is_asked_now_and_then() -> None:
    slurm = FakeSlurm(1)
    slurm.watts = {"n1": 80}
    meter = slurm_meter(slurm)
    for now_s in range(31):
        meter.look(float(now_s))
    assert slurm.commands.count(("scontrol", "show", "nodes", "--oneliner")) == 3


def test_a_node_without_a_power_is_told_and_the_rest_is_not_taken_for_all() -> None:
    slurm = FakeSlurm(2)
    slurm.watts = {"n1": 80}
    meter = slurm_meter(slurm)
    meter.look(0.0)
    assert meter.used_j(5.0) == 0.0
    assert meter.notes == [
        "slurm cannot be read: Slurm has no power of node n2: see CurrentWatts in 'scontrol show node n2'"
    ]
    slurm.watts["n2"] = 60
    meter.look(20.0)
    assert meter.used_j(20.0) == pytest.approx(20 * 140.0)


def test_a_controller_that_is_away_gives_no_reading() -> None:
    slurm = FakeSlurm(1)
    meter = slurm_meter(slurm)
    slurm.away = True
    meter.look(0.0)
    assert meter.notes == []  # the service has told
    assert meter.used_j(5.0) == 0.0


@pytest.mark.parametrize(
    ("text", "settings", "told"),
    [
        ("watts", {}, "--meter: found 'watts', expected model, slurm, command:PROGRAM ARGS or prometheus:"),
        ("./file", {}, "--meter: found './file', expected model"),
        ("command:", {}, "the meter source does not name a program"),
        ("slurm", {}, r"\(acct_gather_energy/none\): add to slurm.conf: AcctGatherEnergyType="),
        (
            "slurm",
            GATHERS | {"AcctGatherNodeFreq": "0 sec"},
            r"\(AcctGatherNodeFreq=0 sec\): add to slurm.conf: AcctGatherNodeFreq=30",
        ),
    ],
)
def test_meters_that_cannot_work_are_refused(text: str, settings: dict[str, str], told: str) -> None:
    slurm = FakeSlurm(1)
    slurm.settings |= settings
    with pytest.raises(ConfigError, match=told):
        open_meter(text, Slurm(slurm), platform_of(1), EPOCH_S)


def test_the_model_is_no_meter() -> None:
    assert open_meter("model", Slurm(FakeSlurm(1)), platform_of(1), EPOCH_S) is None


# --- a run --------------------------------------------------------------------------------------------------


def test_steps_are_settled_with_what_was_measured() -> None:
    """One node that draws 30 W more than the model's 100 W and 50 W."""
    slurm = FakeSlurm(1)
    meter = SlurmSource(Slurm(slurm), platform_of(1), 1.0)
    slurm.watts = {"n1": 130}
    submit(slurm, run_s=25, limit_s=120)
    site = Site(Storage(BatterySpec(1e6)), 10.0, 3600.0)
    beside = Beside(slurm, site=site, meter=meter)
    beside.until(lambda: all_over(slurm))
    slurm.watts = {"n1": 80}
    beside.go(22)
    power = beside.session.power
    assert power is not None
    consumed_w = [row.record.demand_w for row in power.trace]
    assert consumed_w[:2] == pytest.approx([130.0, 130.0], abs=0.5)
    assert consumed_w[-1] == pytest.approx(80.0, abs=0.5)
    assert beside.said == []
