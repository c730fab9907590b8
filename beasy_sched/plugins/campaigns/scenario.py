"""Scenario data model, and the built-in scenario files.

A scenario defines a comparison of policies, with all defaults filled in; it is read from a scenario file
(see `scenario_file`). Its *tuples* are pairs of a workload and a production, with a plan each; its *seeds*
generate the noise that turns forecasts into actual values. `sweep` lists its runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from beasy_sched.declared import default_of, made_of
from beasy_sched.energy.site import GuardMode, Site
from beasy_sched.errors import ConfigError
from beasy_sched.formats.reading import package_text
from beasy_sched.formats.site_file import parse_site
from beasy_sched.generate.power_events import SYNTHETIC_START
from beasy_sched.generate.power_options import FileOptions, Gaps, PowerOptions, Route, SyntheticWeather
from beasy_sched.generate.workload_options import ArrivalShape, Chains, SwfOptions, SyntheticOptions
from beasy_sched.model.choices import SIGMA, Interpolation, OnKill, ProductionCase, Surplus, WalltimeRule
from beasy_sched.planner.plan_options import PlanOptions
from beasy_sched.units import SECONDS_PER_HOUR, parse_duration

SiteSections = dict[str, dict[str, Any]]
"""The site file's sections; values are as in TOML, except that times are strings."""

SITE_FILES: Final = (
    ("grid", "price"),
    ("grid", "carbon"),
    ("cooling", "temperature"),
    ("load", "series"),
)
"""Sections of a site, and their fields, that may name a file."""
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
    """Base of a scenario's parts: unknown names are errors."""


class PlatformPart(Part, frozen=True, kw_only=True):
    """The servers."""

    servers: dict[str, int]
    """Preset names or server files, with the number of each."""
    one_pstate: bool = False
    """Only the fastest computing P-state of each."""
    reference: str | None = None
    """Server whose median speed applies to run times (None: the first of ``servers``)."""


class SyntheticWorkload(Part, frozen=True, kw_only=True, tag_field="source", tag="synthetic"):
    """Generated jobs; see `generate.workload`."""

    seed: int
    shape: ArrivalShape = "begin"
    """The third of the time in which most jobs arrive."""
    jobs: int = SyntheticOptions.jobs
    run_median_s: float = SyntheticOptions.run_median_s
    run_log_sd: float = SyntheticOptions.run_log_sd
    run_cap_s: float = SyntheticOptions.run_cap_s
    gap_log_sd: float = SyntheticOptions.gap_log_sd
    quiet_end_h: float = SyntheticOptions.quiet_end_h
    host_shares: dict[int, float] = msgspec.field(
        default_factory=lambda: default_of(SyntheticOptions, "host_shares")
    )

    @property
    def arrivals(self) -> str:
        """The name of the shape."""
        return self.shape

    def stretched(self, factor: float) -> SyntheticWorkload:
        """Return jobs ``factor`` times as long, and fewer in proportion: the demand stays about the same."""
        return msgspec.structs.replace(
            self,
            run_median_s=self.run_median_s * factor,
            run_cap_s=self.run_cap_s * factor,
            jobs=max(round(self.jobs / factor), 1),
        )


class SwfWorkload(Part, frozen=True, kw_only=True, tag_field="source", tag="swf"):
    """Jobs of a trace."""

    file: str
    start: float | str = msgspec.field(name="from", default=0.0)
    """Start in the trace: seconds, or a duration such as ``30d``."""
    cores_per_host: int = SwfOptions.cores_per_host
    min_run_s: float = SwfOptions.min_run_s
    max_run_s: float | None = None

    @property
    def arrivals(self) -> str:
        """``swf``."""
        return "swf"


WorkloadPart = SyntheticWorkload | SwfWorkload


class ProductionSource(Part, frozen=True, kw_only=True):
    """Base of the sources of production."""

    case: ProductionCase = ProductionCase.BETWEEN
    pv_kw: float = PowerOptions.pv_kw
    wind_kw: float = PowerOptions.wind_kw


