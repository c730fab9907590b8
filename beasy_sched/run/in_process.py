"""Policy and simulator in one process, for `simulate` and the Python interface."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from beasy_sched.engine.observed import Observer
from beasy_sched.engine.policy import Policy, PolicyCaller
from beasy_sched.formats.restart_members import check_restarts
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.files import RunFiles
from beasy_sched.planner.replanner import LIMIT_IN_PROCESS_S
from beasy_sched.run.following import RunFollower
from beasy_sched.run.opening import open_run
from beasy_sched.simulator import Ending, Inputs, SimulationOptions, simulation_from_files

DEADLOCK = "deadlock: jobs are waiting but no events are left"


def run_in_process(
    inputs: Inputs,
    files: RunFiles,
    progress: Callable[[float], None] | None = None,
    *,
    metering: bool = True,
    warn: Callable[[str], None] | None = None,
    observers: Iterable[Observer | None] = (),
    policy: Policy | None = None,
    followers: Sequence[RunFollower] = (),
) -> RunSummary:
    """Run to the end and return the summary; `RunFiles` describes the files of a run that fails.

    ``progress`` is called with the share of jobs submitted; ``metering`` is Batsim's ``-E``: meter energy,
    allow P-state changes; ``warn`` is called immediately with warnings about the inputs, which are also in
    the summary; ``observers`` follow the run (None: not wanted); ``policy`` replaces the policy named in the
    settings; ``followers`` may pause the simulation and add files.
    Raises InputError, ConfigError and any error that ends the run early; the summary then contains
    the error. A deadlock raises nothing, but is stated in the summary.
    """
    settings = files.settings

    @cache
    def platform() -> Platform:
        return read_simgrid_platform(inputs.platform, master=inputs.master).platform

    opened = open_run(
        files,
        platform,  # its messages need not contain the speeds
        observers=observers,
        inputs_checked=True,
        policy=policy,
        plan_limit_s=LIMIT_IN_PROCESS_S,
    )
    with _rare_collections(), files, opened as running:
        session = running.session
        comes_back = session.lives.is_on
        options = SimulationOptions(
            energy=metering,
            dynamic_jobs=comes_back,
            profile_reuse=comes_back,
            forward_unknown_events=bool(inputs.events),
            host_parts=session.options.placer is not None,
        )

        def note(text: str) -> None:
            session.warn(text)
            if warn is not None:
                warn(text)

        simulation = simulation_from_files(
            inputs,
            options,
            files.prefix,
            tell_hosts=metering,
            note=note,
            site=session.options.site,
            plans=None if settings.replan else session.options.plans,
            windows=session.options.windows,
            policy=PolicyCaller(session.policy),
        )
        if comes_back:
            check_restarts(simulation.workloads, session.lives.checkpoints_of_jobs)
        files.together_with(simulation.world.tracer)
        for follower in followers:
            follower.begin(simulation, running)
        records = files.recording is not None
        with files.finished_on_error(session):
            result = simulation.run(running.step, progress, lambda: session.over and not records)
        for text in result.notes:
            session.warn(text)
        for follower in followers:
            follower.end(files)
        deadlock = result.ending is Ending.DEADLOCK
        return files.finish(session, DEADLOCK if deadlock else None, whole=True)


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect cyclic garbage less often during a run, and restore the thresholds afterwards.

    A run creates hardly any cyclic garbage, but many objects that live to its end. Each collection visits
    the young ones, which takes 1 to 2 % of the time of a run with a month of jobs.
    """
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
