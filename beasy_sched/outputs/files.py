"""Files that the scheduler writes about a run, all with one prefix.

The energy trace has one CSV row per completed step, with planned and actual values. The decision log has one
JSON object per line and action, with its rule.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.device import Device
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.sources import KINDS as SOURCES
from beasy_sched.engine import Session
from beasy_sched.engine.actions import NO_FACTS, Facts
from beasy_sched.engine.observed import Observer
from beasy_sched.engine.power_side import PowerSide, TraceRow
from beasy_sched.errors import ConfigError, Failures, InputError, PolicyError, why
from beasy_sched.formats.atomic import (
    PartFile,
    check_leftover,
    hold_folder,
    leftover,
    remove_leftover,
    remove_old,
    rescue,
    write_atomic,
)
from beasy_sched.formats.decoding import JsonDecoder, Malformed
from beasy_sched.formats.file_set import FileSet
from beasy_sched.formats.held_folder import HeldFolder
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.run_files import (
    DEADLINES,
    DECISIONS,
    FAILED,
    OF_BATSIM,
    OF_SCHEDULER,
    PLANS,
    SCHEDULE,
    SUMMARY,
    TRACE,
    both_paths_of,
    path_of,
)
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.outputs.deadline_table import deadlines_csv
from beasy_sched.outputs.plan_files import PlansOfRun, publish_plans
from beasy_sched.outputs.recording import RecordingWriter
from beasy_sched.outputs.summary import brief_summary, summarize
from beasy_sched.planner.plan import Plan, PlanStore
from beasy_sched.run.settings import RunSettings

_GRID: Final[dict[str, str]] = {
    "base_w": "record.base_w",
    "grid_import_w": "record.import_w",
    "grid_export_w": "record.export_w",
    "import_price_per_kwh": "price_per_kwh",
    "import_cost": "cost",
    "carbon_g": "carbon_g",
    "predicted_renewable_w": "predicted_w",
    "clear_sky_w": "clear_sky_w",
}
"""Columns of a site with a grid or a base load only; empty where a value is unknown."""
_CHARGING: Final[dict[str, str]] = {
    "grid_charge_w": "record.grid_charge_w",
    "grid_discharge_w": "grid_discharge_w",
}
"""Columns of a site whose grid charges the battery: the parts of its charge and discharge from the grid."""

Reader: TypeAlias = Callable[[TraceRow], Any]
"""Reads the value of a column from a row."""

_BEFORE: Final = {name: f"record.{name}" for name in ("curtailed_w", "unserved_w")}
_AFTER: Final = {"consumed_kwh": "record.consumed_kwh"}
_MAIN: Final[tuple[type[Device], ...]] = (BatterySpec, HydrogenSpec)
"""Devices whose columns every trace has, with or without them."""


def _columns(
    sources: Collection[str],
    devices: Sequence[type[Device]],
    *,
    metered: bool,
    cooled: bool,
    charging: bool,
    measured: bool,
) -> dict[str, Reader]:
    """Return the columns of the trace in order; powers are means over the step, levels those at its end."""
    kinds = (*_MAIN, *devices)
    at: dict[str, Reader] = {name: attrgetter(name) for name in ("step", "start_s")}
    at["duration_s"], at["renewable_w"] = attrgetter("record.dt_s"), attrgetter("record.renew_w")
    at |= {kind.column: _part_of(name) for name, kind in SOURCES.items() if name in sources}
    at["demand_w"] = attrgetter("record.demand_w")
    if cooled:
        at["cooling_w"] = attrgetter("record.cooling_w")
    for kind in kinds:
        at |= {kind.columns.into: _of_device(kind, "in_w"), kind.columns.out: _of_device(kind, "out_w")}
    at |= {name: attrgetter(path) for name, path in _BEFORE.items()}
    at |= {name: attrgetter(path) for name, path in _GRID.items() if metered}
    at |= {name: attrgetter(path) for name, path in _CHARGING.items() if charging}
    for kind in kinds:
        if kind.fields is not None and kind.fields.planned:
            names = (f"planned_{name}" for name in kind.columns[:2])
            at |= {name: attrgetter(f"record.{name}") for name in names}
    at |= {name: attrgetter(path) for name, path in _AFTER.items()}
    at |= {kind.columns.level: _of_device(kind, "shown") for kind in kinds}
    at["residual_j"] = attrgetter("record.residual_j")
    if measured:
        at |= {kind.columns.correction: attrgetter(kind.fields.correction) for kind in kinds if kind.fields}
    return at


def _of_device(kind: type[Device], part: Literal["in_w", "out_w", "shown"]) -> Reader:
    """Return what reads a power or the level of a device: a `DeviceStep`'s field, or the record's own."""
    if kind.fields is None:
        section, of_step = kind.section, attrgetter(part)
        return lambda row: of_step(row.record.others[section])
    own = {"in_w": kind.columns.into, "out_w": kind.columns.out, "shown": kind.fields.shown}
    return attrgetter(f"record.{own[part]}")


def _part_of(kind: str) -> Reader:
    return lambda row: row.parts_w.get(kind)


def _plan_columns(devices: Sequence[type[Device]]) -> dict[str, Callable[[Plan], npt.NDArray[Any] | None]]:
    """Return further columns of a run with a plan, of a whole window each; empty outside its windows."""
    columns: dict[str, Callable[[Plan], npt.NDArray[Any] | None]] = {
        f"planned_{name}": attrgetter(f"power.{path}")
        for name, path in (("renewable_w", "renew_w"), ("load_w", "load_w"), ("envelope_w", "envelope_w"))
    }
    for kind in (*_MAIN, *devices):
        if kind.fields is None or not kind.fields.planned:  # the powers of others are in each row
            columns |= {f"planned_{kind.columns.into}": _of_plan(kind, "in_w")}
            columns |= {f"planned_{kind.columns.out}": _of_plan(kind, "out_w")}
    columns |= {f"planned_{kind.columns.level}": _of_plan(kind, "level") for kind in (*_MAIN, *devices)}
    columns["planned_servers_on"] = lambda plan: None if plan.servers is None else plan.servers.on_count
    return columns


def _of_plan(
    kind: type[Device], part: Literal["in_w", "out_w", "level"]
) -> Callable[[Plan], npt.NDArray[Any]]:
    """Return what reads the planned powers, or the levels at the ends of steps, of a device."""

    def read(plan: Plan) -> npt.NDArray[Any]:
        if kind.fields is not None and part == "level":
            levels: npt.NDArray[Any] = attrgetter(kind.fields.shown_plan)(plan)
            return levels[1:]
        if kind.fields is not None:
            own = kind.columns.into if part == "in_w" else kind.columns.out
            return np.asarray(getattr(plan.power, own))
        device = next(each for each in plan.storage.devices if each.section == kind.section)
        flows = plan.power.flows_of(device)
        return np.asarray(device.shown(flows.level[1:]) if part == "level" else getattr(flows, part))

    return read


def trace_csv(
    rows: Iterable[TraceRow],
    plans: PlanStore | None = None,
    *,
    metered: bool = False,
    cooled: bool = False,
    charging: bool = False,
    sources: Collection[str] = (),
    devices: Sequence[type[Device]] = (),
    measured: bool = False,
    header: bool = True,
) -> str:
    """Return the rows as CSV text; numbers have enough digits to distinguish them.

    ``metered`` adds the columns of a site with a grid or a base load, ``cooled`` that of cooling,
    ``charging`` those of a grid that charges the battery, ``sources`` those of kinds of source, ``devices``
    those of devices other than battery and hydrogen, ``measured`` those of a measured storage; without
    ``header``, the text continues another one.
    """
    columns = _columns(sources, devices, metered=metered, cooled=cooled, charging=charging, measured=measured)
    of_plan = _plan_columns(devices) if plans is not None else {}
    lines = [",".join((*columns, *of_plan))] if header else []
    readers = tuple(columns.values())
    window, planned = -1, [""]
    for row in rows:
        fields = (read(row) for read in readers)
        values = ["" if value is None or value != value else repr(value) for value in fields]
        if plans is not None:
            place = plans.place(row.start_s)
            if place is not None and place.window != window:
                window, planned = place.window, _planned_cells(plans[place.window], of_plan)
            values.append("," * (len(of_plan) - 1) if place is None else planned[place.step])
        lines.append(",".join(values))
    return "".join(line + "\n" for line in lines)


def _planned_cells(plan: Plan, of_plan: Mapping[str, Callable[[Plan], npt.NDArray[Any] | None]]) -> list[str]:
    """Return the planned columns of each step of a window."""
    columns = [get(plan) for get in of_plan.values()]
    cells = ([""] * plan.steps if column is None else map(repr, column.tolist()) for column in columns)
    return [",".join(row) for row in zip(*cells, strict=True)]


_CHUNK = 1 << 16


class _DecisionLine(msgspec.Struct, omit_defaults=True, gc=False):
    time: float
    action: str
    job: str = ""
    hosts: str = ""
    rule: str = ""
    facts: dict[str, float | int | str] | None = None


def _plain(value: Any) -> Any:
    """Convert a NumPy number, as passed by a policy, to Python's."""
    try:
        return value.item()
    except AttributeError:
        raise PolicyError(f"facts: found {value!r}, expected a number or a short string") from None


