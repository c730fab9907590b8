"""Opening of every run: its plans, its session, and its observers in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from beasy_sched.energy.site import Site
from beasy_sched.engine.observed import ObservedSession, Observer, one_log
from beasy_sched.engine.policy import Policy
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.files import RunFiles
from beasy_sched.planner.plan import PlanStore
from beasy_sched.planner.replanner import LIMIT_SERVING_S, replanned
from beasy_sched.run.settings import build_session


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
    first_plans: PlanStore | None = None,
    plan_limit_s: float = LIMIT_SERVING_S,
    stopped: Callable[[], bool] | None = None,
) -> Iterator[ObservedSession]:
    """Begin the run that the settings of ``files`` describe; end its planner after the block.

    Around the session are, from the inside: the planner, the files kept at the end of each window,
    ``observers`` (None: not wanted), and the recording, unless whoever exchanges the messages records their
    bytes (``encodes_messages`` False).
    ``site_now`` changes the site of the settings to its state now; ``first_plans``, ``plan_limit_s`` and
    ``stopped`` are as in `replanned`, the others as in `build_session`. Raises ConfigError, InputError and
    NoPlan.
    """
    settings = files.settings
    planning = replanned(settings, platform, first=first_plans, limit_s=plan_limit_s, stopped=stopped)
    with planning as replanner:
        around = [*replanner.observers, *files.observers(), *(each for each in observers if each)]
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
        )
        yield ObservedSession(session, around)
