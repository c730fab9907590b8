"""PV plants and wind turbines: power from irradiance and wind speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from beasy_sched.declared import OptionDoc
from beasy_sched.numbers import Range

if TYPE_CHECKING:
    import numpy.typing as npt

    from beasy_sched.arrays import FloatArray


REFERENCE_IRRADIANCE_W_M2: Final = 1000.0
"""R_ref, the irradiance at which a panel delivers its nominal power."""


_SPEED: Final = Range(0, 1000)


@dataclass(frozen=True)
class WindTurbine:
    """Power curve of a turbine: wind speeds in m/s, power in W. Raises `FieldError`."""

    rated_w: float
    cut_in_m_s: Annotated[float, OptionDoc("weather route: m/s, Eq. 2.1", range=_SPEED)] = 3.0
    rated_m_s: Annotated[float, OptionDoc("weather route: m/s", range=_SPEED)] = 12.0
    cut_out_m_s: Annotated[float, OptionDoc("weather route: m/s", range=_SPEED)] = 25.0

    def __post_init__(self) -> None:
        from beasy_sched.energy.fields import require, require_not_negative

        require_not_negative("rated_w", self.rated_w)
        require_not_negative("cut_in_m_s", self.cut_in_m_s)
        low, mid, high = self.cut_in_m_s, self.rated_m_s, self.cut_out_m_s
        require(low < mid, "rated_m_s", mid, f"above the cut-in speed ({low:g} m/s)")
        require(mid <= high, "cut_out_m_s", high, f"at least the rated speed ({mid:g} m/s)")

    def power_w(self, wind_speed_m_s: npt.ArrayLike) -> FloatArray:
        """P_wt, Eq. 2.1: power (W) at each wind speed; 0 above cut-out, and at or below cut-in."""
        import numpy as np

        speed = np.asarray(wind_speed_m_s, dtype=np.float64)
        share = (speed - self.cut_in_m_s) / (self.rated_m_s - self.cut_in_m_s)
        power = self.rated_w * np.clip(share, 0.0, 1.0)
        return np.where(speed > self.cut_out_m_s, 0.0, power)


@dataclass(frozen=True)
class PvPlant:
    """Panels with a nominal power (W) and an efficiency eta_pv for all other losses. Raises `FieldError`."""

    nominal_w: float
    efficiency: Annotated[
        float, OptionDoc("weather route: eta_pv in Eq. 2.2", range=Range(0, 1, above=True))
    ] = 0.9

    def __post_init__(self) -> None:
        from beasy_sched.energy.fields import require_fraction, require_not_negative

        require_not_negative("nominal_w", self.nominal_w)
        require_fraction("efficiency", self.efficiency)

    def power_w(self, irradiance_w_m2: npt.ArrayLike) -> FloatArray:
        """P_pv, Eq. 2.2: power (W) at each irradiance (W/m2)."""
        import numpy as np

        irradiance = np.asarray(irradiance_w_m2, dtype=np.float64)
        return self.nominal_w * (irradiance / REFERENCE_IRRADIANCE_W_M2) * self.efficiency