_encode_into = msgspec.json.Encoder(enc_hook=_plain).encode_into


class DecisionLogFile(PartFile):
    """Writes lines of time, action, job, hosts, rule and facts; the file gets its name when closed."""

    def __init__(self, path: Path) -> None:
        """Begin to write a temporary file next to ``path``."""
        super().__init__(path)
        self._buffer = bytearray()

    def __call__(
        self, time_s: float, action: str, job: str, hosts: str, rule: str, facts: Facts = NO_FACTS
    ) -> None:
        """Add a line; times are simulated seconds. Empty values are omitted, an infinite fact is null.

        Raises PolicyError for facts that are neither numbers nor strings.
        """
        fact_dict = (facts if type(facts) is dict else dict(facts)) if facts else None
        buffer = self._buffer
        try:
            _encode_into(_DecisionLine(time_s, action, job, hosts, rule, fact_dict), buffer, -1)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise PolicyError(
                f"{action} of {job or hosts}: its rule or facts cannot be logged: {error}"
            ) from None
        buffer += b"\n"
        if len(buffer) > _CHUNK:
            self.write(buffer)
            buffer.clear()

    def keep(self) -> int:
        """Keep the file like `PartFile.keep`, with the last lines."""
        self._write_all()
        return super().keep()

    def complete(self) -> None:
        """Flush the file to the operating system, with the last lines. Raises InputError."""
        self._write_all()
        super().complete()

    def _write_all(self) -> None:
        self.write(self._buffer)
        self._buffer.clear()


