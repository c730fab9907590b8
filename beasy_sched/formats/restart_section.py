"""The section ``[restart]`` of site files."""

from __future__ import annotations

from beasy_sched.energy.devices.device import SiteSection
from beasy_sched.energy.fields import require
from beasy_sched.errors import ConfigError
from beasy_sched.limits import LARGEST_WHOLE, LATEST_S
from beasy_sched.model.restarts import Checkpoints, RestartSettings, daly_interval_s

_SECONDS = f"from 0 to {LATEST_S:g} s"


class RestartSection(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of the section."""

    interval_s: float | str = Checkpoints().interval_s
    """Time that a job works from one checkpoint to the next, s; ``daly``: the optimum of Daly (2006)."""
    mean_time_between_kills_s: float | None = None
    """Mean time from one kill of a job to the next, s, for ``daly``."""
    dump_s: float = Checkpoints().dump_s
    read_s: float = Checkpoints().read_s
    notice_s: float = RestartSettings().notice_s
    most: int | None = RestartSettings().most

    def settings(self, step_s: float) -> RestartSettings:
        """Return the settings; ``step_s`` is the length of a step, s. Raises FieldError."""
        require(0 <= self.dump_s <= LATEST_S, "dump_s", self.dump_s, _SECONDS)
        require(0 <= self.read_s <= LATEST_S, "read_s", self.read_s, _SECONDS)
        interval_s = self._interval_s()
        expected = f"less than the interval of {interval_s:g} s between checkpoints"
        require(self.dump_s < interval_s, "dump_s", self.dump_s, expected)
        expected = f"at least 0 and less than a step ({step_s:g} s), at whose start the guard decides"
        require(0 <= self.notice_s < step_s, "notice_s", self.notice_s, expected)
        expected = "an integer of 1 or more (without restarts, use --on-kill drop)"
        require(self.most is None or 1 <= self.most <= LARGEST_WHOLE, "most", self.most, expected)
        return RestartSettings(Checkpoints(interval_s, self.dump_s, self.read_s), self.notice_s, self.most)

    def _interval_s(self) -> float:
        """Return the time between checkpoints, s."""
        between_s = self.mean_time_between_kills_s
        name = "mean_time_between_kills_s"
        if self.interval_s != "daly":
            require(between_s is None, name, between_s, 'no value without interval_s = "daly"')
            interval_s = self.interval_s if isinstance(self.interval_s, float | int) else 0.0
            expected = f"a number above 0, at most {LATEST_S:g} s, or 'daly'"
            require(0 < interval_s <= LATEST_S, "interval_s", self.interval_s, expected)
            return interval_s
        expected = f'a time above 0, at most {LATEST_S:g} s, as interval_s = "daly" requires'
        if between_s is None:
            raise ConfigError(f"restart.{name}: is missing, expected {expected}")
        require(0 < between_s <= LATEST_S, name, between_s, expected)
        require(self.dump_s > 0, "dump_s", self.dump_s, 'a time above 0, as interval_s = "daly" requires')
        return daly_interval_s(self.dump_s, between_s)
