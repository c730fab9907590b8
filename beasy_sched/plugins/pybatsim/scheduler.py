"""A pybatsim scheduler that makes the same decisions as the daemon.

pybatsim splits a message into callbacks, which lose timestamps and grouping. The scheduler therefore keeps
the text of each message, decodes it as the daemon does, and decides once, when pybatsim reports that there
are no more events.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from msgspec import Struct

from beasy_sched.extras import import_problem

try:
    from batsim.batsim import BatsimScheduler
    from procset import ProcSet
except Exception as problem:  # other people's packages may raise anything on import
    raise import_problem(problem, "batsim", "beasy-sched[pybatsim]", "running inside pybatsim") from problem

from beasy_sched.engine.observed import ObservedSession
from beasy_sched.errors import BeasyError, ConfigError, PeerError, why
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import read_site_text
from beasy_sched.model import decisions as d
from beasy_sched.model.choices import EnergySource
from beasy_sched.outputs.files import RunFiles
from beasy_sched.planner.replanner import replanned
from beasy_sched.protocol import batsim4
from beasy_sched.protocol.farewell import farewell4
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import ReplanSettings, RunSettings
from beasy_sched.structs import as_type


class PybatsimOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler's options, as a JSON object."""

    policy: str = "easy"
    """A name of ``beasy-sched policies``, or ``package.module:Class``."""
    options: dict[str, Any] = {}
    """Options of the policy."""
    site: str | None = None
    """Site file or ``"default"``; None for a run without power limits."""
    plan: str | None = None
    """Plan file of the site, required by some policies."""
    replan: str | ReplanSettings | None = None
    """Plans made during the run: ``"window"``, a time such as ``"12h"``, or an object with their inputs."""
    windows: int = 1
    """Number of the site's windows in the run."""
    forecast: str | None = None
    """Source of predictions of the production, as for ``--forecast``."""
    energy: EnergySource = EnergySource.BATSIM
    """``"batsim"`` queries the simulator (requires its ``-E``), ``"model"`` computes the energy."""
    power_actions: bool = True
    """Whether P-states may be changed; must be false for Batsim without ``-E``, which would abort."""
    platform: str | None = None
    """Batsim's platform file; required for plans, or if its hosts have no speeds in their properties."""
    export: str | None = None
    """Prefix of the files to write: summary, decision log, energy trace."""

    def settings(self) -> RunSettings:
        """Read the site file and return the settings of the session. Raises InputError."""
        return RunSettings(
            policy=self.policy,
            options=self.options,
            site=None if self.site is None else read_site_text(self.site),
            site_name=self.site or "",
            plan=self.plan,
            windows=self.windows,
            forecast=self.forecast,
            energy=self.energy,
            power_actions=self.power_actions,
            replan=ReplanSettings(self.replan) if isinstance(self.replan, str) else self.replan,
        )


def read_options(options: Mapping[str, Any]) -> PybatsimOptions:
    """Check the JSON object. Raises ConfigError that names the option."""
    try:
        return as_type(dict(options), PybatsimOptions)
    except ConfigError as error:
        raise ConfigError(f"options: {error}") from None