class SimulatorFiles(Protocol):
    """Further files of a run, which its simulator writes."""

    def join(self, files: FileSet) -> None:
        """Add the complete files to others of the same run. Raises InputError."""

    def keep(self) -> dict[str, int]:
        """Flush the files as they are to the system; return their sizes, bytes."""


class _WindowKeeper(Observer):
    """Keeps the files of a run at the end of each window but the last."""

    def __init__(self, keep: Callable[[Session], None]) -> None:
        self._keep = keep
        self._windows = 0

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        """Keep the files if a window has ended."""
        if len(session.windows) > self._windows:
            self._windows = len(session.windows)
            self._keep(session)


class RunFiles:
    """Opens all files at the start of a run; at its end they get their final names together.

    Until then the files of an earlier run stay. If the run fails, they are kept, and its partial results are
    next to them, as ``PREFIX_failed_summary.json`` and so on.
    """

    def __init__(
        self, prefix: str | None, settings: RunSettings, *, decisions: bool = True, record: Path | None = None
    ) -> None:
        """``prefix`` None writes only the recording.

        Raises ConfigError for an invalid path, and InputError while another run writes under the same prefix.
        """
        self.prefix = prefix
        self.settings = settings
        self.written: list[Path] = []
        self.log: DecisionLogFile | None = None
        self.recording: RecordingWriter | None = None
        self._set = FileSet()
        self._trace: PartFile | None = None
        self._summary: PartFile | None = None
        self._plans: PlansOfRun | None = None
        self._folder: HeldFolder | None = None
        """Folder of the prefix; None without a prefix."""
        self._created: list[Path] = []
        """Folders created for the files."""
        self._traced = 0
        """Number of rows of the energy trace that have been written."""
        self._sources: Collection[str] = ()
        """Kinds of source that the energy trace has columns of."""
        self._measured = False
        """Whether the energy trace has the columns of measured levels."""
        self._windows_kept = False
        """Whether the summary's file has the state at the end of a window, for `recover`."""
        self._tracer: SimulatorFiles | None = None
        try:
            if prefix is not None:
                self._created += _check(Path(prefix).parent)
            if record is not None and (record.is_file() or not record.exists()):  # not a device or pipe
                self._created += _check(record.parent)
            if prefix is not None:
                self._open(prefix, decisions=decisions)
            if record is not None:
                self.recording = RecordingWriter(record, settings)
        except BaseException:
            self.discard()
            raise

    def _open(self, prefix: str, *, decisions: bool) -> None:
        self._folder = hold_folder(Path(prefix).parent)
        self._summary = PartFile(path_of(prefix, SUMMARY), alone=True)  # one run at a time
        if decisions:
            self.log = DecisionLogFile(path_of(prefix, DECISIONS))
        if self.settings.site is not None:
            self._trace = PartFile(path_of(prefix, TRACE))
        self._set.own((both_paths_of(prefix, name) for name in OF_SCHEDULER), self._folder)
        self._plans = PlansOfRun(prefix, self._folder)
        self._set.at_the_end(self._plans.publish)

    def __enter__(self) -> RunFiles:
        return self

    def __exit__(self, *error: object) -> None:
        """Remove incomplete files; finished files stay."""
        self.discard()

    def together_with(self, tracer: SimulatorFiles | None) -> None:
        """Replace older files of Batsim together with these by those of the run. Raises InputError."""
        self._tracer = tracer
        if tracer is not None:
            tracer.join(self._set)

    def add(self, name: str, text: str) -> None:
        """Add a further file to those of the run. Raises InputError if it cannot be written."""
        self.add_parts(name, (text,))

    def add_parts(self, name: str, parts: Iterable[str | bytes]) -> None:
        """Add a further file, part by part, as `add` does."""
        if self.prefix is not None and self._folder is not None:
            path, failed = both_paths_of(self.prefix, name)
            part = PartFile(path, folder=self._folder)
            try:
                for text in parts:
                    part.write(text)
                self._set.add(part, failed)
            except BaseException:
                part.discard()
                raise

    def finish(self, session: Session, error: str | None = None, *, whole: bool = False) -> RunSummary:
        """Give the files their final names, and return the summary.

        If the run has an ``error``, or a file cannot be written, the existing files get the names of a failed
        run; with ``whole``, the error left nothing undone (a deadlock). Raises the first failure after all
        files have been tried: InputError for a file that cannot be written, PolicyError for a policy's
        results that cannot be written.
        """
        failures = Failures()
        if self.log is not None:
            session.log_still_waiting()
        if self._trace is not None and session.power is not None:
            power = session.power
            self._keep(failures, self._trace, TRACE, lambda: self._new_rows(power))
        if self.log is not None:
            self._keep(failures, self.log, DECISIONS)
        if (record := self.recording) is not None:
            with failures.noted("the recording"):
                self._set.add(record, record.path.with_stem(f"{record.path.stem}_{FAILED.rstrip('_')}"))
        self._add_late(session, failures)
        summary = summarize(session, self.settings, error, failures)
        if self._summary is not None:
            text = summary.to_json() + "\n"
            if self._windows_kept:
                with failures.noted("a file of the run"):
                    self._summary.start_again()
            self._keep(failures, self._summary, SUMMARY, lambda: text)
        with failures.noted("the files of the run"):
            self.written += self._set.publish(failed=bool(failures.all) or not (whole or error is None))
        self.discard()
        failures.raise_first()
        return summary

    @contextlib.contextmanager
    def finished_on_error(self, session: Session) -> Iterator[None]:
        """Write the files of a failed run if the block raises, whatever it is, and raise that."""
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(Exception):  # report the first error
                self.finish(session, why(error))
            raise

    def _add_late(self, session: Session, failures: Failures) -> None:
        """Add the files that are not opened at the start of the run."""
        if jobs := session.workflows.with_deadline:
            with failures.noted("a file of the run"):
                self.add(DEADLINES, deadlines_csv(jobs))
        if self._plans is not None and session.replanning is not None and session.power is not None:
            with failures.noted("the plans made during the run"):
                self._plans.add_to(self._set, session.replanning, session.power.settled.time_s)

    def observers(self) -> tuple[Observer, ...]:
        """Observers that keep the files at the end of each window, if there are several.

        If the process is killed later, `recover` makes a run of these.
        """
        several = self.prefix is not None and self.settings.windows > 1
        return (_WindowKeeper(self.keep_so_far),) if several else ()

    def keep_so_far(self, session: Session) -> None:
        """Flush all files to the system, and record their lengths in the summary. Raises InputError."""
        sizes = {} if self._tracer is None else self._tracer.keep()
        self._windows_kept = True
        if self.log is not None:
            sizes[DECISIONS] = self.log.keep()
        if self._trace is not None and session.power is not None:
            self._trace.write(self._new_rows(session.power))
            sizes[TRACE] = self._trace.keep()
        if self._plans is not None and session.replanning is not None:
            sizes[PLANS] = self._plans.keep(session.replanning)
        if self._summary is not None:
            killed = f"the run was killed after window {len(session.windows)}"
            summary = brief_summary(session, self.settings, killed)
            kept = {"sizes": sizes, "summary": summary.to_builtins()}
            self._summary.start_again()
            self._summary.write(json.dumps(kept, allow_nan=False))
            self._summary.keep()

    def _new_rows(self, power: PowerSide) -> str:
        first, self._traced = self._traced, len(power.trace)
        rows = power.trace[first:]
        if not first:
            self._sources, self._measured = {*power.inputs.told}, power.inputs.levels_told
        metered = power.site.metered
        return trace_csv(
            rows,
            power.plans,
            metered=metered,
            cooled=power.site.cooling is not None,
            charging=power.contents is not None,
            sources=self._sources,
            devices=[type(device) for device in power.site.storage.other_devices],
            measured=self._measured,
            header=not first,
        )

    def discard(self) -> None:
        """Discard unfinished files, and the folders created for them that are empty."""
        self._set.discard()
        for part in (self.log, self.recording, self._trace, self._plans, self._summary):
            if part is not None:
                part.discard()
        self._plans = None
        if self._folder is not None:
            self._folder.close()
        for folder in self._created:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _keep(self, failures: Failures, part: PartFile, name: str, text: Callable[[], str] = str) -> None:
        with failures.noted("a file of the run"):
            part.write(text())
            self._set.add(part, path_of(self.prefix or "", FAILED + name))


