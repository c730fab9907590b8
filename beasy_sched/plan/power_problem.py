"""What the power decisions start from, checked: forecasts, storage, start, targets, the servers' bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import ConfigError
from beasy_sched.units import j_to_kwh, w_to_kw

_LARGEST_POWER_W = 1e12


class Surplus(str, Enum):
    """What happens to power beyond the demand. Shortfalls are the same either way."""

    ENVELOPE = "envelope"
    """The servers may use it, up to what they can draw (Eq. 3.11 as printed)."""
    STORE = "store"
    """Into the battery, up to SoC_max, first; the servers may use the rest."""


@dataclass(frozen=True)
class PowerProblem:
    """One window for the power decisions. Raises ConfigError, naming the field and the step.

    ``load_w`` and ``renew_w`` are forecasts, one value (W) a step, of the same length T.
    """

    storage: Storage
    load_w: FloatArray
    """P_load: what the servers would like to draw."""
    renew_w: FloatArray
    """P_renew: what sun and wind give."""
    step_s: float = 300.0
    floor_w: float | FloatArray = 0.0
    """What sleeping servers draw whatever happens; one value, or one a step."""
    most_w: float = np.inf
    """What the servers can draw at most: the envelope beyond it is curtailed."""
    surplus: Surplus = Surplus.ENVELOPE
    start: StorageState | None = None
    """Levels at the start of the window; None takes the site's."""
    soc_target_pct: float | None = None
    """Least SoC at the end; None takes the site's."""
    hydrogen_target_kg: float | None = None
    """Least level of hydrogen at the end; None takes the site's."""
    floors_w: FloatArray = field(init=False, repr=False)
    """``floor_w`` as one value a step."""

    def __post_init__(self) -> None:
        load = checked_powers("demand", self.load_w)
        renew = checked_powers("production", self.renew_w)
        if len(load) != len(renew):
            raise ConfigError(
                f"the demand has {len(load)} steps and the production {len(renew)}: expected the same number"
            )
        if not (np.isfinite(self.step_s) and self.step_s > 0):
            raise ConfigError(f"step_s: found {self.step_s!r}, expected a finite number > 0")
        if not self.most_w > 0:
            raise ConfigError(f"most_w: found {self.most_w!r}, expected a number > 0")
        floors = np.broadcast_to(np.asarray(self.floor_w, dtype=np.float64), len(load))
        object.__setattr__(self, "load_w", load)
        object.__setattr__(self, "renew_w", renew)
        object.__setattr__(self, "floors_w", checked_powers("sleep floor", floors))
        self._check_levels()

    @property
    def steps(self) -> int:
        """T."""
        return len(self.load_w)

    @property
    def start_state(self) -> StorageState:
        """Levels at the start of the window."""
        return self.storage.start() if self.start is None else self.start

    @property
    def target_j(self) -> float:
        """Least battery energy at the end, J."""
        battery = self.storage.battery
        return battery.target_j if self.soc_target_pct is None else battery.energy_j(self.soc_target_pct)

    @property
    def target_kg(self) -> float:
        """Least hydrogen at the end, kg; 0 for a site without hydrogen."""
        if self.storage.hydrogen is None:
            return 0.0
        if self.hydrogen_target_kg is None:
            return self.storage.hydrogen.level_target_kg
        return self.hydrogen_target_kg

    def hour(self, step: int) -> float:
        """Hours from the start of the window to the end of a step."""
        return (step + 1) * self.step_s / 3600.0

    def _check_levels(self) -> None:
        battery, hydrogen, start = self.storage.battery, self.storage.hydrogen, self.start_state
        slack_j = 1e-6 * battery.capacity_j
        if not battery.min_j - slack_j <= start.battery_j <= battery.max_j + slack_j:
            raise ConfigError(
                f"the window starts with the battery at {battery.soc_pct(start.battery_j):.2f} %, expected "
                f"between soc_min_pct ({battery.soc_min_pct:g}) and soc_max_pct ({battery.soc_max_pct:g})"
            )
        low, high, target = battery.soc_min_pct, battery.soc_max_pct, self.soc_target_pct
        if target is not None and not low <= target <= high:
            raise ConfigError(
                f"the SoC target is {target!r} %, expected between soc_min_pct ({low:g}) "
                f"and soc_max_pct ({high:g})"
            )
        tank = hydrogen.tank_kg if hydrogen else 0.0
        if not 0.0 <= start.hydrogen_kg <= tank * (1 + 1e-9):
            raise ConfigError(
                f"the window starts with {start.hydrogen_kg!r} kg of hydrogen, "
                f"expected 0 to tank_kg ({tank:g})"
            )
        wanted = self.hydrogen_target_kg
        if wanted is not None and not 0.0 <= wanted <= tank:
            raise ConfigError(f"the hydrogen target is {wanted!r} kg, expected 0 to tank_kg ({tank:g})")


def checked_powers(name: str, values: npt.ArrayLike) -> FloatArray:
    """A forecast as an array of W. Raises ConfigError for what no power can be, naming the step."""
    powers = np.asarray(values, dtype=np.float64)
    if powers.ndim != 1 or not len(powers):
        raise ConfigError(f"the {name} must be one value a step: found an array of shape {powers.shape}")
    wrong = ~np.isfinite(powers) | (powers < 0)
    if wrong.any():
        step = int(np.argmax(wrong))
        raise ConfigError(f"the {name} is {powers[step]} W at step {step}, expected a finite number >= 0")
    largest = int(np.argmax(powers))
    if powers[largest] > _LARGEST_POWER_W:
        raise ConfigError(
            f"the {name} is {powers[largest]:g} W at step {largest}: above 1e12 W the unit must be wrong"
        )
    return powers.copy()


def check_sizes(problem: PowerProblem) -> tuple[str, ...]:
    """Warnings about forecasts and storage whose sizes do not go together: is a unit wrong?

    Returns one sentence for each thing that is off by a factor of more than a thousand.
    """
    notes = []
    load, renew = problem.load_w.max(), problem.renew_w.max()
    if min(load, renew) > 0 and not 1e-3 <= load / renew <= 1e3:
        notes.append(
            f"the demand reaches {w_to_kw(load):g} kW and the production {w_to_kw(renew):g} kW: "
            "are both in watts?"
        )
    size_kwh = j_to_kwh(problem.storage.battery.capacity_j)
    hours = size_kwh / w_to_kw(load) if load > 0 else 1.0
    if not 1e-3 <= hours <= 1e4:
        notes.append(
            f"a battery of {size_kwh:g} kWh holds {hours:.3g} hours of the largest demand "
            f"({w_to_kw(load):g} kW): is a unit wrong?"
        )
    return tuple(notes)
