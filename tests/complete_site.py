"""A small site with all that a site file can add: cooling, services, a grid with rules and a priced peak."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from small_site import SmallSite, small_site

CHARGING = """
charge = { below_per_kwh = 0.1, up_to_soc_pct = 80 }
discharge = { above_per_kwh = 0.2 }
"""
SHAVING = """
charge = { hours = [22, 6] }
battery = "shave"
peak_kw = 0.6
"""


def complete_text(battery: str, rules: str = CHARGING, *, step_s: int = 300) -> str:
    """The site file: ``battery`` has the keys of its section, without the target's."""
    return f"""
[battery]
{battery}
target_band_pct = 5
end_value_per_kwh = 0.05
[time]
start = "2024-07-01T00:00:00+00:00"
step_s = {step_s}
window_h = 24
[cooling]
pue = [[-10, 1.06], [15, 1.10], [25, 1.25], [40, 1.50]]
temperature = "weather.csv"
[load]
base_kw = 0.02
series = {{ file = "services.csv", between = "line" }}
[grid]
import_limit_kw = 0.8
peak_per_kw = 12.0
carbon = "carbon.csv"
{rules}
[[grid.tariff]]
hours = [0, 12]
per_kwh = 0.05
[[grid.tariff]]
hours = [12, 18]
per_kwh = 0.15
[[grid.tariff]]
hours = [18, 24]
per_kwh = 0.30
"""


FIRST_DAY = datetime(2024, 7, 1)


def write_hours(path: Path, column: str, values: list[float], first: datetime = FIRST_DAY) -> None:
    """Write a file of two days from ``first`` on, hour by hour; ``values`` repeat."""
    rows = (f"{first + timedelta(hours=at):%Y-%m-%d %H:%M},{values[at % len(values)]:g}" for at in range(48))
    path.write_text("\n".join([f"time,{column}", *rows, ""]))


def write_series(folder: Path, first: datetime = FIRST_DAY) -> None:
    """Write temperatures, services and carbon intensities from ``first`` on."""
    write_hours(folder / "weather.csv", "T2M", [12.0 + hour for hour in range(24)], first)
    write_hours(folder / "services.csv", "services_w", [30.0, 37.0, 44.0, 51.0, 58.0], first)
    write_hours(folder / "carbon.csv", "carbon_g_per_kwh", [150.0, 300.0, 450.0], first)


BATTERY = "capacity_kwh = 6.0\ncharge_limit_kw = 3.0\ndischarge_limit_kw = 3.0"


def complete_site(folder: Path, rules: str = CHARGING, *, seed: int = 1, jobs: int = 40) -> SmallSite:
    """The small site with everything on."""
    made = small_site(folder, seed=seed, jobs=jobs)
    made.site.write_text(complete_text(BATTERY, rules))
    write_series(folder)
    return made
