"""Mistakes in a site with cooling, services and grid rules: one message, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import exit_code
from complete_site import BATTERY, CHARGING, SHAVING, complete_site, complete_text
from small_site import SmallSite

Capture = pytest.CaptureFixture[str]

TEXT = complete_text(BATTERY, CHARGING)
NO_BATTERY = "[time]" + TEXT.partition("[time]")[2]
NO_GRID = TEXT.partition("[grid]")[0]
PUE = "pue = [[-10, 1.06], [15, 1.10], [25, 1.25], [40, 1.50]]"
IMPORT, NO_IMPORT = "import_limit_kw = 0.8", "import_limit_kw = 0"
TEMPERATURE = 'temperature = "weather.csv"'
HOUR = "time,services_w\n2024-07-01 00:00,30\n2024-07-01 01:00,{}\n2024-07-01 02:00,30\n"

MISTAKES = {
    "a PUE below 1": ({"site.toml": TEXT.replace(PUE, "pue = 0.9").replace(TEMPERATURE, "")},
        "site.toml: cooling.pue: found 0.9, expected a PUE from 1 to 5"),
    "a PUE below 1 in a table": ({"site.toml": TEXT.replace("1.06", "0.99")},
        "site.toml: cooling.pue[0]: found 0.99, expected a PUE from 1 to 5"),
    "temperatures that end early": ({"weather.csv": "time,T2M\n2024-07-01 00:00,3\n2024-07-01 01:00,4\n"},
        "site.toml: cooling.temperature: the file covers 2024-07-01 00:00 to 2024-07-01 02:00, the run"),
    "temperatures that begin late": ({"weather.csv": "time,T2M\n2024-07-01 05:00,3\n2024-07-01 06:00,4\n"},
        "site.toml: cooling.temperature: the file covers 2024-07-01 05:00 to"),
    "a table that does not ascend": ({"site.toml": TEXT.replace("[25, 1.25]", "[15, 1.25]")},
        "site.toml: cooling.pue[2]: found 15, expected above 15, the row before"),
    "a table without temperatures": ({"site.toml": TEXT.replace(TEMPERATURE, "")},
        "site.toml: cooling.temperature: found nothing, expected a file of the outside temperature"),
    "charge without a battery": ({"site.toml": NO_BATTERY},
        "site.toml: grid.charge: requires a battery: add a section [battery]"),
    "charge without a grid": (
        {"site.toml": TEXT.replace(IMPORT, NO_IMPORT).replace("peak_per_kw = 12.0", "")},
        "site.toml: grid.charge: requires a grid that supplies power, but import_limit_kw is 0"),
    "a peak price without a grid": (
        {"site.toml": TEXT.replace(IMPORT, NO_IMPORT).replace(CHARGING, "")},
        "site.toml: grid.peak_per_kw: requires a grid that supplies power, but import_limit_kw is 0"),
    "charge outside of the grid": ({"site.toml": NO_GRID + "[battery.charge]\nhours = [0, 5]\n"},
        "site.toml: battery.charge: no such field"),
    "a defended peak without import": (
        {"site.toml": complete_text(BATTERY, SHAVING).replace(IMPORT, NO_IMPORT)},
        "site.toml: grid.charge: requires a grid that supplies power"),
    "negative services": ({"services.csv": HOUR.format(-3)},
        "services.csv:3: services_w: -3 is negative: load.series needs 0 or more"),
    "services with a gap": ({"services.csv": HOUR.replace("2024-07-01 02", "2024-07-01 04").format(3)},
        "services.csv: has no value for 2024-07-01 02:00"),
    "services with an empty cell": ({"services.csv": HOUR.format("")},
        "services.csv: has no value for 2024-07-01 01:00"),
    "services that end early": ({"services.csv": HOUR.format(3)},
        "site.toml: load.series: the file covers 2024-07-01 00:00 to 2024-07-01 03:00, the run"),
    "a band without a target": ({"site.toml": TEXT.replace("target_band_pct = 5", "target_band_pct = -1")},
        "site.toml: battery.target_band_pct: found -1, expected"),
    "an end value in cents": ({"site.toml": TEXT.replace("per_kwh = 0.05", "per_kwh = 500", 1)},
        "site.toml: battery.end_value_per_kwh: found 500 USD, expected at most"),
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    return complete_site(tmp_path_factory.mktemp("site"), jobs=5)


def is_one_message(capsys: Capture, named: str, *command: str | Path) -> None:
    assert exit_code(*map(str, command)) == 2
    out, err = capsys.readouterr()
    assert named in err
    assert err.count("\n") == 1, err
    assert out == ""


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake(case: str, site: SmallSite, tmp_path: Path, capsys: Capture) -> None:
    changed, named = MISTAKES[case]
    for name in ("site.toml", "weather.csv", "services.csv", "carbon.csv"):
        text = changed.get(name) or (site.site.parent / name).read_text()
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.iterdir())
    jobs = ["-p", site.platform, "-w", site.workload, "--site", tmp_path / "site.toml"]
    out = tmp_path / "out"
    is_one_message(capsys, named, "simulate", *jobs, "--events", site.events, "-e", out / "run")
    served = ["-s", "tcp://127.0.0.1:0", "--timeout", "0.01", "-e", out / "run", "--record", out / "a.rec"]
    is_one_message(capsys, named, "serve", "-p", site.platform, "--site", tmp_path / "site.toml", *served)
    assert sorted(tmp_path.iterdir()) == before
