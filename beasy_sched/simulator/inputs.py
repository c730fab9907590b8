"""A simulation from files, as Batsim's command line names them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Union

from beasy_sched.energy.site import Site
from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import ExternalEvent, merge_events, read_external_events
from beasy_sched.formats.batsim_workload import Workload, read_workload
from beasy_sched.formats.simgrid_xml import SimGridPlatform, read_simgrid_platform
from beasy_sched.plan.store import PlanStore
from beasy_sched.preflight import RunInputs, look_at
from beasy_sched.simulator.options import SimulationOptions
from beasy_sched.simulator.outputs import Tracer, is_formula
from beasy_sched.simulator.simulation import Simulation

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Inputs:
    """The files of a simulation, and how to read them."""

    platform: Path
    workloads: Sequence[Path] = ()
    """Named w0, w1, ... in this order."""
    events: Sequence[Path] = ()
    master: str = "master_host"
    roles: Mapping[str, str] = field(default_factory=dict)
    """Further roles of hosts, by name."""
    limit: int = 0
    """Use only the first so many hosts (0: all)."""
    limit_by_workload: bool = False
    """Use only as many hosts as the largest ``nb_res`` of the workloads says."""
    strict: bool = False
    """Refuse whatever Batsim aborts on, also where what is meant is clear."""

    def read(
        self, options: SimulationOptions
    ) -> tuple[SimGridPlatform, list[Workload], list[ExternalEvent] | None]:
        """Read everything. Raises InputError."""
        workloads = [
            read_workload(os.path.abspath(path), f"w{number}") for number, path in enumerate(self.workloads)
        ]
        platform = read_simgrid_platform(
            self.platform,
            master=self.master,
            roles=self.roles,
            limit=self._limit(workloads),
            energy=options.energy,
            strict=self.strict,
        )
        events = merge_events(
            read_external_events(path, forward_unknown=options.forward_unknown_events) for path in self.events
        )
        return platform, workloads, events if self.events else None

    def _limit(self, workloads: Sequence[Workload]) -> int:
        wanted = max((w.nb_res for w in workloads), default=0) if self.limit_by_workload else 0
        return min(filter(None, (self.limit, wanted)), default=0)


def simulation_from_files(
    inputs: Inputs,
    options: SimulationOptions,
    prefix: Path | None = None,
    *,
    machine_states: bool = True,
    tell_start: bool = False,
    note: Callable[[str], None] | None = None,
    site: Site | None = None,
    plans: PlanStore | None = None,
    windows: int = 1,
) -> Simulation:
    """Read ``inputs``; with a ``prefix``, Batsim's CSV files will be written there.

    ``tell_start`` adds to the first message, as properties, in which P-state hosts start, which Batsim does
    not tell. ``note`` is told what the user should know of the files; what they are looked at together with
    are the ``site``, its ``plans`` and the ``windows`` of the run, where these are known. Raises InputError.
    """
    platform, workloads, events = inputs.read(options)
    if tell_start:
        platform = replace(platform, platform=platform.platform.telling_start())
    if note is not None:
        for text in platform.notes:
            note(text)
        given = RunInputs(platform.platform, workloads, events, options.energy, site, plans, windows)
        for finding in look_at(given):
            note(finding.text)
    tracer = None
    if prefix is not None:
        for workload in workloads:
            _refuse_formulas(workload)
        tracer = Tracer(prefix, energy=options.energy, machine_states=machine_states)
    return Simulation(platform, workloads, events, options, tracer)


def _refuse_formulas(workload: Workload) -> None:
    """Refuse what a spreadsheet that opens ``jobs.csv`` would run. Raises InputError."""
    names = {"job id": (job.id.partition("!")[2] for job in workload.jobs), "profile": workload.profiles}
    for kind, texts in names.items():
        for text in texts:
            if is_formula(text):
                raise InputError(
                    workload.path,
                    f"found the {kind} {text!r}, which a spreadsheet would run as a formula when it opens the"
                    " CSV files: choose another name, or run without -e",
                )
