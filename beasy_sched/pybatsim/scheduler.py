"""A pybatsim scheduler whose decisions are a session's: the same as the daemon's.

pybatsim takes a message apart into callbacks that have lost their timestamps and groups. So the
scheduler keeps the message's text as it comes in, decodes it as the daemon does, and decides once,
when pybatsim says that there are no more events.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

try:
    from batsim.batsim import BatsimScheduler
    from procset import ProcSet
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing}: pybatsim is needed here (pip install 'beasy-sched[pybatsim]')", name=missing.name
    ) from None

from beasy_sched.energy.site import read_site_text
from beasy_sched.engine.power import EnergySource
from beasy_sched.errors import BeasyError, ConfigError, PeerError
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model import decisions as d
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.files import RunFiles
from beasy_sched.protocol import batsim4
from beasy_sched.settings import RunSettings, build_session


class PybatsimOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler's options, as a JSON object."""

    policy: str = "easy"
    """A name of ``beasy-sched policies``, or ``package.module:Class``."""
    options: dict[str, Any] = {}
    """The policy's own options."""
    site: str | None = None
    """Site file, or ``"default"``; without one, power is no concern."""
    windows: int = 1
    """How many of the site's windows the run has."""
    energy: EnergySource = EnergySource.BATSIM
    """``"batsim"`` asks the simulator (needs its ``-E``), ``"model"`` keeps its own account."""
    power_actions: bool = True
    """False for a Batsim without ``-E``, which aborts on P-state changes."""
    platform: str | None = None
    """The platform file that Batsim has, where its hosts' properties do not tell their speeds."""
    export: str | None = None
    """Prefix of the files to write: summary, decision log, energy trace."""

    def settings(self) -> RunSettings:
        """Read the site file and return what a session is built from. Raises InputError."""
        return RunSettings(
            policy=self.policy,
            options=self.options,
            site=None if self.site is None else read_site_text(self.site),
            site_name=self.site or "",
            windows=self.windows,
            energy=self.energy,
            power_actions=self.power_actions,
        )

    def read_platform(self) -> Platform | None:
        """Read the platform file, if one is named. Raises InputError."""
        return None if self.platform is None else read_simgrid_platform(Path(self.platform)).platform


def read_options(options: Mapping[str, Any]) -> PybatsimOptions:
    """Check the JSON object. Raises ConfigError that names the option."""
    try:
        return msgspec.convert(dict(options), PybatsimOptions)
    except msgspec.ValidationError as error:
        known = ", ".join(PybatsimOptions.__struct_fields__)
        raise ConfigError(f"options: {error} (known are {known})") from None


class MessageTap:
    """pybatsim's network endpoint, which also keeps the text of the last message."""

    def __init__(self, network: Any) -> None:
        """Stand in for ``network``."""
        self._network = network
        self.text = ""

    def recv(self, blocking: bool = False) -> Any:
        """Return the next message, decoded as pybatsim does; None where none came in time."""
        text = self._network.recv_string(blocking=blocking)
        if text is None:
            return None
        self.text = text
        return json.loads(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


class BeasyScheduler(BatsimScheduler):  # type: ignore[misc]
    """One simulation under one of our policies; `PybatsimOptions` says which and how.

    Errors end the process as they end the daemon: one message, no traceback, its exit code.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Take pybatsim's ``-o`` object. Exits with code 2 for options or files that are wrong."""
        super().__init__(options)
        self._bs: Any = None
        self._files: RunFiles | None = None
        with self._errors_told():
            known = read_options(options)
            settings = known.settings()
            build_session(settings)  # bad settings are told before any file is opened
            platform = known.read_platform()
            files = RunFiles(known.export, settings)
            self.session = build_session(settings, platform=platform, log=files.log)
            files.begin()
            self._files = files

    @property
    def bs(self) -> Any:
        """pybatsim's `Batsim` object."""
        return self._bs

    @bs.setter
    def bs(self, bs: Any) -> None:
        with self._errors_told():
            if bs.scheduler is not self:
                raise ConfigError(
                    "pybatsim's --protect hides from the scheduler where a message ends: start without it"
                )
        self._bs = bs
        self._tap = bs.network = MessageTap(bs.network)

    # --- called by pybatsim --------------------------------------------------------------------------

    def onNoMoreEvents(self) -> None:
        """Decide on the whole message."""
        with self._errors_told():
            reply = self.session.step(batsim4.decode_message(self._tap.text.encode()))
            for decision in reply.decisions:
                _SENDERS[type(decision)](self._bs, decision)
            if self.session.ended:
                self._finish(None)

    def onDeadlock(self) -> None:
        """Give up: no message came within pybatsim's ``-t`` milliseconds."""
        with self._errors_told():
            raise PeerError(
                "the simulator has been silent for longer than pybatsim's --timeout:"
                " it has gone away, or needs more time (0 waits for ever)"
            )

    def onJobSubmission(self, job: Any) -> None:
        """Nothing yet: see `onNoMoreEvents`, as for all that follow."""

    def onJobCompletion(self, job: Any) -> None:
        """Nothing yet."""

    def onJobsKilled(self, jobs: Any) -> None:
        """Nothing yet."""

    def onMachinePStateChanged(self, nodeid: Any, pstate: Any) -> None:
        """Nothing yet."""

    def onReportEnergyConsumed(self, consumed_energy: Any) -> None:
        """Nothing yet."""

    def onRequestedCall(self) -> None:
        """Nothing yet."""

    def onNotifyEventMachineUnavailable(self, machines: Any) -> None:
        """Nothing yet."""

    def onNotifyEventMachineAvailable(self, machines: Any) -> None:
        """Nothing yet."""

    def onNotifyGenericEvent(self, event_data: Any) -> None:
        """Nothing yet."""

    # --- ends ------------------------------------------------------------------------------------------

    def _finish(self, error: str | None) -> None:
        """Write the outputs, once; those of a run that has failed are partial."""
        files, self._files = self._files, None
        if files is None:
            return
        summary = files.finish(self.session, error)
        for warning in summary["warnings"]:
            print(f"warning: {warning}", file=sys.stderr)
        for path in files.written:
            print(f"wrote {path}", file=sys.stderr)

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        try:
            yield
        except BeasyError as error:
            with suppress(Exception):  # the first error is the one to tell
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
}
"""How each decision that a session takes is said to pybatsim."""
