"""Warnings (each reported once) and the decision log of a session."""

from __future__ import annotations

from beasy_sched.engine.actions import NO_FACTS, DecisionLog, Facts
from beasy_sched.limits import MOST_UNKNOWN
from beasy_sched.model.hosts import NO_HOSTS, HostSet
from beasy_sched.model.jobs import Job


class Notes:
    """The warnings of a run and its decision log."""

    def __init__(self, log: DecisionLog | None) -> None:
        """``log`` takes the rows of the decision log; None if there is none."""
        self.warnings: list[str] = []
        self.has_log = log is not None
        self._log = log
        self._given: dict[str, set[str]] = {}
        """Warnings on subjects that may have many, by subject."""

    def close_log(self) -> None:
        """Write nothing to the decision log any more."""
        self.has_log, self._log = False, None

    def warn(self, text: str) -> None:
        """Warn, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def warn_of_some(self, what: str, text: str) -> None:
        """Warn of one of many, once each, up to a limit; ``what`` names their subject."""
        given = self._given.setdefault(what, set())
        if len(given) > MOST_UNKNOWN or text in given:
            return
        given.add(text)
        if len(given) > MOST_UNKNOWN:
            text = f"more than {MOST_UNKNOWN} {what}: the rest are not listed"
        self.warnings.append(text)

    def log(
        self,
        now: float,
        what: str,
        rule: str,
        facts: Facts = NO_FACTS,
        job: Job | None = None,
        hosts: HostSet = NO_HOSTS,
    ) -> None:
        """Write a row to the decision log, if there is one."""
        if self._log is not None:
            self._log(now, what, "" if job is None else job.id, str(hosts), str(rule), facts)
