"""What a scenario is, the runs that it stands for, and the scenario files that come with the program.

A scenario is everything that a comparison of policies needs, with all defaults filled in; a scenario file
becomes one (see `scenario_file`). Its *tuples* are pairs of a workload and a production, with a plan each;
its *seeds* draw the noise that makes forecasts real.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from beasy_sched.energy.site import GuardMode, Site
from beasy_sched.energy.sources import Interpolation
from beasy_sched.errors import ConfigError
from beasy_sched.formats.site_file import parse_site
from beasy_sched.generate.noise import SIGMA, ProductionCase, WalltimeRule
from beasy_sched.generate.power import SYNTHETIC_START, Gaps, Route, SyntheticWeather
from beasy_sched.plan.forecast import Uncertainty
from beasy_sched.plan.power_problem import Surplus
from beasy_sched.units import SECONDS_PER_HOUR

Value = bool | int | float | str
SiteSections = dict[str, dict[str, Value]]


_QUICK_WINDOW_H: Final = 24.0
_QUICK_TUPLES: Final = 2
PAPER_POLICIES: Final = (
    "follow-plan",
    "power-reactive",
    "workload-reactive",
    "peak",
    "next",
    "last",
    "workload",
    "beasy",
)
"""The eight policies of the BEASY paper, in the order of its Table I."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of a scenario's parts: unknown names are refused."""


class PlatformPart(Part, frozen=True, kw_only=True):
    """The servers."""

    servers: dict[str, int]
    """Preset names or server files, and how many of each."""
    one_pstate: bool = False
    """Only the fastest computing P-state of each."""
    reference: str | None = None
    """Server at whose median speed run times count (None: the first of ``servers``)."""


class SyntheticWorkload(Part, frozen=True, kw_only=True, tag_field="source", tag="synthetic"):
    """Jobs that are drawn; see `generate.workload`."""

    seed: int
    shape: Literal["begin", "end", "uniform"] = "begin"
    """Which third of the time most jobs arrive in."""
    jobs: int = 900
    run_median_s: float = 1800.0
    run_log_sd: float = 1.3
    run_cap_s: float = 21_600.0
    gap_log_sd: float = 1.0
    host_shares: dict[int, float] = msgspec.field(default_factory=lambda: {1: 70.0, 2: 15.0, 4: 15.0})

    @property
    def arrivals(self) -> str:
        """The name of the shape."""
        return self.shape


class SwfWorkload(Part, frozen=True, kw_only=True, tag_field="source", tag="swf"):
    """Jobs of a trace."""

    file: str
    start: float | str = msgspec.field(name="from", default=0.0)
    """Start in the trace: seconds, or a duration such as ``30d``."""
    cores_per_host: int = 1
    min_run_s: float = 0.0
    max_run_s: float | None = None

    @property
    def arrivals(self) -> str:
        """``swf``."""
        return "swf"


WorkloadPart = SyntheticWorkload | SwfWorkload


class ProductionSource(Part, frozen=True, kw_only=True):
    """What the sources of production have in common."""

    case: ProductionCase = ProductionCase.BETWEEN
    pv_kw: float = 0.0
    wind_kw: float = 0.0


class SyntheticProduction(ProductionSource, frozen=True, kw_only=True, tag_field="source", tag="synthetic"):
    """A sky that is drawn; see `generate.power`."""

    seed: int
    start: str = SYNTHETIC_START
    latitude_deg: float = SyntheticWeather.latitude_deg
    cloudiness: float = SyntheticWeather.cloudiness
    cloud_memory_h: float = SyntheticWeather.cloud_memory_h
    wind_mean_m_s: float = SyntheticWeather.wind_mean_m_s
    wind_shape: float = SyntheticWeather.wind_shape
    wind_memory_h: float = SyntheticWeather.wind_memory_h

    def weather(self) -> SyntheticWeather:
        """Return the climate. Raises `FieldError`."""
        return SyntheticWeather(
            self.latitude_deg,
            self.cloudiness,
            self.cloud_memory_h,
            self.wind_mean_m_s,
            self.wind_shape,
            self.wind_memory_h,
        )


