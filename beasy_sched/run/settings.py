"""The settings of the scheduler's side of a run, and the session made from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Struct, UnsetType

from beasy_sched.declared import WINDOWS, OptionDoc, check
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import DecisionLog
from beasy_sched.engine.lost import RETRIES, RETRY_S
from beasy_sched.engine.placement import Placement, Placer
from beasy_sched.engine.policy import Policy
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.engine.run_findings import rates_too_short
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.decoding import JsonDecoder, Malformed, decode_json
from beasy_sched.formats.reading import read_text
from beasy_sched.formats.site_file import parse_site
from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.model.platform import Platform
from beasy_sched.model.restarts import OnKill
from beasy_sched.numbers import Range
from beasy_sched.planner.plan import PlanStore
from beasy_sched.policies.registry import make_policy
from beasy_sched.structs import check_numbers
from beasy_sched.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from beasy_sched.energy.site import Site
    from beasy_sched.forecast.outlook import ForecastSource
    from beasy_sched.planner.windows import ReplanRule


class ReplanSettings(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Plans made during the run: their times and inputs."""

    every: Annotated[
        str,
        OptionDoc(
            'replan during the run from the current storage levels: at each ``"window"``, or at an interval'
            ' such as ``"12h"``; plans assume ``workload`` and the forecast, or else ``events``',
            "Replan during the run from the current storage levels: 'window', at the start of every window,"
            " or an interval such as 12h. The plans assume the demand and production of --plan or, in"
            " 'simulate' without --plan, those of the run itself.",
        ),
    ]
    workloads: Annotated[
        tuple[str, ...],
        OptionDoc("with --replan: expected workload (Batsim JSON)"),
    ] = ()
    demand: Annotated[
        str | None,
        OptionDoc("with --replan: expected demand instead: powers (CSV or events) or their quantiles (CSV)"),
    ] = None
    production: Annotated[
        str | None,
        OptionDoc(
            "with --replan: expected production, powers (events or CSV); 'serve' and 'slurm run' read it"
            " again when it changes, or run 'command:PROGRAM'. Default: --forecast, if given"
        ),
    ] = None
    limit_s: Annotated[
        float | None,
        OptionDoc(
            "with --replan: wall-clock limit for solving a plan; after it, the previous plan stays in effect."
            " [default: 60 for serve, 600 for simulate]",
            range=Range(0, LATEST_S, above=True),
        ),
    ] = None
    season: Annotated[
        str | None,
        OptionDoc(
            "with --replan: seasonal plan (of 'plan --season') with the hydrogen targets of the windows",
        ),
    ] = None