def _check(folder: Path) -> list[Path]:
    """Create ``folder`` if it is missing, and check that it is writable. Raises ConfigError.

    Returns the folders that it created, the innermost first.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror or error}") from None
    return missing


def recover(prefix: str) -> list[Path]:
    """Give the files of a killed run the names of a failed run, as of its last window.

    Returns the files. Raises InputError if there is nothing to recover, or the run is still in progress.
    """
    with hold_folder(Path(prefix).parent) as folder:
        return _recover(prefix, folder)


def _recover(prefix: str, folder: HeldFolder) -> list[Path]:
    place = path_of(prefix, SUMMARY)
    part = leftover(place, folder)
    text = b"" if part is None else read_bytes(part)
    if not text:
        reason = "no window had ended" if part is not None else "no .part files with this prefix"
        raise InputError(place, f"nothing can be recovered: {reason}")
    try:
        kept = _KEPT.decode(text)
    except Malformed as error:
        raise InputError(place, f"nothing can be recovered: {part} is damaged: {error}") from None
    left = [name for name, size in kept.sizes.items() if check_leftover(path_of(prefix, name), size, folder)]
    remove_old((path_of(prefix, FAILED + name) for name in (*OF_SCHEDULER, *OF_BATSIM)), folder)
    written = [path_of(prefix, FAILED + name) for name in left]
    for name, path in zip(left, written, strict=True):
        rescue(path_of(prefix, name), kept.sizes[name], path.name, folder)
    written += publish_plans(prefix, folder, failed=True)
    remove_leftover(path_of(prefix, SCHEDULE), folder)  # it is empty before the end of the run
    summary = path_of(prefix, FAILED + SUMMARY)
    write_atomic(summary, json.dumps(kept.summary, indent=2, allow_nan=False) + "\n", folder)
    remove_leftover(place, folder)
    return [*written, summary]


class _Kept(msgspec.Struct):
    """Content of the summary file until the run ends."""

    sizes: dict[str, Annotated[int, msgspec.Meta(ge=0)]]
    summary: dict[str, Any]


_KEPT: Final[JsonDecoder[_Kept]] = JsonDecoder(_Kept)
