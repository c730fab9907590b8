"""The options of `bid-price`: most of them leave one part of the method out, for ablation studies."""

from __future__ import annotations

from typing import Literal

from beasy_sched.engine.policy import Options
from beasy_sched.errors import ConfigError
from beasy_sched.policies.easy import OrderName


class BidPriceOptions(Options, frozen=True):
    """Options of `bid-price`."""

    quick: bool = False
    """Whether servers are woken at once for jobs that may start: less waiting, more energy for switching."""
    patience: float = 1.0
    """How long a job waits for others' servers while energy is rationed, in expected run times."""
    warm: float = 1.0
    """How long idle servers stay on while energy is enough, in break-even times (T_wait, Eq. 2.9)."""
    price: bool = True
    """Whether there is a price; without it, a job may start if the battery stays above its floor."""
    predict_demand: bool = True
    """Whether jobs still to arrive count; without them, the price follows from the queue alone."""
    correct_demand: bool = True
    """Whether the predicted demand is scaled by what has arrived, compared with what was predicted."""
    opportunity: bool = True
    """Whether a job above the price may start where its energy is not missed."""
    learn_run_times: bool = True
    """Whether run times are learned; if not, jobs are expected to need their whole walltimes."""
    learn_production: bool = True
    """Whether the error of the production forecast is learned."""
    production: Literal["plan", "forecast"] = "plan"
    """Which prediction of the production is used where there are both."""
    speed: Literal["free", "thrifty"] = "free"
    """Whether servers run at full speed where its energy is not missed, or always at the thriftiest speed."""
    hurry: bool = True
    """Whether jobs that could only end in time at full speed get it, at least until they end."""
    order: Literal["energy"] | OrderName = "energy"
    """Order in which jobs are tried."""
    margins: bool = True
    """Whether there are margins above SoC_min and target, and for doubts of commitments."""
    certainty: float = 1.0
    """Share of jobs that must be expected to end in time for a job of their kind to start."""
    ageing_h: float | None = None
    """Hours of waiting after which a job counts as half as dear, a third after twice as many; None: never."""
    most_per_kwh: float | None = None
    """Highest price at which energy from a grid is used, in the site's currency; None: any."""

    def check(self) -> None:
        """Raise ConfigError for values out of range."""
        for name in ("patience", "warm"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name}: found {getattr(self, name)!r}, expected a number of at least 0")
        if not 0.0 < self.certainty <= 1.0:
            raise ConfigError(
                f"certainty: found {self.certainty!r}, expected a share above 0 and at most 1 (80 % is 0.8)"
            )
        if self.ageing_h is not None and not self.ageing_h > 0.0:
            raise ConfigError(f"ageing_h: found {self.ageing_h!r}, expected hours above 0, or null")
