"""Writing series in the form of a Renewables.ninja export, so that synthetic weather can stand in for one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.formats.time_series import time_text

_TITLES = {"pv": "Solar photovoltaic power (PV)", "wind": "Wind power"}
_WEATHER_COLUMNS = {
    "pv": {"irradiance_direct": "kW/m2", "irradiance_diffuse": "kW/m2"},
    "wind": {"wind_speed": "m/s"},
}


def ninja_lines(
    technology: str,
    *,
    start_s: int,
    electricity_kw: FloatArray,
    weather: dict[str, FloatArray],
    capacity_kw: float,
    latitude_deg: float,
    source: str,
) -> Iterator[str]:
    """The lines (with line ends) of an hourly raw export of ``technology``, ``"pv"`` or ``"wind"``.

    ``weather`` has the export's own columns: ``irradiance_direct`` and ``irradiance_diffuse`` in kW/m2,
    or ``wind_speed`` in m/s. ``source`` says in the title where the numbers are from.
    """
    units = {"time": "UTC", "electricity": "kW", **_WEATHER_COLUMNS[technology]}
    hours = len(electricity_kw)
    params = {
        "local_time": False,
        "header": True,
        "lat": f"{latitude_deg:g}",
        "lon": "0",
        "date_from": time_text(start_s, 0)[:10],
        "date_to": time_text(start_s, (hours - 1) * 3600)[:10],
        "dataset": source,
        "capacity": f"{capacity_kw:g}",
        "raw": True,
    }
    yield f"# {_TITLES[technology]} - {latitude_deg:g}, 0 - {source}; in the format of Renewables.ninja\n"
    yield "# Units: " + ", ".join(f"{name} in {unit}" for name, unit in units.items()) + "\n"
    yield "# " + json.dumps({"units": units, "params": params}) + "\n"
    yield ",".join(units) + "\n"
    columns = np.column_stack([electricity_kw, *(weather[name] for name in _WEATHER_COLUMNS[technology])])
    for hour, row in enumerate(columns.tolist()):
        cells = (f"{value:.3f}" for value in row)
        yield f"{time_text(start_s, hour * 3600)},{','.join(cells)}\n"
