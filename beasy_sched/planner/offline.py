"""Plans from files: sources of plans, and the plans of windows or of a season."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.sources import with_own_w
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.formats.batsim_workload import workload_demand_w
from beasy_sched.formats.forecast_source import forecast_files, read_forecast
from beasy_sched.formats.plan_file import read_season
from beasy_sched.formats.power_series import read_demand, read_power_series
from beasy_sched.formats.reading import in_file, read_bytes
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import DEFAULT_SITE, parse_site, read_site_text
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import full_draw_w
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.plan import PlanStore, Provenance
from beasy_sched.planner.plan_options import _limits
from beasy_sched.planner.power_problem import PowerProblem, check_sizes
from beasy_sched.planner.season import Season, SeasonProblem, plan_season, season_steps
from beasy_sched.planner.windows import plan_windows
from beasy_sched.units import w_to_kw

Tell = Callable[[str, str], None]
"""Callback for unusual input: ``"note"`` or ``"warning"``, and the message."""


@dataclass(frozen=True)
class PlanSources:
    """Files from which a plan is made, and how they are read.

    The demand is that of ``workloads``, or ``demand`` itself; the production is ``production``, or the
    forecast of ``production_forecast`` issued at time 0.
    """

    platform: PathLike
    site: PathLike = DEFAULT_SITE
    """Site file, or the name of the built-in one."""
    workloads: Sequence[PathLike] = ()
    demand: PathLike | None = None
    """File with the powers of the demand, or with their quantiles: events or CSV."""
    production: PathLike | None = None
    """File with the powers of the production: events or CSV."""
    production_forecast: str | None = None
    """Source of the production forecast, in the syntax of ``--forecast``."""
    windows: int = 1
    """Number of the site's windows to plan."""
    season: PathLike | None = None
    """Coarse plan with the windows' hydrogen targets."""
    other_years: Sequence[PathLike] = ()
    """Files with the production of other possible years."""
    walltimes: bool = False
    """Whether jobs are expected to run to their walltimes instead of by their profiles."""
    unit: str | None = None
    """Unit of CSV columns without a unit in their names."""
    master_host: str = "master_host"
    tell: Tell = lambda kind, text: None

    @cached_property
    def site_text(self) -> str:
        """Return the text of the site file. Raises InputError."""
        return read_site_text(self.site)

    def read_site(self) -> Site:
        """Read the site. Raises InputError."""
        return parse_site(self.site_text, str(self.site))

    def read_platform(self) -> Platform:
        """Read the platform. Raises InputError, and ConfigError if it has no speeds or powers."""
        described = read_simgrid_platform(self.platform, master=self.master_host)
        for note in described.notes:
            self.tell("warning", note)
        if not (described.platform.has_powers and described.platform.has_speeds):
            raise ConfigError(
                f"{self.platform}: planning requires the speeds and powers of every host; generate the "
                "platform with 'beasy-sched generate platform'"
            )
        return described.platform

    def demand_w(self, platform: Platform, steps: int, step_s: float) -> tuple[FloatArray, Quantiles | None]:
        """Return the demand of each step, W, and its quantiles if a file has them; raises InputError.

        Warns of a demand that exceeds the servers.
        """
        quantiles = None
        if self.demand is not None:
            load_w, quantiles = read_demand(self.demand, steps=steps, step_s=step_s, unit=self.unit)
        else:
            paths = [Path(path) for path in self.workloads]
            load_w = workload_demand_w(paths, platform, steps=steps, step_s=step_s, walltimes=self.walltimes)
        peak_w, most_w = float(load_w.max()), full_draw_w(platform)
        if peak_w > most_w * (1 + 1e-9):
            self.tell(
                "warning",
                f"the demand reaches {w_to_kw(peak_w):.4g} kW, but the servers draw at most "
                f"{w_to_kw(most_w):.4g} kW: the excess is not planned for",
            )
        return load_w, quantiles

    def production_w(self, site: Site, steps: int | None, step_s: float) -> FloatArray:
        """Return the production assumed in the plan, W per step; without ``steps``, all of the file.

        Raises InputError and ConfigError.
        """
        if self.production is not None:
            announced_w = read_power_series(self.production, steps=steps, step_s=step_s, unit=self.unit)
            return with_own_w(site.sources, announced_w, step_s)
        source = read_forecast(self.production_forecast or "none", site, self.windows)
        renew_w = source.renewable_w(0.0, step_s, steps or site.steps)
        for note in source.notes:
            self.tell("note", f"forecast: {note}")
        if source.name != "none" and not renew_w.any():
            self.tell(
                "warning",
                "the forecast has no production as issued at time 0: is [time] start of the"
                " site file right, and was it issued by then?",
            )
        return renew_w

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of all sources of the plan, by role."""
        files: dict[str, PathLike | None] = {"platform": self.platform, "production": self.production}
        files["demand"] = self.demand
        if self.production_forecast is not None:
            named = enumerate(forecast_files(self.production_forecast))
            files |= {f"production forecast {number}": path for number, path in named}
        files |= {f"workload {number}": path for number, path in enumerate(self.workloads)}
        files |= {f"other year {number}": path for number, path in enumerate(self.other_years)}
        return hashes_of({**files, "season": self.season}, self.site_text)


def hashes_of(files: Mapping[str, PathLike | None], site_text: str) -> dict[str, str]:
    """Return the SHA-256 of existing files, and of the site, by role. Raises InputError."""
    contents = {name: read_bytes(path) for name, path in files.items() if path is not None}
    contents["site"] = site_text.encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def season_targets_kg(path: PathLike, site: Site, windows: int) -> tuple[float, ...]:
    """Return the windows' hydrogen targets, kg, of the coarse plan at ``path``. Raises InputError."""
    season = read_season(path)
    with in_file(path):
        season.check_site(site.storage, site.window_s)
        return season.targets_for(windows)


