"""A site file of `what-if`: what may differ from that of the run, and what may not."""

from __future__ import annotations

from pathlib import Path

import pytest
from complete_site import BATTERY, complete_text, write_series

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.foresee.changed_site import read_changed_site
from tests.plugins.foresee.foreseen_site import HYDROGEN

TEXT = complete_text(BATTERY) + "[restart]\nnotice_s = 60\n[guard]\nveto = true\n"


def check(folder: Path, old: str, new: str) -> None:
    """Check a site file in which ``new`` is in the place of ``old``."""
    assert old in TEXT
    write_series(folder)
    run, other = folder / "run.toml", folder / "new.toml"
    other.write_text(TEXT.replace(old, new))
    read_changed_site(other, TEXT, run)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("end_value_per_kwh", "# the same\nend_value_per_kwh"),
        ("import_limit_kw = 0.8", "import_limit_kw = 0.3"),
        ("discharge_limit_kw = 3.0", "discharge_limit_kw = 2.0"),
        ("per_kwh = 0.30", "per_kwh = 0.40"),
    ],
)
def test_limits_and_rates_may_differ(tmp_path: Path, old: str, new: str) -> None:
    check(tmp_path, old, new)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[15, 1.10]", "[15, 1.12]", "cooling.pue"),
        ('"line"', '"step"', "load.series"),
        ("base_kw = 0.02", "base_kw = 0.03", "load.base_kw"),
        ("notice_s = 60", "most = 1", "restart.notice_s"),
        ("veto = true", "veto = false", "guard.veto"),
        ("target_band_pct = 5", "target_band_pct = 4", "battery.target_band_pct"),
        ("below_per_kwh = 0.1,", "below_per_kwh = 0.12,", "grid.charge"),
        ("charge = { below_per_kwh = 0.1", "charge = { hours = [0, 5]", "grid.charge"),
        ("discharge = { above_per_kwh = 0.2 }", "", "grid.discharge"),
        ("peak_per_kw = 12.0", "peak_per_kw = 10.0", "grid.peak_per_kw"),
        ("import_limit_kw", 'currency = "EUR"\nimport_limit_kw', "grid.currency"),
        ("+00:00", "+02:00", "time.start"),
        ("[restart]", HYDROGEN + "[restart]", "hydrogen.tank_kg"),
    ],
)
def test_all_else_is_that_of_the_run(tmp_path: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^--site .*new.toml: {told} is not that of the run: only limits"):
        check(tmp_path, old, new)
