"""The files of one run, all with one prefix."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from beasy_sched.errors import ConfigError, Failures
from beasy_sched.formats.atomic import PartFile, remove_old
from beasy_sched.outputs.decision_log import DecisionLogFile
from beasy_sched.outputs.energy_trace import trace_csv
from beasy_sched.outputs.recording import RecordingWriter
from beasy_sched.outputs.summary import summarize
from beasy_sched.session import Session
from beasy_sched.settings import RunSettings

_OURS = ("decisions.jsonl", "energy_trace.csv", "summary.json")


class RunFiles:
    """Opens all files at the start of a run, and finishes what there is at its end, each for itself."""

    def __init__(
        self, prefix: str | None, settings: RunSettings, *, decisions: bool = True, record: Path | None = None
    ) -> None:
        """``prefix`` None writes nothing but the recording. Raises ConfigError for a bad place."""
        self.prefix = prefix
        self.settings = settings
        self.written: list[Path] = []
        self.log: DecisionLogFile | None = None
        self.recording: RecordingWriter | None = None
        self._trace: PartFile | None = None
        self._summary: PartFile | None = None
        try:
            if prefix is not None:
                _check(Path(prefix).parent)
            if record is not None and (record.is_file() or not record.exists()):  # no device or pipe
                _check(record.parent)
            if prefix is not None:
                if decisions:
                    self.log = DecisionLogFile(self._path("decisions.jsonl"))
                if settings.site is not None:
                    self._trace = PartFile(self._path("energy_trace.csv"))
                self._summary = PartFile(self._path("summary.json"))
            if record is not None:
                self.recording = RecordingWriter(record, settings)
        except BaseException:
            self.discard()
            raise

    def __enter__(self) -> RunFiles:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave nothing half-written; files that are finished stay."""
        self.discard()

    def begin(self) -> None:
        """Remove what an earlier run has left under the prefix, once nothing keeps this one from beginning.

        Raises InputError where that cannot be.
        """
        if self.prefix is not None:
            remove_old(self._path(name) for name in _OURS)

    def finish(self, session: Session, error: str | None = None) -> dict[str, Any]:
        """Write what there is, whole or partial, and return the summary.

        Raises the first failure, once all files have been tried: InputError for one that cannot be
        written, PolicyError for a policy's results that cannot be told.
        """
        failures = Failures()
        for part in (self.log, self.recording):
            if part is not None:
                self._keep(failures, part.close)
        if self._trace is not None and session.power is not None:
            trace, power = self._trace, session.power
            self._keep(failures, lambda: _filled(trace, [trace_csv(power.trace, power.plans)]))
        summary = summarize(session, self.settings, error, failures)
        if self._summary is not None:
            text = json.dumps(summary, indent=2, allow_nan=False)
            end = self._summary
            self._keep(failures, lambda: _filled(end, [text, "\n"]))
        self.discard()
        failures.raise_first()
        return summary

    def discard(self) -> None:
        """Throw away what has been written and is not finished."""
        for part in (self.log, self.recording, self._trace, self._summary):
            if part is not None:
                part.discard()

    def _keep(self, failures: Failures, finish: Callable[[], Path]) -> None:
        with failures.noted("a file of the run"):
            self.written.append(finish())

    def _path(self, name: str) -> Path:
        return Path(f"{self.prefix}_{name}")


def _filled(part: PartFile, pieces: Iterable[str]) -> Path:
    for piece in pieces:
        part.write(piece)
    return part.finish()


def _check(folder: Path) -> None:
    """Make ``folder`` where it is missing, and see that files can be made in it. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror or error}") from None