class MessageTap:
    """pybatsim's network endpoint that also keeps the text of the last message."""

    def __init__(self, network: Any) -> None:
        """Wrap ``network``."""
        self._network = network
        self.text = ""

    def recv(self, blocking: bool = False) -> Any:
        """Return the next message, decoded as pybatsim does; None if none arrived in time."""
        text = self._network.recv_string(blocking=blocking)
        if text is None:
            return None
        self.text = text
        return json.loads(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


class BeasyScheduler(BatsimScheduler):  # type: ignore[misc]
    """One simulation with a policy of beasy-sched, configured by `PybatsimOptions`.

    Errors end the process as they end the daemon: one message, no traceback, the same exit code.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Read pybatsim's ``-o`` object. Exits with code 2 if options or files are invalid."""
        super().__init__(options)
        self._bs: Any = None
        self._files: RunFiles | None = None
        self._planner = ExitStack()
        with self._errors_reported():
            chosen = read_options(options)
            settings = chosen.settings()
            file = chosen.platform
            platform = None if file is None else read_simgrid_platform(file).platform
            planner = self._planner.enter_context(replanned(settings, lambda: platform))
            build = partial(build_session, settings, replan=planner.rule, plans=planner.plans)
            build(platform=platform).check_platform()  # bad settings are reported before any file is opened
            files = RunFiles(chosen.export, settings)
            self.session = build(platform=platform, log=files.log)
            self._step = ObservedSession(self.session, planner.observers).step
            self._files = files

    @property
    def bs(self) -> Any:
        """pybatsim's `Batsim` object."""
        return self._bs

    @bs.setter
    def bs(self, bs: Any) -> None:
        with self._errors_reported():
            if bs.scheduler is not self:
                raise ConfigError(
                    "pybatsim's --protect hides the end of a message from the scheduler: start without it"
                )
        self._bs = bs
        self._tap = bs.network = MessageTap(bs.network)

    # --- called by pybatsim --------------------------------------------------------------------------

    def onNoMoreEvents(self) -> None:
        """Decide on the whole message."""
        with self._errors_reported(simulator_waits=True):
            reply = self._step(batsim4.decode_message(self._tap.text.encode()))
            for decision in reply.decisions:
                _SENDERS[type(decision)](self._bs, decision)
            if self.session.ended:
                self._finish(None)

    def onDeadlock(self) -> None:
        """Stop, because no message arrived within pybatsim's ``-t`` milliseconds."""
        with self._errors_reported():
            raise PeerError(
                "no message from the simulator within pybatsim's --timeout:"
                " it has stopped, or needs more time (0 waits forever)"
            )

    def _wait_for_more(self, *_: Any) -> None:
        """Do nothing: the whole message is handled by `onNoMoreEvents`."""

    onJobSubmission = onJobCompletion = onJobsKilled = onMachinePStateChanged = _wait_for_more
    onReportEnergyConsumed = onRequestedCall = onNotifyGenericEvent = _wait_for_more
    onNotifyEventMachineUnavailable = onNotifyEventMachineAvailable = _wait_for_more

    # --- ends ------------------------------------------------------------------------------------------

    def _finish(self, error: str | None) -> None:
        """End the planner and write the outputs, once; they are partial if the run failed."""
        self._planner.close()
        files, self._files = self._files, None
        if files is None:
            return
        summary = files.finish(self.session, error)
        for warning in summary.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        for path in files.written:
            print(f"wrote {path}", file=sys.stderr)

    @contextmanager
    def _errors_reported(self, *, simulator_waits: bool = False) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if simulator_waits and not self.session.ended:
                self._bs.network.send_string(farewell4(why(error)).decode())
            if not isinstance(error, BeasyError):
                raise
            with suppress(Exception):  # report the first error
                self._finish(str(error))
            print(f"beasy-sched: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None


def _execute(bs: Any, decision: d.ExecuteJob) -> None:
    job = bs.jobs[decision.job_id]
    job.allocation = ProcSet.from_str(str(decision.alloc))
    bs.execute_jobs([job])


_SENDERS: dict[type[d.Decision], Callable[[Any, Any], None]] = {
    d.ExecuteJob: _execute,
    d.RejectJob: lambda bs, x: bs.reject_jobs_by_id([x.job_id]),
    d.KillJobs: lambda bs, x: bs.kill_jobs([bs.jobs[job_id] for job_id in x.job_ids]),
    d.SetResourceState: lambda bs, x: bs.set_resource_state(ProcSet.from_str(str(x.resources)), x.state),
    d.CallMeLater: lambda bs, x: bs.wake_me_up_at(x.at),
    d.QueryEnergy: lambda bs, x: bs.request_consumed_energy(),
    d.FinishRegistration: lambda bs, x: bs.notify_registration_finished(),
}
"""Functions that pass each kind of decision of a session to pybatsim."""

Pybatsim = BeasyScheduler
"""The name that pybatsim derives from the last part of the path ``beasy_sched/pybatsim``."""