class SyntheticProduction(ProductionSource, frozen=True, kw_only=True, tag_field="source", tag="synthetic"):
    """Generated weather; see `generate.power_events`."""

    seed: int
    start: str = SYNTHETIC_START
    latitude_deg: float = SyntheticWeather.latitude_deg
    cloudiness: float = SyntheticWeather.cloudiness
    cloud_memory_h: float = SyntheticWeather.cloud_memory_h
    wind_mean_m_s: float = SyntheticWeather.wind_mean_m_s
    wind_shape: float = SyntheticWeather.wind_shape
    wind_memory_h: float = SyntheticWeather.wind_memory_h

    def weather(self) -> SyntheticWeather:
        """Return the climate. Raises ConfigError."""
        return made_of(SyntheticWeather, msgspec.structs.asdict(self))


class FileProduction(ProductionSource, frozen=True, kw_only=True, tag_field="source", tag="files"):
    """Exports of Renewables.ninja, or other weather files."""

    pv: str | None = None
    wind: str | None = None
    start: str | None = None
    """Start in the files, UTC (None: their beginning)."""
    route: Route = FileOptions.route
    gaps: Gaps = FileOptions.gaps
    interpolation: Interpolation = FileOptions.interpolation


ProductionPart = SyntheticProduction | FileProduction


class TuplePart(Part, frozen=True, kw_only=True):
    """A workload and a production with a common forecast and plan."""

    workload: WorkloadPart
    production: ProductionPart
    real_workload: WorkloadPart | None = None
    """Actual jobs, before noise, if they differ from the forecast ones."""


class NoisePart(Part, frozen=True, kw_only=True):
    """Difference of the actual workload from the forecast; see `generate.noise`."""

    arrivals_sigma: float = SIGMA
    run_time_sigma: float = SIGMA
    walltimes: WalltimeRule = "groups"
    production_band: float = 1.0
    """Width of the band of the actual production, relative to the plan's; above 1, it exceeds that."""


class PlanPart(Part, frozen=True, kw_only=True):
    """The offline plans; see ``beasy-sched plan``. The uncertainty of production also bounds its cases."""

    make: bool = True
    """False for policies that need none; hydrogen is then not used."""
    surplus: Surplus = PlanOptions.surplus
    load_uncertainty_pct: tuple[float, float] = PlanOptions.load_uncertainty_pct
    renew_uncertainty_pct: tuple[float, float] = PlanOptions.renew_uncertainty_pct
    minimum_on_s: float = PlanOptions.minimum_on_s
    demand_factor: float = 1.0
    """Planned demand over that of the workload, both above that of a sleeping site."""
    forecast_step: str = ""
    """Time over which the planned demand is averaged, such as ``1h``; empty: each step."""
    replan: str = ""
    """Times of plans during the runs, as in ``--replan``; empty: all plans are made before."""
    season: str = ""
    """Length of the steps, such as ``1h``, of a seasonal plan of all windows with their hydrogen targets;
    empty: no seasonal plan, each window has the site's target."""

    def options(self) -> PlanOptions:
        """Return the options of the planner. Raises ConfigError that begins with the field."""
        try:
            forecast_step_s = parse_duration(self.forecast_step) if self.forecast_step else 0.0
        except ValueError as error:
            raise ConfigError(f"forecast_step: {error}") from None
        return made_of(PlanOptions, msgspec.structs.asdict(self), forecast_step_s=forecast_step_s)


class ForecastPart(Part, frozen=True, kw_only=True):
    """Predictions of the production for policies that plan ahead; see ``--forecast``."""

    source: Literal["perfect", "plan", "file", "predictor", "none"]
    """``perfect``: the actual production; ``plan``: the forecast used for plans."""
    file: str | None = None
    """For ``file`` and ``predictor``."""

    def named(self, folder: Path) -> str:
        """Return the source in the notation of ``--forecast``; files of the run are in ``folder``."""
        names = {
            "perfect": f"perfect:{folder / 'power.txt'}",
            "plan": str(folder / "forecast.csv"),
            "file": str(self.file),
            "predictor": f"predictor:{self.file}",
        }
        return names.get(self.source, "none")


