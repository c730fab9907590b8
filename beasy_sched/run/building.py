"""The session that the settings of a run describe, and the options of its policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from beasy_sched.declared import check
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import DecisionLog
from beasy_sched.engine.lost import RETRY_S
from beasy_sched.engine.placement import Placer
from beasy_sched.engine.policy import Policy
from beasy_sched.engine.run_findings import rates_too_short
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.decoding import JsonDecoder, Malformed, decode_json
from beasy_sched.formats.reading import read_text
from beasy_sched.formats.site_file import parse_site
from beasy_sched.limits import shortened
from beasy_sched.model.choices import OnKill, Placement
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import PlanStore
from beasy_sched.policies.registry import make_policy
from beasy_sched.structs import check_numbers

if TYPE_CHECKING:
    from beasy_sched.energy.site import Site
    from beasy_sched.forecast.outlook import ForecastSource
    from beasy_sched.planner.windows import ReplanRule
    from beasy_sched.run.settings import RunSettings


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
