"""The files of one run, all with one prefix."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from beasy_sched.errors import ConfigError, InputError, PolicyError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.outputs.decision_log import DecisionLogFile
from beasy_sched.outputs.energy_trace import trace_csv
from beasy_sched.outputs.recording import RecordingWriter
from beasy_sched.outputs.summary import summarize
from beasy_sched.session import Session
from beasy_sched.settings import RunSettings


class RunFiles:
    """Opens what is written while the run goes on, and writes the rest at its end."""

    def __init__(
        self, prefix: str | None, settings: RunSettings, *, decisions: bool = True, record: Path | None = None
    ) -> None:
        """``prefix`` None writes nothing but the recording. Raises ConfigError for a bad place."""
        self.prefix = prefix
        self.settings = settings
        self.written: list[Path] = []
        self.log: DecisionLogFile | None = None
        self.recording: RecordingWriter | None = None
        try:
            if prefix is not None:
                _check(Path(prefix).parent)
            if record is not None and (record.is_file() or not record.exists()):  # no device or pipe
                _check(record.parent)
            if prefix is not None and decisions:
                self.log = DecisionLogFile(self._path("decisions.jsonl"))
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

    def finish(self, session: Session, error: str | None = None) -> dict[str, Any]:
        """Write what there is, whole or partial, and return the summary.

        Raises InputError for the first file that cannot be written, once all have been tried, and PolicyError
        where the policy's own results cannot be had; the summary then says so.
        """
        failed: InputError | PolicyError | None = None
        try:
            summary = summarize(session, self.settings, error)
        except PolicyError as found:
            failed = found
            summary = summarize(session, self.settings, error or str(found), results=False)
        for write in self._writers(session, summary):
            try:
                self.written.append(write())
            except InputError as found:
                failed = failed or found
        if failed is not None:
            raise failed
        return summary

    def discard(self) -> None:
        """Throw away what has been written and is not finished."""
        for part in (self.log, self.recording):
            if part is not None:
                part.discard()

    def _writers(self, session: Session, summary: dict[str, Any]) -> Iterator[Callable[[], Path]]:
        for part in (self.log, self.recording):
            if part is not None:
                yield part.close
        if self.prefix is None:
            return
        if session.power is not None:
            trace = trace_csv(session.power.trace, session.power.plans)
            yield lambda: self._write("energy_trace.csv", trace)
        yield lambda: self._write("summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")

    def _path(self, name: str) -> Path:
        return Path(f"{self.prefix}_{name}")

    def _write(self, name: str, text: str) -> Path:
        write_atomic(self._path(name), text)
        return self._path(name)


def _check(folder: Path) -> None:
    """Make ``folder`` where it is missing, and see that files can be made in it. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror or error}") from None
