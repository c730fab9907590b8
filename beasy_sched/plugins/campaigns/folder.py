"""The folder of a campaign.

    campaign.json     description of the campaign (`Manifest`)
    inputs/           input files of the runs, named by content; plans by their own inputs
    rows/             one small file per completed run: the journal
    traces/, runs/    files of the runs to keep, if requested
    runs.parquet      the table, once all runs have finished
    timings.parquet   durations of the runs

Each file is renamed to its name only when it is complete, so the folder is consistent whenever the campaign
is interrupted, even by SIGKILL. The scenarios are frozen in the manifest, so that runs of other scenarios are
never mixed in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import msgspec

from beasy_sched._version import __version__
from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.formats.atomic import hold_folder, remove_if_dead, write_atomic
from beasy_sched.formats.decoding import JsonDecoder, Malformed, decode_json, read_json
from beasy_sched.formats.forecast_source import forecast_files
from beasy_sched.formats.held_folder import HeldFolder, kind_of
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.campaigns.scenario import FileProduction, Scenario, SwfWorkload
from beasy_sched.plugins.campaigns.scenario_file import check_sizes, scenario_of
from beasy_sched.plugins.campaigns.tasks import TRACE, Keep, RunResult

_ENDINGS = {"platform": "xml", "workload": "json", "power": "txt", "plan": "msgpack", "site": "toml"}
_GLANCE_S = 0.1
"""Longest time for which `Folder.running_since_s` holds the lock, s."""
_LOCK = ".lock"
"""Lock file, locked while a campaign runs in the folder; its time is the start of the campaign."""

Row = TypeVar("Row")


class Ended(msgspec.Struct, frozen=True):
    """Journal entry of a finished run."""

    row: dict[str, Any]
    wall_s: Annotated[float, msgspec.Meta(ge=0)]
    cpu_s: Annotated[float, msgspec.Meta(ge=0)]
    traceback: str | None = None


def read_ended(path: Path, kind: type[Row]) -> Row | None:
    """Read the journal entry of a run; None if the run has not finished.

    A power cut may leave a truncated file: that run has not finished either. Raises InputError for other
    damage.
    """
    if not path.exists():
        return None
    try:
        return JsonDecoder(kind).decode(read_bytes(path))
    except Malformed as error:
        if error.ends_early:
            return None
        raise damaged_row(path, str(error), error.line) from None


def damaged_row(path: Path, why: str, line: int | None = None) -> InputError:
    """Return the error for a journal's file that cannot be used."""
    advice = "delete the file to repeat the run"
    return InputError(path, f"is not the result of a run: {why}; {advice}", line=line)


def must_be_empty(folder: Path, otherwise: str) -> None:
    """Raise ConfigError if a folder contains other files; ``otherwise`` names what was expected."""
    if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and does not contain {otherwise}: choose another folder")


