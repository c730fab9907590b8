"""Policy and simulator in one process, for `simulate` and the Python interface."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from beasy_sched.engine.observed import Observer
from beasy_sched.engine.policy import Policy, PolicyCaller
from beasy_sched.errors import why
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.files import RunFiles
from beasy_sched.planner.replanner import LIMIT_IN_PROCESS_S
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
) -> RunSummary:
    """Run to the end and return the summary; `RunFiles` describes the files of a run that fails.

    ``progress`` is called with the share of jobs submitted; ``metering`` is Batsim's ``-E``: meter energy,
    allow P-state changes; ``warn`` is called immediately with warnings about the inputs, which are also in
    the summary; ``observers`` follow the run (None: not wanted); ``policy`` replaces the policy named in the
    settings. Raises InputError, ConfigError and any error that ends the run early; the summary then contains
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
        options = SimulationOptions(energy=metering, forward_unknown_events=bool(inputs.events))

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
        files.together_with(simulation.world.tracer)
        records = files.recording is not None
        try:
            result = simulation.run(running.step, progress, lambda: session.over and not records)
        except BaseException as error:
            with contextlib.suppress(Exception):  # report the first error
                files.finish(session, why(error))
            raise
        for text in result.notes:
            session.warn(text)
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