class FileProduction(ProductionSource, frozen=True, kw_only=True, tag_field="source", tag="files"):
    """Exports of Renewables.ninja, or other weather files."""

    pv: str | None = None
    wind: str | None = None
    start: str | None = None
    """Start in the files, UTC (None: where they begin)."""
    route: Route = Route.AUTO
    gaps: Gaps = Gaps.REFUSE
    interpolation: Interpolation = Interpolation.SMOOTH


ProductionPart = SyntheticProduction | FileProduction


class TuplePart(Part, frozen=True, kw_only=True):
    """A workload and a production that are forecast together, and planned for."""

    workload: WorkloadPart
    production: ProductionPart


class NoisePart(Part, frozen=True, kw_only=True):
    """How the real workload differs from the forecast; see `generate.noise`."""

    arrivals_sigma: float = SIGMA
    run_time_sigma: float = SIGMA
    walltimes: WalltimeRule = "groups"


class PlanPart(Part, frozen=True, kw_only=True):
    """The offline plans; see ``beasy-sched plan``. The uncertainty of production bounds its cases, too."""

    make: bool = True
    """False for policies that need none; the hydrogen then stands still."""
    surplus: Surplus = Surplus.ENVELOPE
    load_uncertainty_pct: tuple[float, float] = (5.0, 30.0)
    """At once, and after 72 h."""
    renew_uncertainty_pct: tuple[float, float] = (5.0, 30.0)
    minimum_on_s: float = 3600.0

    def uncertainty(self, name: Literal["load", "renew"]) -> Uncertainty:
        """Return u of the demand or of the production. Raises ConfigError."""
        at_once, later = getattr(self, f"{name}_uncertainty_pct")
        return Uncertainty(at_once / 100.0, later / 100.0)


class PolicyPart(Part, frozen=True, kw_only=True):
    """A policy that is compared."""

    name: str
    options: dict[str, Any] = {}
    label: str = ""
    """What tables call it; the name, where the file has none."""


class GuardPart(Part, frozen=True, kw_only=True):
    """A setting of the storage guard."""

    mode: GuardMode
    veto: bool

    @property
    def label(self) -> str:
        """``kill-all``, ``shed+veto`` and so on."""
        return self.mode.value + ("+veto" if self.veto else "")


PAPER_GUARDS: Final = (
    GuardPart(mode=GuardMode.KILL_ALL, veto=False),
    GuardPart(mode=GuardMode.SHED, veto=True),
)
"""The papers' guard, and ours."""


class Scenario(Part, frozen=True, kw_only=True):
    """All of it; paths are absolute."""

    name: str
    comment: str = ""
    platform: PlatformPart
    site: SiteSections
    """The site file's sections, without the guard."""
    windows: int = 1
    tuples: tuple[TuplePart, ...]
    noise: NoisePart = NoisePart()
    plan: PlanPart = PlanPart()
    policies: tuple[PolicyPart, ...] = tuple(PolicyPart(name=name, label=name) for name in PAPER_POLICIES)
    guards: tuple[GuardPart, ...] = PAPER_GUARDS
    seeds: tuple[int, ...]

    def site_text(self, guard: GuardPart | None = None) -> str:
        """Return the text of the site file, with a guard or without."""
        section = {} if guard is None else {"guard": {"mode": guard.mode.value, "veto": guard.veto}}
        return site_text({**self.site, **section})

    def parsed_site(self) -> Site:
        """Return the site. Raises InputError."""
        return parse_site(self.site_text(), "site")

    @property
    def servers(self) -> int:
        """Number of servers."""
        return sum(self.platform.servers.values())


def site_text(sections: Mapping[str, Mapping[str, Value]]) -> str:
    """Write TOML; the same sections give the same text, whatever their order."""
    lines = []
    for name in sorted(sections):
        lines.append(f"[{name}]")
        lines += [f"{key} = {_value(sections[name][key])}" for key in sorted(sections[name])]
        lines.append("")
    return "\n".join(lines)


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    return repr(value)