@dataclass(frozen=True)
class Folder:
    """Paths in the folder, and access to their files."""

    path: Path

    @property
    def manifest(self) -> Path:
        """Path of ``campaign.json``."""
        return self.path / "campaign.json"

    @property
    def table(self) -> Path:
        """Path of ``runs.parquet``."""
        return self.path / "runs.parquet"

    @contextlib.contextmanager
    def locked(self, *, shared: bool = False) -> Iterator[None]:
        """Lock the folder against other campaigns, until the process ends. Raises ConfigError and InputError.

        Several parts of one campaign may use the folder at the same time: their lock is ``shared``.
        """
        with self._open_lock() as file:
            if sys.platform != "win32":
                import fcntl

                for last_try in (False, True):
                    try:
                        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if last_try:
                            raise ConfigError(
                                f"another campaign, or a part of this one, is running in {self.path}"
                            ) from None
                        time.sleep(_GLANCE_S)
                    except OSError as error:
                        raise ConfigError(
                            f"{self.path} cannot be locked (flock: {error.strerror}): choose a folder on a"
                            " file system with locks"
                        ) from None
            os.utime(file.fileno())
            if not shared:
                self._remove_leftovers()
            for name in ("inputs", "rows"):
                self._held(name).close()
            yield

    def _remove_leftovers(self) -> None:
        """Remove temporary files of a campaign that was killed."""
        with self._held() as held:
            for folder, name in held.files():
                if fnmatch(name, ".*.part"):
                    remove_if_dead(name, folder)

    def _open_lock(self) -> TextIO:
        with self._held() as held:
            try:
                opened = held.open(_LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0))
                return os.fdopen(opened, "w")
            except OSError as error:
                kind = kind_of(held.mode(_LOCK) or stat.S_IFREG)
                what = f"cannot be opened ({error.strerror}): it is {kind}; remove it"
                raise InputError(self.path / _LOCK, what) from error

    def _held(self, *names: str) -> HeldFolder:
        """Hold the folder, or one in it, and create it if it is missing.

        Raises InputError if it cannot be created, or a link or a file has its name.
        """
        held = hold_folder(self.path)
        for name in names:
            with held as outer:
                held = outer.inner(name)
        return held

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file in a campaign's folder atomically. Raises InputError."""
        with self._held(*path.relative_to(self.path).parts[:-1]) as folder:
            write_atomic(path, content, folder)

    def running_since_s(self) -> float | None:
        """Return the start (or resumption) of the running campaign, or of its last part, s since 1970.

        None if none is running, or the folder's lock cannot be opened or taken.
        """
        if sys.platform == "win32":
            return None
        import fcntl

        with contextlib.suppress(OSError), (self.path / _LOCK).open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return os.fstat(file.fileno()).st_mtime
        return None

    def ended_at_s(self) -> list[float]:
        """Return the times at which the runs ended, s since 1970, in ascending order."""
        return sorted(path.stat().st_mtime for path in (self.path / "rows").glob("*.json"))

    def add_input(self, kind: str, content: bytes) -> str:
        """Store an input of runs; return its SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        path = self.input_path(kind, digest)
        if not path.exists() or path.stat().st_size != len(content):  # a power cut may leave it empty
            self._write(path, content)
        return digest

    def add_plan(self, recipe: str, content: bytes) -> None:
        """Store a plan. Raises InputError."""
        self._write(self.input_path("plan", recipe), content)

    def has_plan(self, recipe: str) -> bool:
        """Whether the folder has a complete plan of this recipe."""
        try:
            read_plans(self.input_path("plan", recipe))
        except BeasyError:
            return False
        return True

    def input_path(self, kind: str, digest: str) -> Path:
        """Return the path of an input. ``digest`` is the hash of its content; for a plan, of its recipe."""
        return self.path / "inputs" / f"{kind}-{digest[:16]}.{_ENDINGS[kind]}"

    def has(self, run: str, keep: Keep) -> bool:
        """Whether all files to keep of a run exist."""
        if keep == "trace":
            return self.trace(run) is not None
        return keep == "nothing" or (self.path / "runs" / run).is_dir()

    def row_path(self, run: str) -> Path:
        """Return the path of a run's journal entry."""
        return self.path / "rows" / f"{run}.json"

    def ended(self, run: str) -> Ended | None:
        """Return the outcome of a run; None if it has not finished."""
        return read_ended(self.row_path(run), Ended)

    def add(self, run: str, row: dict[str, Any], result: RunResult, keep: Keep) -> None:
        """Write the files to keep of a run, then its row. Raises InputError."""
        if keep == "everything":
            place = self.path / "runs" / run
            for name, content in result.files.items():
                self._write(place / name, content)
            with self._held("runs", run) as held:
                held.clear(keep=result.files)  # of an earlier failure of the same run
        elif keep == "trace" and TRACE in result.files:
            self._write(self.path / "traces" / f"{run}.csv", result.files[TRACE])
        ended = Ended(row, result.wall_s, result.cpu_s, result.trace)
        self._write(self.row_path(run), msgspec.json.encode(ended))

    def trace(self, run: str) -> Path | None:
        """Return the energy trace of a run, None if it was not kept."""
        places = self.path / "traces" / f"{run}.csv", self.path / "runs" / run / TRACE
        return next((path for path in places if path.exists()), None)


FORMAT = "beasy-sched campaign"
FORMAT_VERSION = 1
_MOST_DIFFERENCES = 5


class Manifest(msgspec.Struct, frozen=True):
    """The contents of ``campaign.json``."""

    version: str
    """Version of beasy-sched."""
    quick: bool
    keep: Keep
    """Files of each run to keep; see `execute`."""
    scenarios: list[dict[str, Any]]
    files: dict[str, str]
    """SHA-256 of every file named in the scenarios."""
    format: str = FORMAT
    format_version: int = FORMAT_VERSION

    def parsed(self) -> list[Scenario]:
        """Return the scenarios, in their quick versions if ``quick`` is true. Raises ConfigError."""
        return [scenario_of(values) for values in self.scenarios]


def manifest_of(scenarios: Sequence[Scenario], *, quick: bool, keep: Keep) -> Manifest:
    """Freeze scenarios. Raises InputError for a file that cannot be read."""
    values = [plain_values(scenario) for scenario in scenarios]
    return Manifest(__version__, quick, keep, values, _file_hashes(scenarios))