class DeadlinesPart(Part, frozen=True, kw_only=True):
    """Deadlines of jobs; see ``beasy-sched generate workload --deadlines`` and ``--chains``."""

    rule: str = "none"
    """Times of day follow the site's clock; without one, the trace, or time 0 is midnight."""
    chains: Chains = SwfOptions.chains


class PolicyPart(Part, frozen=True, kw_only=True):
    """A policy to compare."""

    name: str
    options: dict[str, Any] = {}
    label: str = ""
    """Its label in tables; the name if the file has none."""
    on_kill: OnKill | msgspec.UnsetType = msgspec.UNSET
    """Treatment of killed jobs in its runs; unset: they are lost."""


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
"""The guard of the papers, and that of beasy-sched."""


class Scenario(Part, frozen=True, kw_only=True):
    """A whole scenario; paths are absolute."""

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
    forecast: ForecastPart | None = None
    deadlines: DeadlinesPart | None = None
    sweep: dict[str, tuple[float, ...]] = {}
    """Sizes to vary: the values of each axis; see `sweep`."""

    def site_text(self, guard: GuardPart | None = None) -> str:
        """Return the site file (TOML), with or without a guard; the same sections give the same text."""
        sections: SiteSections = {**self.site}
        if guard is not None:
            sections["guard"] = {"mode": guard.mode.value, "veto": guard.veto}
        lines = []
        for name, section in sorted(sections.items()):
            lines += [f"[{name}]", *(f"{key} = {_toml(section[key])}" for key in sorted(section)), ""]
        return "\n".join(lines)

    def parsed_site(self) -> Site:
        """Return the site. Raises InputError."""
        return parse_site(self.site_text(), "site")

    @property
    def site_files(self) -> list[str]:
        """Files that the site names: of prices, carbon intensities, temperatures, services."""
        named = (self.site.get(section, {}).get(field) for section, field in SITE_FILES)
        return [each["file"] if isinstance(each, dict) else each for each in named if each is not None]

    @property
    def servers(self) -> int:
        """Number of servers."""
        return sum(self.platform.servers.values())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(value[key])}" for key in sorted(value)) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value) if isinstance(value, bool | str) else repr(value)


def quick(scenario: Scenario) -> Scenario:
    """Return a quick version of a scenario for trials: 24 h, two tuples, one seed.

    The number of synthetic jobs is reduced in proportion; everything else, including a sweep, is kept. Its
    results are not representative of the scenario.
    """
    site = scenario.parsed_site()
    window_h = min(site.window_s / SECONDS_PER_HOUR, _QUICK_WINDOW_H)
    share = window_h * SECONDS_PER_HOUR / site.window_s
    sections = {**scenario.site, "time": {**scenario.site.get("time", {}), "window_h": window_h}}
    tuples = []
    for part in scenario.tuples[:_QUICK_TUPLES]:
        workload, real = _fewer(part.workload, share), part.real_workload
        real = None if real is None else _fewer(real, share)
        tuples.append(msgspec.structs.replace(part, workload=workload, real_workload=real))
    return msgspec.structs.replace(scenario, site=sections, tuples=tuple(tuples), seeds=scenario.seeds[:1])


def _fewer(workload: WorkloadPart, share: float) -> WorkloadPart:
    if not isinstance(workload, SyntheticWorkload):
        return workload
    return msgspec.structs.replace(workload, jobs=max(round(workload.jobs * share), 1))


PAPER: Final = ("best-begin", "best-end", "worst-begin", "worst-end", "average")
"""The BEASY paper's four critical scenarios, and its average cases."""
ABUNDANT_PREFIX: Final = "abundant-"
ABUNDANT: Final = tuple(ABUNDANT_PREFIX + name for name in PAPER)
"""The same with abundant solar power and a small battery, on other days."""
NAMES: Final = (*PAPER, *ABUNDANT)
"""Names of the built-in scenarios."""


def scenario_text(name: str) -> str:
    """Return the file of one of `NAMES`."""
    return package_text("beasy_sched.plugins.campaigns", "scenarios", f"{name}.toml")