@dataclass(frozen=True)
class RunSpec:
    """One run."""

    scenario: Scenario
    tuple_number: int
    seed: int
    guard: GuardPart
    policy: PolicyPart

    @property
    def key(self) -> str:
        """Its name, unique in a campaign and fit for a file."""
        where = f"{self.scenario.name}.t{self.tuple_number}.s{self.seed}"
        return f"{where}.{self.guard.label}.{self.policy.label}"


def expand(scenarios: Sequence[Scenario]) -> list[RunSpec]:
    """Return all runs in the order of result tables. Raises ConfigError for scenarios of one name."""
    names = [scenario.name for scenario in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two scenarios are called {name!r}: rename one")
    return [
        RunSpec(scenario, number, seed, guard, policy)
        for scenario in scenarios
        for number in range(len(scenario.tuples))
        for seed in scenario.seeds
        for guard in scenario.guards
        for policy in scenario.policies
    ]


def quick(scenario: Scenario) -> Scenario:
    """Return a small relative of a scenario, to try things out: 24 h, two tuples, one seed.

    Synthetic jobs become fewer in proportion; the rest stays. Its results say little about the scenario.
    """
    site = scenario.parsed_site()
    window_h = min(site.window_s / SECONDS_PER_HOUR, _QUICK_WINDOW_H)
    share = window_h * SECONDS_PER_HOUR / site.window_s
    sections = {**scenario.site, "time": {**scenario.site.get("time", {}), "window_h": window_h}}
    tuples = []
    for part in scenario.tuples[:_QUICK_TUPLES]:
        workload = part.workload
        if isinstance(workload, SyntheticWorkload):
            workload = msgspec.structs.replace(workload, jobs=max(round(workload.jobs * share), 1))
        tuples.append(msgspec.structs.replace(part, workload=workload))
    return msgspec.structs.replace(scenario, site=sections, tuples=tuple(tuples), seeds=scenario.seeds[:1])


CASES: Final = ("best", "worst")
SHAPES: Final = ("begin", "end")
NAMES: Final = (*(f"{case}-{shape}" for case in CASES for shape in SHAPES), "average")
"""Names of the scenarios: the four critical ones, and the average cases."""

_AVERAGE_TUPLES: Final = 10
_AVERAGE_SHAPES: Final = ("begin", "end", "uniform")
_CRITICAL_WORKLOADS: Final = {"begin": 101, "end": 102}
"""Seeds of the two workloads."""
_CRITICAL_PRODUCTION: Final = 18
"""Seed of the one profile; the file says why this one."""


def scenario_text(name: str) -> str:
    """Return the file of one of `NAMES`. Raises KeyError."""
    if name == "average":
        return _AVERAGE + _average_tuples() + _SITE + _ENDING
    case, shape = {f"{case}-{shape}": (case, shape) for case in CASES for shape in SHAPES}[name]
    head = _CRITICAL.format(
        name=name,
        case=case,
        bound={"best": "upper", "worst": "lower"}[case],
        shape=shape,
        day={"begin": "first", "end": "third"}[shape],
        workload=_CRITICAL_WORKLOADS[shape],
        production=_CRITICAL_PRODUCTION,
        platform=_PLATFORM,
        sky=_SKY,
    )
    return head + _SITE + _ENDING


def _average_tuples() -> str:
    """Ten pairs, as their seeds draw them."""
    lines = ["", "# The ten pairs, a plan each: seeds 1 to 10 as they come, none left out."]
    for number in range(_AVERAGE_TUPLES):
        shape = _AVERAGE_SHAPES[number % len(_AVERAGE_SHAPES)]
        seed = number + 1
        lines += ["[[tuples]]", f'workload = {{ seed = {seed}, shape = "{shape}" }}']
        lines.append(f"production = {{ seed = {seed} }}")
    return "\n".join([*lines, ""])


_PLATFORM: Final = """
[platform]
servers = { gros = 50 }         # 0.2 kW asleep, 7.2 kW busy
"""

_SKY: Final = """\
# The sky is the generator's own (October, half cloudy, 4 m/s of wind on average). Over seeds 1000 to 1029,
# which no result uses, 10 kW of sun and 7 kW of wind give 186 +- 51 kWh in three days; the workloads' demand
# (seeds 1000 to 1009) is 162 +- 3 kWh with all other servers asleep. That is 1.15 of it on average; with idle
# servers and wakes, policies that start what they can use 145 to 210 kWh.
"""

_CRITICAL: Final = """\
# BEASY paper, Section V-A, one of four: jobs mainly on the {day} of three days, production at the
# {bound} bound of its prediction. The paper prints no sizes: those here, and why, are ours.

name = "{name}"
comment = "BEASY paper, Section V-A: {case} case, workload in the {shape}"
seeds = [1]                     # of the noise; more of them show how much hangs on it
{platform}
# 900 jobs in three days: 75, 17 and 8 % in each ("begin"), or the other way round ("end").
[workload]
source = "synthetic"
shape = "{shape}"
seed = {workload}
jobs = 900
run_median_s = 1800             # log-normal, cut at six hours
run_log_sd = 1.3
run_cap_s = 21600
host_shares = {{ 1 = 70, 2 = 15, 4 = 15 }}

{sky}# The profile is the first one, from seed 1 on, that gives 1.0 to 1.2 of the demand of both workloads: a
# window that can be planned, and that is not drowned in energy. No result was looked at to choose it.
[production]
source = "synthetic"
seed = {production}
case = "{case}"
pv_kw = 10
wind_kw = 7
"""

_AVERAGE: Final = f"""\
# BEASY paper, Section V-B: ten pairs of workload and production with a plan each, ten noises each; production
# anywhere between the bounds of its prediction, step by step. The paper prints no sizes: those here, and why,
# are ours.

name = "average"
comment = "BEASY paper, Section V-B: average cases"
seeds = {{ first = 1, count = 10 }}
{_PLATFORM}
[workload]
source = "synthetic"
jobs = 900
run_median_s = 1800             # log-normal, cut at six hours
run_log_sd = 1.3
run_cap_s = 21600
host_shares = {{ 1 = 70, 2 = 15, 4 = 15 }}

{_SKY}[production]
source = "synthetic"
case = "between"
pv_kw = 10
wind_kw = 7
"""

_SITE: Final = """
# A battery whose use is 70 kWh, less than half a window's demand, so that it matters how one deals with it:
# on four pairs of seeds from 1000 on, twice the battery ended six to eight in ten of the kills of the
# reactive policies (kill-all).
[site.battery]
capacity_kwh = 100.0
charge_limit_kw = 25.0          # 0.25 of the capacity an hour
discharge_limit_kw = 50.0       # 0.5 of it
soc_min_pct = 20.0
soc_max_pct = 90.0
soc_start_pct = 50.0
soc_target_pct = 50.0
charge_efficiency = 0.95
discharge_efficiency = 0.95
self_discharge_pct_per_day = 0.2

[site.time]
step_s = 300
window_h = 72
"""

_ENDING: Final = """
# The rest is as without these lines. The forecast of production is off by 5 % at once and by 30 % after 72 h,
# here and in the plan.
[noise]
arrivals_sigma = 0.2            # of the times between arrivals
run_time_sigma = 0.2
walltimes = "groups"            # run time x 5, 3.33, 2, 1.43 or 1.11

[plan]
load_uncertainty_pct = [5, 30]
renew_uncertainty_pct = [5, 30]

[[guards]]                      # the papers': below 20 % every running job is killed
mode = "kill-all"
veto = false

[[guards]]                      # ours: as few as need be, and nothing starts that there is no energy for
mode = "shed"
veto = true
"""
