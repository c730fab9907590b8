"""Calendar of simulated time, and the local clock of a site: for tariffs, prices, carbon and solar power."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo


@dataclass(frozen=True)
class Calendar:
    """Date of simulated time 0, and the local clock of the site."""

    start: datetime
    """Date and time of time 0, with its offset from UTC."""
    zone: tzinfo | None = None
    """Time zone of the site; None means the offset of ``start`` all year."""

    def __post_init__(self) -> None:
        if self.start.tzinfo is None:
            raise ValueError("start: expected a time with its offset from UTC")

    def local(self, time_s: float) -> datetime:
        """Return the local time at ``time_s``."""
        moment = self.start.astimezone(timezone.utc) + timedelta(seconds=time_s)
        return moment.astimezone(self.zone or self.start.tzinfo)

    def seconds(self, moment: datetime) -> float:
        """Return the simulated time (s) of a date and time with an offset or a time zone."""
        return (moment.astimezone(timezone.utc) - self.start.astimezone(timezone.utc)).total_seconds()

    @staticmethod
    def midnight(moment: datetime) -> datetime:
        """Return the midnight at the start of the day of ``moment``."""
        return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)

    def day_end_s(self, time_s: float, days: int = 0) -> float:
        """Return the simulated time of the midnight that ends the day of ``time_s``, or ``days`` later."""
        noon = self.midnight(self.local(time_s)) + timedelta(days=1 + days, hours=12)
        return self.seconds(self.midnight(noon))
