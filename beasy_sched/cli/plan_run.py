"""From the files on the command line to plans."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import click

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.cli.plan_options import PlanOptions
from beasy_sched.cli.progress import progress_bar
from beasy_sched.energy.site import DEFAULT_SITE, Site, parse_site, read_site_text
from beasy_sched.errors import ConfigError
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.workload_demand import workload_demand_w
from beasy_sched.model.platform import Platform
from beasy_sched.plan.demand import full_draw_w
from beasy_sched.plan.forecast import Uncertainty
from beasy_sched.plan.offline import OfflineOptions, plan_windows
from beasy_sched.plan.plan import Provenance
from beasy_sched.plan.power_problem import PowerProblem, Surplus, check_sizes
from beasy_sched.plan.servers import ServerRules
from beasy_sched.plan.solver import SolverLimits
from beasy_sched.plan.store import PlanStore
from beasy_sched.units import w_to_kw


def make_plans(options: PlanOptions, *, quiet: bool = False) -> PlanStore:
    """Read, forecast and plan. Raises InputError, ConfigError and NoPlan; warnings go to standard error."""
    assert options.platform is not None
    assert options.production is not None
    site_name = options.site or DEFAULT_SITE
    site_text = read_site_text(site_name)
    site = parse_site(site_text, site_name)
    described = read_simgrid_platform(options.platform, master=options.master_host)
    platform = described.platform
    for note in described.notes:
        click.echo(f"warning: {note}", err=True)
    if not (platform.has_powers and platform.has_speeds):
        raise ConfigError(
            f"{options.platform}: planning needs the speeds and powers of every host; generate the platform "
            "with 'beasy-sched generate platform'"
        )
    steps = site.steps * options.windows
    renew_w = read_power_series(options.production, steps=steps, step_s=site.step_s, unit=options.unit)
    load_w = _demand_w(options, site, platform, steps)
    problem = PowerProblem(site.storage, load_w, renew_w, site.step_s)
    for note in (*check_sizes(problem), *_too_large(load_w, platform)):
        click.echo(f"warning: {note}", err=True)
    with progress_bar("windows planned", quiet=quiet) as report:
        return plan_windows(
            site,
            platform,
            load_w,
            renew_w,
            options=_choices(options),
            provenance=Provenance(f"beasy-sched {__version__}", inputs=_hashes(options, site_text)),
            report=report,
        )


def _demand_w(options: PlanOptions, site: Site, platform: Platform, steps: int) -> FloatArray:
    """The demand of each step, W."""
    if options.demand is not None:
        return read_power_series(options.demand, steps=steps, step_s=site.step_s, unit=options.unit)
    return workload_demand_w(
        options.workload, platform, steps=steps, step_s=site.step_s, walltimes=options.runs == "walltime"
    )


def _too_large(load_w: FloatArray, platform: Platform) -> list[str]:
    most_w = full_draw_w(platform)
    if load_w.max() <= most_w * (1 + 1e-9):
        return []
    return [
        f"the demand reaches {w_to_kw(load_w.max()):.4g} kW, but the servers draw at most "
        f"{w_to_kw(most_w):.4g} kW: what is beyond that is not planned for"
    ]


def _choices(options: PlanOptions) -> OfflineOptions:
    time_s = math.inf if options.time_limit is None else options.time_limit
    load, renew = (
        Uncertainty(at_once / 100.0, later / 100.0)
        for at_once, later in (options.load_uncertainty, options.renew_uncertainty)
    )
    return OfflineOptions(
        surplus=Surplus(options.surplus),
        load_uncertainty=load,
        renew_uncertainty=renew,
        limits=SolverLimits(time_s=time_s),
        rules=ServerRules(minimum_on_s=options.minimum_on, time_s=time_s),
    )


def _hashes(options: PlanOptions, site_text: str) -> dict[str, str]:
    """SHA-256 of each input."""
    files: dict[str, Path | None] = {
        "platform": options.platform,
        "production": options.production,
        "demand": options.demand,
        **{f"workload {number}": path for number, path in enumerate(options.workload)},
    }
    contents = {name: path.read_bytes() for name, path in files.items() if path is not None}
    contents["site"] = site_text.encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
