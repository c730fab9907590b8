"""Opening of every run: its plans, its session, and its observers in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from beasy_sched.energy.site import Site
from beasy_sched.engine.observed import ObservedSession, Observer, one_log
from beasy_sched.engine.policy import Policy
from beasy_sched.engine.power_side import SessionOptions
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.files import RunFiles
from beasy_sched.planner.plan import PlanStore
from beasy_sched.planner.replanner import LIMIT_SERVING_S, replanned
from beasy_sched.run.building import build_session

if TYPE_CHECKING:
    from beasy_sched.run.live_forecasts import LiveForecasts


@contextmanager
def open_run(
    files: RunFiles,
    platform: Callable[[], Platform | None],
    *,
    observers: Iterable[Observer | None] = (),
    encodes_messages: bool = True,
    inputs_checked: bool = False,
    policy: Policy | None = None,
    site_now: Callable[[Site], Site] | None = None,
    options_now: Callable[[SessionOptions], SessionOptions] | None = None,
    first_plans: PlanStore | None = None,
    plan_limit_s: float = LIMIT_SERVING_S,
    stopped: Callable[[], bool] | None = None,
    live: LiveForecasts | None = None,
) -> Iterator[ObservedSession]:
    """Begin the run that the settings of ``files`` describe; end its planner after the block.

    Around the session are, from the inside: renewed forecasts, the planner, the files kept at the end of each
    window, ``observers`` (None: not wanted), and the recording, unless whoever exchanges the messages records
    their bytes (``encodes_messages`` False).
    ``live`` reads the forecasts that are renewed during the run; None: each file is read once.
    ``site_now`` changes the site of the settings to its state now, ``options_now`` the session's options;
    ``first_plans``, ``plan_limit_s`` and
    ``stopped`` are as in `replanned`, the others as in `build_session`. Raises ConfigError, InputError and
    NoPlan.
    """
    settings = files.settings
    forecasts = None if live is None else live.begin()
    if forecasts is not None and files.recording is not None:
        forecasts.record(files.recording.add_forecast)
    planning = replanned(
        settings,
        platform,
        first=first_plans,
        limit_s=plan_limit_s,
        stopped=stopped,
        site_now=site_now,
        forecast=None if forecasts is None else forecasts.forecast,
        production=None if forecasts is None else forecasts.production,
        hashes=None if live is None else live.hashes(),
    )
    with planning as replanner:
        followed = () if forecasts is None else forecasts.observers
        around = [*followed, *replanner.observers, *files.observers(), *(each for each in observers if each)]
        if encodes_messages and files.recording is not None:
            around.append(files.recording.observer())
        session = build_session(
            settings,
            platform=platform(),
            log=one_log(files.log, *(observer.decision_log() for observer in around)),
            inputs_checked=inputs_checked,
            replan=replanner.rule,
            plans=replanner.plans,
            policy=policy,
            site_now=site_now,
            forecast=None if forecasts is None else forecasts.forecast,
            options_now=options_now,
        )
        yield ObservedSession(session, around)