class FollowSettings(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Forecasts that are read again during a run."""

    stale_s: Annotated[
        float | None,
        OptionDoc(
            "warn if the newest forecast that was read is older than this; it stays in use."
            " [default: 1d, once the forecast has been renewed, or for command:PROGRAM]",
            range=Range(0, LATEST_S, above=True),
        ),
    ] = None
    every_s: Annotated[
        float,
        OptionDoc(
            "interval at which the program of a forecast (command:PROGRAM) is run, in wall-clock time",
            range=Range(1, LATEST_S),
        ),
    ] = SECONDS_PER_HOUR
    pv_kw: Annotated[
        float | None,
        OptionDoc(
            "nominal power of the site's PV, kW, for forecasts of irradiance or of shares of the capacity",
            range=Range(0, 1e6, above=True),
        ),
    ] = None
    wind_kw: Annotated[
        float | None,
        OptionDoc(
            "nominal power of the site's wind turbines, kW, for forecasts of wind speed",
            range=Range(0, 1e6, above=True),
        ),
    ] = None


class RunSettings(Struct, frozen=True):
    """The user's settings, kept in summaries and recordings so that a run can be repeated."""

    policy: Annotated[
        str,
        OptionDoc(
            'a policy\'s name, ``"package.module:Class"``, or your own class',
            "Scheduling policy: a name from 'beasy-sched policies', or package.module:Class.",
        ),
    ] = "easy"
    options: Annotated[
        dict[str, Any],
        OptionDoc(
            'options of the policy, as ``{"priority": "slowdown"}``',
            "All options of the policy as a JSON object, or @FILE for a file that contains one.",
        ),
    ] = {}
    site: Annotated[
        str | None,
        OptionDoc(
            'site file; ``"default"`` is the built-in site',
            "Site file (TOML): battery, hydrogen, steps, guard. Without it, power is unlimited."
            " 'default' selects the built-in site.",
        ),
    ] = None
    """Content of the site file."""
    site_name: str = "site.toml"
    """Name of the site file, for error messages."""
    plan: Annotated[
        str | None,
        OptionDoc(
            "an offline plan, required by some policies: its file, or the return value of `plan`",
            "Plan of the site ('beasy-sched plan'): sets the hydrogen schedule; results compare planned and"
            " actual values. Some policies require it.",
        ),
    ] = None
    """Plan file."""
    forecast: Annotated[
        str | None,
        OptionDoc(
            "predictions of the production, as for ``--forecast``: a forecast file,"
            ' ``"predictor:FILE"``, or ``"perfect"``, the production of ``events``',
            "Predictions of the production, for policies that plan ahead: a forecast file, 'predictor:FILE'"
            " (training data, or a TOML file), 'perfect:EVENTS' (the actual production, for studies;"
            " 'perfect' without a file uses --events) or 'none'. 'serve' and 'slurm run' read a forecast file"
            " again when it changes, or run 'command:PROGRAM', which prints a forecast.",
        ),
    ] = None
    windows: Annotated[
        int,
        OptionDoc("length of the run in planning windows of the site (72 h each by default)", range=WINDOWS),
    ] = 1
    energy: Annotated[
        EnergySource,
        OptionDoc(
            "source of the energy used: the simulator's replies (requires its -E), or the daemon's own model"
            " (always with Batsim 5)",
        ),
    ] = EnergySource.BATSIM
    power_actions: bool = True
    """Whether P-states may be changed."""
    replan: ReplanSettings | None = None
    """None: no plans are made during the run."""
    retry_s: Annotated[
        float | UnsetType,
        OptionDoc(
            "initial delay before retrying to wake a server that failed to wake (default: 300;"
            " doubles with each further failure, up to 12 times)",
            "Initial delay before retrying to wake a server that failed to wake, such as 5min or"
            " 300; doubles with each further failure, up to 12 times. [default: 5min]",
            RETRIES,
            "s",
        ),
    ] = UNSET
    """None: `RETRY_S`; see `engine.lost`."""
    follow: FollowSettings | UnsetType = UNSET
    """Unset: the defaults."""
    placement: Annotated[
        Placement | UnsetType,
        OptionDoc(
            "who starts jobs: the policy (``own``), or an EASY scheduler within the servers that the policy"
            " offers (``external``), as Slurm does when it keeps placing jobs",
        ),
    ] = UNSET
    """Unset: ``own``, and not in recordings, which therefore stay readable for older versions."""
    suspend_s: Annotated[
        float | UnsetType,
        OptionDoc(
            "with external placement: put servers to sleep that have been idle for this time, s, as Slurm's"
            " SuspendTime (default: only those that are not offered)",
            "With --placement external: put servers to sleep that have been idle for this time, as Slurm's"
            " SuspendTime. [default: only those that are not offered]",
            Range(0.0, LATEST_S),
            "s",
        ),
    ] = UNSET
    on_kill: Annotated[
        OnKill | UnsetType,
        OptionDoc(
            "treatment of a job that the guard, the policy or a broken server ends: it is lost (``drop``),"
            " is submitted again from its beginning (``requeue``), or with what its last checkpoint left"
            " (``checkpoint``)",
            "Treatment of a job that the guard, the policy or a broken server ends: it is lost (drop, the"
            " default), is submitted again from its beginning (requeue), or with what its last checkpoint"
            " left (checkpoint; see [restart] in the site file).",
        ),
    ] = UNSET
    """Unset: ``drop``, and not in recordings, which therefore stay readable for older versions."""
    placed_elsewhere: bool | UnsetType = UNSET
    """With external placement: whether a cluster places the jobs, not an EASY scheduler in this process."""


def build_session(
    settings: RunSettings,
    *,
    platform: Platform | None = None,
    log: DecisionLog | None = None,
    inputs_checked: bool = False,
    replan: ReplanRule | None = None,
    plans: PlanStore | None = None,
    policy: Policy | None = None,
    site_now: Callable[[Site], Site] | None = None,
    forecast: ForecastSource | None = None,
    options_now: Callable[[SessionOptions], SessionOptions] | None = None,
) -> Session:
    """Make the session described by ``settings``; the other parameters are as in `SessionOptions`.

    ``plans`` replace the plan file of the settings at the start of the run; ``policy`` replaces their policy;
    ``site_now`` changes their site to its state now, ``options_now`` the options made from all of these;
    ``forecast`` replaces their forecast.

    Raises ConfigError and InputError.
    """
    policy = policy or make_policy(settings.policy, settings.options)
    planned = settings.plan is not None or plans is not None
    check_needs(policy, settings.policy, site=settings.site is not None, plan=planned)
    check(settings)
    site = None if settings.site is None else parse_site(settings.site, settings.site_name)
    if site is not None and site_now is not None:
        site = site_now(site)
    if site is not None and (short := rates_too_short(site, site.window_s * settings.windows)) is not None:
        raise InputError(settings.site_name, short.text)
    if settings.plan is not None and site is None:
        raise ConfigError("a plan requires a site: pass --site FILE")
    if settings.plan is not None and plans is None:
        from beasy_sched.formats.plan_file import read_plans

        plans = read_plans(settings.plan)
    if settings.forecast is not None and forecast is None:
        from beasy_sched.formats.forecast_source import read_forecast

        if site is None:
            raise ConfigError("a forecast requires a site: pass --site FILE")
        forecast = read_forecast(settings.forecast, site, settings.windows)
    options = SessionOptions(
        site=site,
        plans=plans,
        forecast=forecast,
        windows=settings.windows,
        energy=settings.energy,
        power_actions=settings.power_actions,
        platform=platform,
        inputs_checked=inputs_checked,
        replan=replan,
        retry_s=RETRY_S if settings.retry_s is UNSET else settings.retry_s,
        on_kill=OnKill.DROP if settings.on_kill is UNSET else settings.on_kill,
        placement=Placement.OWN if settings.placement is UNSET else settings.placement,
        placer=_placer(settings),
    )
    return Session(policy, options if options_now is None else options_now(options), log)


def _placer(settings: RunSettings) -> Placer | None:
    """Return what places the jobs in this process; None if the policy or a cluster does.

    Raises ConfigError for settings of the external scheduler without one.
    """
    if settings.placement is not Placement.EXTERNAL or settings.placed_elsewhere is True:
        if settings.suspend_s is not UNSET:
            raise ConfigError(
                "--suspend requires --placement external: otherwise the policy puts servers to sleep"
            )
        return None
    from beasy_sched.policies.offered_easy import OfferedEasy

    return OfferedEasy(math.inf if settings.suspend_s is UNSET else settings.suspend_s)


def check_needs(policy: Policy, name: str, *, site: bool, plan: bool) -> None:
    """Raise ConfigError if the run lacks something that the policy called ``name`` requires."""
    if policy.needs_power and not site:
        raise ConfigError(f"policy {name!r} requires a site: pass --site FILE")
    if policy.needs_plan and not plan:
        raise ConfigError(f"policy {name!r} requires an offline plan: pass --plan FILE")


def read_options(text: str = "{}", single: Sequence[str] = ()) -> dict[str, Any]:
    """Read a policy's options from ``--options`` (JSON, or ``@FILE``) and each ``--option``.

    Raises ConfigError and InputError.
    """
    source = "--options"
    if text.startswith("@"):
        source = text[1:]
        text = read_text(source)
    try:
        options: dict[str, Any] = decode_json(text.encode("utf-8", "replace"), dict)
    except Malformed as error:
        raise ConfigError(
            f'{source}: expected a JSON object such as \'{{"priority": "arrival"}}\': {error}'
        ) from None
    for each in single:
        name, value = _read_option(each)
        if name in options:
            raise ConfigError(f"--option {each}: {name!r} is given twice ({options[name]!r} before)")
        options[name] = value
    return options


def _read_option(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``; a value that is not JSON is a string. Raises ConfigError."""
    name, equals, value = text.partition("=")
    if not (equals and name):
        raise ConfigError(f"--option: found {text!r}, expected NAME=VALUE, such as priority=arrival")
    try:
        decoded = _VALUE.decode(value.encode("utf-8", "replace"))
    except Malformed:
        return name, value
    try:
        check_numbers(decoded)
    except ConfigError as error:
        raise ConfigError(f"--option {shortened(name)}{error}") from None
    return name, decoded


_VALUE: Final[JsonDecoder[Any]] = JsonDecoder(Any)