def plain_values(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as JSON values, without newer fields that have their default."""
    values: dict[str, Any] = decode_json(msgspec.json.encode(scenario), dict)
    parts: tuple[tuple[dict[str, Any], Any, tuple[str, ...]], ...]
    parts = ((values, None, ("forecast", "deadlines")), (values["noise"], 1.0, ("production_band",)),
             (values["plan"], 1.0, ("demand_factor",)),
             (values["plan"], "", ("replan", "season", "forecast_step")), (values, {}, ("sweep",)),
             *((part, None, ("real_workload",)) for part in values["tuples"]),
             *((part["workload"], 0.0, ("quiet_end_h",)) for part in values["tuples"]))  # fmt: skip
    for part, usual, names in parts:
        for name in names:
            if part.get(name, usual) == usual:
                part.pop(name, None)
    return values


def scenario_hash(scenario: Scenario) -> str:
    """Return the SHA-256 of everything that affects a scenario's results; files count by content."""
    hashes = _file_hashes([scenario])
    values = {key: value for key, value in plain_values(scenario).items() if key != "comment"}
    text = json.dumps([_by_content(values, hashes), dict.fromkeys(hashes.values(), "")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _by_content(value: Any, hashes: Mapping[str, str]) -> Any:
    """Return a JSON value with the hashes of files instead of their names."""
    if isinstance(value, dict):
        pairs = [(hashes.get(key, key), _by_content(part, hashes)) for key, part in value.items()]
        return sorted(pairs, key=repr) if value.keys() & hashes.keys() else dict(pairs)
    if isinstance(value, list):
        return [_by_content(part, hashes) for part in value]
    return hashes.get(value, value) if isinstance(value, str) else value


def read_manifest(path: Path) -> Manifest:
    """Read ``campaign.json``. Raises InputError."""
    if not path.exists():
        raise InputError(path, "cannot be read (no such file): is this the folder of a campaign?")
    manifest = read_json(path, Manifest)
    check_format(path, (manifest.format, manifest.format_version), (FORMAT, FORMAT_VERSION))
    for number, values in enumerate(manifest.scenarios):
        try:
            check_sizes(scenario_of(values))
        except ConfigError as error:
            raise InputError(path, f"scenarios[{number}].{error}") from None
    return manifest


def check_format(path: Path, actual: tuple[str, int], expected: tuple[str, int]) -> None:
    """Raise InputError for a file of another format (its name and version)."""
    if actual != expected:
        raise InputError(path, f"is {actual[0]!r} {actual[1]}, expected {expected[0]!r} {expected[1]}")


def check_same(folder: Path, old: Manifest, new: Manifest) -> None:
    """Raise ConfigError, with the differences, if new runs would not match those of the folder."""
    if not (different := list(_differences_of_manifests(old, new))):
        return
    more = len(different) - _MOST_DIFFERENCES
    shown = [*different[:_MOST_DIFFERENCES], *([f"and {more} more"] if more > 0 else [])]
    raise ConfigError(
        f"{folder} contains another campaign:\n  "
        + "\n  ".join(shown)
        + "\nChoose another folder with -o, or "
        "continue the existing one with 'beasy-sched campaign resume'"
    )


def _differences_of_manifests(old: Manifest, new: Manifest) -> Iterator[str]:
    if old.version != new.version:
        yield f"it was made by beasy-sched {old.version}, this is {new.version}"
    if old.quick != new.quick:
        yield "it was made " + ("with" if old.quick else "without") + " --quick"
    before, now = ({str(v["name"]): v for v in m.scenarios} for m in (old, new))
    if list(before) != list(now):
        yield f"its scenarios are {', '.join(before)}; now they are {', '.join(now)}"
    for name in before.keys() & now.keys():
        for place, was, is_now in differences(before[name], now[name]):
            if place != "comment" and old.quick == new.quick:
                yield f"scenario {name}: {place} was {was!r:.60}, is now {is_now!r:.60}"
    for path in old.files.keys() & new.files.keys():
        if old.files[path] != new.files[path]:
            yield f"the file {path} has changed"


def differences(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the position, the old and the new value of each difference between two JSON values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), f"{place}.{key}" if place else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (was, is_now) in enumerate(zip(old, new, strict=True)):
            yield from differences(was, is_now, f"{place}[{index}]")
    elif old != new:
        yield place, old, new


def _file_hashes(scenarios: Sequence[Scenario]) -> dict[str, str]:
    paths = sorted({path for scenario in scenarios for path in named_files(scenario)})
    return {path: hashlib.sha256(read_bytes(path)).hexdigest() for path in paths}


def named_files(scenario: Scenario) -> Iterator[str]:
    """Yield every file named in a scenario: server files, traces, weather, prices, forecasts."""
    names = [*scenario.platform.servers, scenario.platform.reference or ""]
    yield from (name for name in names if name.endswith(".toml"))
    yield from scenario.site_files
    if scenario.forecast is not None and scenario.forecast.file is not None:
        yield from forecast_files(scenario.forecast.named(Path()))
    for part in scenario.tuples:
        for workload in (part.workload, part.real_workload):
            if isinstance(workload, SwfWorkload):
                yield workload.file
        if isinstance(part.production, FileProduction):
            yield from (name for name in (part.production.pv, part.production.wind) if name is not None)
