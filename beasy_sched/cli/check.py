"""``beasy-sched check``: check the inputs of a run together, before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from beasy_sched.cli.findings_table import show_findings
from beasy_sched.cli.options import (
    InputOptions,
    PolicyOptions,
    SiteOptions,
    option,
    policy_options,
    replan_of,
    with_options,
)
from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.findings import Finding, fails, odd
from beasy_sched.run.settings import RunSettings

if TYPE_CHECKING:
    from beasy_sched.checks import RunInputs
    from beasy_sched.energy.site import Site
    from beasy_sched.engine.policy import PolicyCaller
    from beasy_sched.forecast.outlook import ForecastSource


P = ParamSpec("P")
T = TypeVar("T")


class _CheckOptions(SiteOptions, PolicyOptions, InputOptions):
    as_json: bool = option("Print the findings as one JSON object.", "--json")
    quiet: bool = option("No table: only the findings, on stderr.", "-q")


@click.command()
@with_options(_CheckOptions)
@click.pass_context
def check(context: click.Context, given: _CheckOptions) -> None:
    """Check the inputs of a run together, and report figures, warnings and errors.

    Give all or some of the inputs of the run. Nothing is run or written. The exit code is 0 without
    problems, 1 if there are warnings, 2 if the run (here or in a real Batsim) would fail.

    \b
    beasy-sched check -p platform.xml -w workload.json --events power.txt --site default
    beasy-sched check --events power.txt --site site.toml --forecast predictor:training.csv
    beasy-sched check -p platform.xml -w workload.json --policy energybud --budget 60% --period 0:2d
    """
    if not any((given.platform, given.workloads, given.events, given.site, given.plan, given.forecast)):
        raise click.UsageError("nothing to check: give at least one of -p, -w, --events, --site, --plan")
    from beasy_sched.checks import facts, figures, look_at

    inputs, problems = _read(given)
    try:
        findings = look_at(inputs)
    except BeasyError as error:  # of the policy
        problems.append(fails("policy-bad", str(error)))
        findings = look_at(replace(inputs, policy=None))
    all_findings = (*problems, *findings)
    code = show_findings(
        facts(inputs), all_findings, figures(inputs), as_json=given.as_json, quiet=given.quiet
    )
    context.exit(code)


def _read(given: _CheckOptions) -> tuple[RunInputs, list[Finding]]:
    """Read the given files; a file that cannot be read becomes a finding, and the others are still read."""
    from beasy_sched.checks import RunInputs
    from beasy_sched.engine.run_findings import sleep_short
    from beasy_sched.formats.batsim_events import merge_events, read_external_events
    from beasy_sched.formats.batsim_workload import read_workload
    from beasy_sched.formats.plan_file import read_plans
    from beasy_sched.formats.simgrid_xml import read_simgrid_platform
    from beasy_sched.formats.site_file import read_site
    from beasy_sched.planner.replan_sources import first_plan_shortage, replan_rule
    from beasy_sched.planner.windows import NoPlan

    problems: list[Finding] = []

    def attempt(code: str, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return read(*args, **kwargs)
        except (InputError, ConfigError, NoPlan) as error:
            prefix = "Batsim would abort: " if code == "platform-batsim" else ""
            problems.append(fails(code, f"{prefix}{error}"))
            return None

    described = None
    if given.platform is not None:
        read = partial(read_simgrid_platform, given.platform, master=given.master_host, energy=given.metering)
        described = attempt("platform-bad", read)
        if described is not None:
            as_batsim = attempt("platform-batsim", read, strict=True)
            problems += [odd("platform-old", note) for note in (as_batsim.notes if as_batsim else ())]
    jobs = [attempt("workload-bad", read_workload, path, f"w{n}") for n, path in enumerate(given.workloads)]
    lists = [attempt("events-bad", read_external_events, path, forward_unknown=True) for path in given.events]
    site = attempt("site-bad", read_site, given.site) if given.site else None
    if given.forecast is not None and given.site is None:
        problems.append(fails("forecast-bad", "a forecast requires a site: give --site FILE"))
    platform = described.platform if described else None
    settings = attempt("replan-bad", _replan_settings, given)
    planned = None
    if settings and settings.replan:
        planned = attempt("replan-bad", replan_rule, settings, settings.replan, lambda: platform)
    if settings and planned and platform and platform.has_powers and settings.plan is None:
        shortage = attempt("plan-none", first_plan_shortage, settings, planned, platform)
        problems += [sleep_short(shortage)] if shortage else []
    policy = attempt("policy-bad", _read_policy, given)
    events = [one for one in lists if one is not None]
    is_read = len(events) == len(given.events) and (site is not None or not given.site)
    inputs = RunInputs(
        platform=platform,
        workloads=[workload for workload in jobs if workload is not None],
        events=merge_events(events) if events else None,
        energy=given.metering,
        site=site,
        forecast=attempt("forecast-bad", _read_forecast, given, site) if given.forecast and site else None,
        plans=attempt("plan-bad", read_plans, given.plan) if given.plan else None,
        windows=given.windows,
        replan=planned,
        policy=policy if is_read else None,
    )
    return inputs, problems


def _read_policy(given: _CheckOptions) -> PolicyCaller:
    from beasy_sched.engine.policy import PolicyCaller
    from beasy_sched.policies.registry import make_policy
    from beasy_sched.run.building import check_needs

    policy = make_policy(given.policy, policy_options(given))
    planned = given.plan is not None or given.replan is not None
    check_needs(policy, given.policy, site=given.site is not None, plan=planned)
    return PolicyCaller(policy)


def _read_forecast(given: _CheckOptions, site: Site) -> ForecastSource:
    from beasy_sched.formats.forecast_source import read_forecast, with_own_events

    text = with_own_events(given.forecast, given.events)
    return read_forecast(text or "none", site, given.windows)


def _replan_settings(given: _CheckOptions) -> RunSettings | None:
    """Return the settings of plans made during the run; None without --replan."""
    from beasy_sched.formats.forecast_source import with_own_events
    from beasy_sched.formats.site_file import read_site_text
    from beasy_sched.planner.replanner import with_own_inputs

    replan = replan_of(given)
    if replan is None:
        return None
    settings = RunSettings(
        site=None if given.site is None else read_site_text(given.site),
        site_name=str(given.site),
        plan=given.plan,
        forecast=with_own_events(given.forecast, given.events),
        windows=given.windows,
        replan=replan,
    )
    return with_own_inputs(settings, given.workloads, given.events)
