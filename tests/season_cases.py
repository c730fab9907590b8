"""Small coarse plans for tests: made by hand, without the solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from plan_cases import battery

from beasy_sched.energy.storage import HydrogenSpec, Storage
from beasy_sched.plan.plan import Provenance
from beasy_sched.plan.season import Season, SeasonYear

DAY_S = 86_400.0


def hand_season(years: int = 1, *, repeat: int = 1, start: str | None = None) -> Season:
    """Days of 6 kW, 6 kW, 0 and 0, with 1 kW wanted; a tank that starts empty, filled on the first day.

    ``repeat`` fills the tank once, and then goes on with such days, curtailing and not meeting what is left.
    """
    spec = HydrogenSpec(2.0, 0.0, 0.0, 1e4, 1e4, electrolyzer_efficiency=1.0, fuel_cell_efficiency=1.0)
    days = 4 * repeat
    renew_w, load_w = np.tile([6e3, 6e3, 0.0, 0.0], repeat), np.full(days, 1e3)
    into_w, out_w, zero = np.zeros(days), np.zeros(days), np.zeros(days)
    into_w[0] = 2.0 * 39.4 / 0.024
    out_w[2:4] = 1e3
    unmet_w = np.maximum(load_w - renew_w - out_w, 0.0)
    curtailed_w = renew_w + out_w + unmet_w - load_w - into_w
    gains_kg = into_w * 0.024 / 39.4 - out_w * 0.024 / 33.3
    cells = battery(10.0)
    year = SeasonYear(
        renew_w=renew_w,
        charge_w=zero,
        discharge_w=zero,
        electrolyzer_w=into_w,
        fuel_cell_w=out_w,
        import_w=zero,
        curtailed_w=curtailed_w,
        unmet_w=unmet_w,
        battery_j=np.full(days + 1, cells.start_j),
        hydrogen_kg=np.concatenate(([0.0], np.cumsum(gains_kg))),
    )
    settings = {} if start is None else {"start": start}
    made_by = Provenance("a test", inputs={"site": "0"}, settings=settings)
    season = Season(Storage(cells, spec), DAY_S, DAY_S, load_w, 0.0, (year,) * years, made_by)
    season.check()
    return replace(season)