def plan_from_files(
    sources: PlanSources, options: OfflineOptions, report: Callable[[float], None] | None = None
) -> PlanStore:
    """Plan the site's windows, one after the other; ``report`` is called with the share completed.

    The hydrogen targets are those of the sources. Raises ConfigError, InputError and NoPlan.
    """
    site, platform = sources.read_site(), sources.read_platform()
    steps = site.steps * sources.windows
    renew_w = sources.production_w(site, steps, site.step_s)
    load_w, load_quantiles = sources.demand_w(platform, steps, site.step_s)
    for note in check_sizes(PowerProblem(site.storage, load_w, renew_w, site.step_s)):
        sources.tell("warning", note)
    targets_kg = () if sources.season is None else season_targets_kg(sources.season, site, sources.windows)
    return plan_windows(
        site,
        platform,
        load_w,
        renew_w,
        options=replace(options, tank_targets_kg=targets_kg),
        provenance=Provenance(f"beasy-sched {__version__}", inputs=sources.hashes()),
        report=report,
        load_quantiles=load_quantiles,
    )


def season_from_files(
    sources: PlanSources,
    step_s: float,
    windows: int | None,
    *,
    least_end_kg: float | None = None,
    time_limit_s: float | None = None,
    report: Callable[[float], None] | None = None,
) -> Season:
    """Plan a season coarsely, in steps of ``step_s``; without ``windows``, for the length of the production.

    ``least_end_kg`` is the least hydrogen at the end (None: as much as at the start). Raises ConfigError,
    InputError and NoPlan.
    """
    site, platform = sources.read_site(), sources.read_platform()
    per_window = season_steps(step_s, site.window_s, "--season-step")
    steps = None if windows is None else per_window * windows
    if steps is None and sources.production is None:
        raise ConfigError("--season with --production-forecast requires the length: give --windows")
    renew_w = sources.production_w(site, steps, step_s)
    others_w = tuple(
        with_own_w(
            site.sources,
            read_power_series(path, steps=len(renew_w), step_s=step_s, unit=sources.unit),
            step_s,
        )
        for path in sources.other_years
    )
    load_w, _ = sources.demand_w(platform, len(renew_w), step_s)
    settings = {"season_step_s": f"{step_s:g}"}
    if site.calendar is not None:
        settings["start"] = site.calendar.start.isoformat()
        if site.calendar.zone is not None:
            settings["zone"] = str(site.calendar.zone)
    return plan_season(
        SeasonProblem.of_site(site, platform, load_w, renew_w, step_s, least_end_kg),
        others_w,
        provenance=Provenance(f"beasy-sched {__version__}", inputs=sources.hashes(), settings=settings),
        limits=_limits(time_limit_s),
        report=report,
    )
