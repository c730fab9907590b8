"""The files of one run, all with one prefix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from beasy_sched.errors import ConfigError
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
                Path(prefix).parent.mkdir(parents=True, exist_ok=True)
            if prefix is not None and decisions:
                self.log = DecisionLogFile(self._path("decisions.jsonl"))
            if record is not None:
                record.parent.mkdir(parents=True, exist_ok=True)
                self.recording = RecordingWriter(record, settings)
        except OSError as error:
            raise ConfigError(f"cannot write to {error.filename}: {error.strerror}") from None

    def finish(self, session: Session, error: str | None = None) -> dict[str, Any]:
        """Write what there is, whole or partial, and return the summary."""
        summary = summarize(session, self.settings, error)
        for part in (self.log, self.recording):
            if part is not None:
                part.close()
                self.written.append(part.path)
        if self.prefix is not None:
            if session.power is not None:
                self._write("energy_trace.csv", trace_csv(session.power.trace))
            self._write("summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")
        return summary

    def _path(self, name: str) -> Path:
        return Path(f"{self.prefix}_{name}")

    def _write(self, name: str, text: str) -> None:
        write_atomic(self._path(name), text)
        self.written.append(self._path(name))
