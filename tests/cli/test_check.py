"""``beasy-sched check``, and that what runs warns of the same."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code

from beasy_sched.numbers import found_text

HOUR_S = 3600


def workload(path: Path, jobs: list[dict[str, Any]], **profiles: Any) -> Path:
    path.write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    return path


def job(
    number: int, subtime: float, walltime: float = 100, res: int = 1, profile: str = "run"
) -> dict[str, Any]:
    return {"id": str(number), "subtime": subtime, "walltime": walltime, "res": res, "profile": profile}


def run_for(seconds: float) -> dict[str, Any]:
    return {"type": "parallel_homogeneous", "cpu": seconds * 35.2e9, "com": 0}  # gros: 35.2 Gflop/s


def power(path: Path, hours: int, *, value_w: Any = 1000.0, skip: range = range(0)) -> Path:
    lines = [
        json.dumps({"type": "sun", "timestamp": HOUR_S * hour, "power_available": value_w})
        for hour in range(hours)
        if hour not in skip
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A platform, a workload, three days of power, a plan of two windows of a day and its site."""
    made = tmp_path_factory.mktemp("check")
    assert exit_code("generate", "platform", "-n", "gros:4", "-o", str(made / "p.xml"), "-q") == 0
    site = (
        "[battery]\ncapacity_kwh = 10\ncharge_limit_kw = 5\ndischarge_limit_kw = 5\n[time]\nwindow_h = 24\n"
    )
    (made / "site.toml").write_text(site + "step_s = 3600\n")
    power(made / "power.txt", 72)
    workload(made / "w.json", [job(n, n * 1000) for n in range(20)], run=run_for(50))
    plan = ("plan", "-p", made / "p.xml", "-w", made / "w.json", "--production", made / "power.txt")
    rest = ("--site", made / "site.toml", "--windows", "2", "-o", made / "plan.msgpack", "-q")
    assert exit_code(*map(str, (*plan, *rest))) == 0
    return made


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "own")
    return tmp_path / "own"


def check(place: Path, *arguments: str, **files: str) -> int:
    """Check the files of ``place``; others by option, an empty name for none."""
    given = {"p": "p.xml", "w": "w.json", "events": "power.txt", "site": "site.toml"} | files
    options = [
        (f"{'-' * (1 + (len(name) > 1))}{name}", str(place / file)) for name, file in given.items() if file
    ]
    return exit_code("check", *(part for option in options for part in option), *arguments)


def codes(place: Path, capsys: pytest.CaptureFixture[str], *arguments: str, **files: str) -> list[str]:
    capsys.readouterr()
    code = check(place, "--json", *arguments, **files)
    report = json.loads(capsys.readouterr().out)
    levels = {finding["level"] for finding in report["findings"]}
    assert code == (2 if "error" in levels else 1 if levels else 0)
    assert report["verdict"] == ("ok", "warnings", "errors")[code]
    return [finding["code"] for finding in report["findings"]]


def test_all_is_fine(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(place, capsys, "--windows", "2", plan="plan.msgpack") == []
    assert check(place, "--windows", "2", plan="plan.msgpack") == 0
    out = capsys.readouterr().out
    rows = dict(line.split("  ", 1) for line in out.splitlines() if "  " in line.strip())
    assert rows["hosts"].strip() == "4, 35.2 Gflop/s"
    assert rows["jobs"].strip() == "20, the last at 5.278 h"
    assert "50 % of the walltime" in rows["run time, median"]
    assert rows["plan"].strip() == "2 windows, 48 h"
    assert out.endswith("ok\n")
    assert "\x1b" not in out


def test_figures_are_in_si_units(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert check(place, "--json") == 0
    found = json.loads(capsys.readouterr().out)["figures"]
    assert (found["hosts"], found["jobs"], found["run_s"]) == (4, 20, 86_400)
    assert found["load"] == pytest.approx(20 * 50 / (4 * 86_400))
    assert (found["power_covered_s"], found["power_mean_w"], found["capacity_factor"]) == (259_200, 1000, 1)


def test_power_that_ends_before_the_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(place, capsys, "--windows", "3") == []
    assert codes(place, capsys, "--windows", "4") == ["power-short"]
    assert check(place, "--windows", "4") == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "the power covers 72 h, the run needs 96 h: its last value, 1 kW, is used" in out


def test_events_that_batsim_may_play_in_another_order(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (place / "power.txt").open("a") as file:
        file.write('{"type": "mark", "timestamp": 3600}\n')
    assert codes(place, capsys) == ["events-tied"]
    assert check(place) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "power.txt:2: line 73 has the same timestamp, 3600 s: in a file of more than 16 lines" in out


def test_power_that_is_odd(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    power(place / "power.txt", 72, skip=range(1))
    assert codes(place, capsys) == ["power-late"]
    power(place / "power.txt", 72, skip=range(20, 35))
    assert codes(place, capsys) == ["power-hole"]
    power(place / "power.txt", 72, value_w=0.9)
    assert codes(place, capsys) == ["power-small"]
    power(place / "power.txt", 72, value_w=1e6)
    assert codes(place, capsys) == ["power-large"]
    power(place / "power.txt", 72, value_w="much")
    assert codes(place, capsys) == ["power-bad"]
    (place / "power.txt").write_text('{"type": "other", "timestamp": 0}\n')
    assert codes(place, capsys) == ["power-none"]


def test_a_plan_of_another_length_and_of_another_place(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert codes(place, capsys, plan="plan.msgpack") == ["plan-long"]
    assert codes(place, capsys, "--windows", "3", plan="plan.msgpack") == ["plan-short"]
    assert exit_code("generate", "platform", "-n", "gros:5", "-o", str(place / "p.xml"), "-q") == 0
    assert codes(place, capsys, "--windows", "2", plan="plan.msgpack") == ["plan-other"]


def test_windows_that_were_forgotten(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload(place / "w.json", [job(n, n * 8 * HOUR_S) for n in range(9)], run=run_for(50))
    assert codes(place, capsys, "--windows", "3") == []
    assert codes(place, capsys) == ["jobs-late"]
    assert check(place) == 1
    assert "6 of 9 jobs arrive after the end of the run, at 24 h" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("seconds", "found"), [(1, ["flops-few"]), (3, []), (99, []), (200, ["flops-many"])])
def test_flops_of_another_platform(
    seconds: float, found: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload(place / "w.json", [job(n, n * 1000) for n in range(9)], run=run_for(seconds))
    assert codes(place, capsys) == found
    waits = {"type": "delay", "delay": seconds}  # takes as long on any host
    workload(place / "w.json", [job(n, n * 1000) for n in range(9)], run=waits)
    assert codes(place, capsys) == []


def test_more_jobs_than_the_hosts_can_do(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job(n, n, walltime=2 * HOUR_S) for n in range(100)]
    workload(place / "w.json", jobs, run=run_for(HOUR_S))
    assert codes(place, capsys) == ["overload"]  # 100 h on 4 hosts in a day
    assert codes(place, capsys, site="", events="") == ["overload"]
    assert codes(place, capsys, "--windows", "2") == []
    workload(place / "w.json", [job(1, 0, res=5)], run=run_for(50))
    assert codes(place, capsys) == ["jobs-large"]


def test_hosts_without_powers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (place / "p.xml").read_text().replace('id="wattage_', 'id="none_').replace('id="watt_', 'id="no_')
    (place / "p.xml").write_text(text)
    assert codes(place, capsys) == ["no-powers"]
    assert check(place) == 2  # a site needs them
    assert codes(place, capsys, site="", events="") == ["no-powers"]
    assert check(place, site="", events="") == 1
    assert check(place, "--no-metering", site="", events="") == 0


def test_what_batsim_aborts_on(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (place / "power.txt").open("a") as file:
        file.write('{"type": "machine_unavailable", "timestamp": 9, "resources": "2-4"}\n')
    assert codes(place, capsys) == ["machine-unknown"]
    host = '<host id="master_host" coordinates="0 0 0" speed="1000000000f">'
    text = (place / "p.xml").read_text()
    assert host in text
    (place / "p.xml").write_text(text.replace(host, host + '<prop id="role" value="master"/>'))
    assert codes(place, capsys, events="") == ["platform-batsim", "power-none"]


def test_files_that_cannot_be_read_are_all_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("w.json", "site.toml"):
        (place / name).write_text("{")
    assert codes(place, capsys, p="nowhere.xml") == ["platform-bad", "workload-bad", "site-bad"]
    assert check(place, "-q", p="nowhere.xml") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.partition(":")[0] for line in told.err.splitlines()] == ["error"] * 3


def test_events_that_cannot_be_read_are_not_missing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "power.txt").write_text("time;kW\n")
    assert codes(place, capsys) == ["events-bad"]


def test_nothing_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("check") == 2
    assert "nothing to check" in capsys.readouterr().err


def test_the_table_fits_80_columns(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = place / ("deep" * 30)
    assert check(place, "--windows", "4", "--plan", str(name)) == 2
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any(line.endswith(" ") for line in lines)
    assert "".join(line.strip() for line in lines).count("deep" * 30) == 1  # folded, not cut


def test_simulate_warns_of_the_same(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("-p", place / "p.xml", "-w", place / "w.json", "--events", place / "power.txt")
    rest = ("--site", place / "site.toml", "--windows", "4", "-e", place / "run")
    assert check(place, "-q", "--windows", "4") == 1
    expected = capsys.readouterr().err
    assert expected.startswith("warning: the power covers 72 h")
    assert exit_code("simulate", *map(str, (*files, *rest))) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "warning" in line] == [expected.strip()]
    summary = json.loads((place / "run_summary.json").read_text())
    assert [f"warning: {text}" for text in summary["warnings"]] == [expected.strip()]


def simulated(place: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What a run of the files warns of: on the standard error, and the same in its summary."""
    files = ("-p", place / "p.xml", "-w", place / "w.json", "--events", place / "power.txt")
    capsys.readouterr()
    assert exit_code("simulate", *map(str, files), "-e", str(place / "r"), *arguments) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    kept = json.loads((place / "r_summary.json").read_text())["warnings"]
    assert told == [f"warning: {text}" for text in kept]
    return told


def test_power_without_a_site(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(place, capsys, site="") == ["power-unused"]
    assert codes(place, capsys, site="", p="", w="") == []  # a file by itself is no run
    (told,) = simulated(place, capsys)
    assert "power events are ignored because no site is given" in told
    assert "pass --site FILE" in told
    assert simulated(place, capsys, "--site", str(place / "site.toml")) == []


def test_missing_power_is_told_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = ("--site", str(place / "site.toml"))
    power(place / "power.txt", 72, skip=range(2))
    assert codes(place, capsys) == ["power-late"]
    (late,) = simulated(place, capsys, *site)
    assert "the first power event is at 2 h: the production is 0 W until then" in late
    (place / "power.txt").write_text("")
    assert codes(place, capsys) == ["power-none"]
    (none,) = simulated(place, capsys, *site)
    assert "no event has the field 'power_available'" in none
    assert codes(place, capsys, events="") == ["power-none"]
    assert codes(place, capsys, events="", w="") == []


@pytest.mark.parametrize(
    ("capacity_kwh", "code", "told"),
    [
        (10, None, ""),
        (60_000, "battery-large", "60000 kWh, enough to supply FULL for 4,357 days"),
        (0.005, "battery-small", "0.005 kWh, enough to supply FULL for 31 s only"),
    ],
)
def test_a_battery_of_another_unit(
    place: Path, capsys: pytest.CaptureFixture[str], capacity_kwh: float, code: str | None, told: str
) -> None:
    text = (place / "site.toml").read_text()
    text = text.replace("capacity_kwh = 10", f"capacity_kwh = {capacity_kwh}")
    (place / "site.toml").write_text(text.replace("limit_kw = 5", f"limit_kw = {min(5, 60 * capacity_kwh)}"))
    told = told.replace("FULL", "all servers computing, 0.5738 kW,")
    assert codes(place, capsys) == ([code] if code else [])
    warned = simulated(place, capsys, "--site", str(place / "site.toml"))
    assert [told in text for text in warned] == ([True] if code else [])


# --- what is odd for a policy ---------------------------------------------------------------------------


@pytest.mark.plugins("energy_budget")
def test_a_budget_that_idle_servers_exceed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four servers of 62 W idle and 4.5 W asleep: 2.976 and 0.216 kWh in 12 h."""
    period = ("--policy", "energybud", "--period", "0:12h", "--site", str(place / "site.toml"))
    low = (*period, "--budget", "2 kWh")
    assert codes(place, capsys, *low, site="") == ["budget-low"]
    (told,) = simulated(place, capsys, *low)
    assert "the energy budget of 2 kWh from 0 h to 12 h is infeasible" in told
    assert "idle servers alone draw 248 W and use 2.976 kWh in that time" in told
    assert told.endswith('with shutdown = "opportunistic" they would use at least 0.216 kWh')
    asleep = (*low, "--shutdown", "opportunistic")
    assert codes(place, capsys, *asleep, site="") == []
    assert simulated(place, capsys, *asleep) == []
    assert codes(place, capsys, *period, "--budget", "3 kWh", site="") == []
    lowest = (*period, "--budget", "0.2 kWh", "--shutdown", "opportunistic")
    assert codes(place, capsys, *lowest, site="") == ["budget-low"]


@pytest.mark.plugins("greenslot")
def test_deadlines_that_slots_are_too_long_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten minutes for jobs of 100 s: in slots of an hour, only those that come as one starts have time."""
    jobs = [{**job(n, 600 * n), "deadline_s": 600 * n + 600} for n in range(24)]
    workload(place / "w.json", [*jobs, job(24, 100)], run=run_for(50))
    green = ("--policy", "greenslot", "--option", "slot_s=3600", "--site", str(place / "site.toml"))
    assert codes(place, capsys, *green, site="") == ["slots-long"]
    (told,) = simulated(place, capsys, *green)
    assert "20 of 24 deadlines are too tight: the walltime and the wait for the next slot" in told
    assert "'greenslot' starts jobs only at the starts of slots of 3600 s" in told
    assert codes(place, capsys, "--policy", "easy") == []
    assert codes(place, capsys, "--policy", "conventional", "--option", "slot_s=0") == []


def test_what_a_policy_requires(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(place, capsys, "--policy", "beasy") == ["policy-bad"]
    assert codes(place, capsys, "--policy", "esay") == ["policy-bad"]
    assert codes(place, capsys, "--policy", "greenslot", "--option", "slots=1") == ["policy-bad"]
    wrong = ("--policy", "powercap", "--period", "0:1h", "--budget", "1 J", "--option", 'idle_w={"taurus":1}')
    assert codes(place, capsys, *wrong) == ["policy-bad"]
    assert codes(place, capsys, "--policy", "beasy", "--windows", "2", plan="plan.msgpack") == []


START = 'start = "2019-06-20T00:00:00+00:00"\n'


def forecast_file(path: Path, first_hour: int, *, power_w: float = 1000.0) -> str:
    rows = (f"0,{HOUR_S * hour},{power_w:g}" for hour in range(first_hour, first_hour + 24))
    path.write_text("issued,valid,W\n" + "\n".join(rows) + "\n")
    return str(path)


def test_a_forecast(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "site.toml").write_text((place / "site.toml").read_text() + START)
    assert codes(place, capsys, "--forecast", "perfect") == []
    assert codes(place, capsys, "--forecast", "none") == []
    assert check(place, "--forecast", "perfect") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "forecast perfect, peak 1 kW, 24 kWh in 24 h; the production was known in advance" in out
    source = forecast_file(place / "f.csv", 0)
    assert codes(place, capsys, "--forecast", source) == []
    assert check(place, "--json", "--forecast", source) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["forecast_peak_w"] == 1000


def test_a_forecast_that_is_odd(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(place, capsys, "--forecast", forecast_file(place / "f.csv", 48)) == ["forecast-empty"]
    far = forecast_file(place / "f.csv", 0, power_w=1e6)
    assert codes(place, capsys, "--forecast", far) == ["forecast-size"]
    assert check(place, "--forecast", far) == 1
    assert "the forecast reaches 1000 kW, the power 1 kW" in " ".join(capsys.readouterr().out.split())


def test_a_forecast_that_would_fail(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(place, capsys, "--forecast", "perfect", site="", p="") == ["forecast-bad"]
    assert codes(place, capsys, "--forecast", "perfect", events="", w="") == ["forecast-bad"]
    assert codes(place, capsys, "--forecast", str(place / "gone.csv")) == ["forecast-bad"]
    assert codes(place, capsys, "--forecast", f"predictor:{place / 'f.csv'}") == ["forecast-bad"]
    capsys.readouterr()
    assert exit_code("check", "--forecast", "none") == 2
    assert "a forecast requires a site: give --site FILE" in capsys.readouterr().out


def test_simulate_knows_its_own_events_as_perfect(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("-p", place / "p.xml", "-w", place / "w.json", "--site", place / "site.toml", "-e", place / "r")
    power = ("--events", place / "power.txt", "--forecast", "perfect")
    assert exit_code("simulate", *map(str, (*files, *power)), "-q") == 0
    settings = json.loads((place / "r_summary.json").read_text())["settings"]
    assert settings["forecast"] == f"perfect:{place / 'power.txt'}"
    assert exit_code("simulate", *map(str, files), "--forecast", "perfect", "-q") == 2
    assert "name the file with the production, as perfect:EVENTS" in capsys.readouterr().err


def test_more_sun_than_power(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (place / "power.txt").read_text().splitlines()
    lines[3] = lines[3].partition(', "sun_available"')[0].rstrip("}") + ', "sun_available": 1e7}'
    (place / "power.txt").write_text("\n".join(lines) + "\n")
    assert codes(place, capsys) == ["sun-bad"]


def test_a_price_that_is_a_text(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (place / "power.txt").read_text().splitlines()
    lines[3] = lines[3].replace("}", ', "import_price_per_kwh": "0.1"}')
    (place / "power.txt").write_text("\n".join(lines) + "\n")
    assert codes(place, capsys) == ["rates-bad"]
    files = ("-p", place / "p.xml", "-w", place / "w.json", "--events", place / "power.txt", "-q")
    assert exit_code("simulate", *map(str, files)) == 2
    expected = f"{place / 'power.txt'}:4: import_price_per_kwh: found '0.1', expected a number"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("value", ["much", -5, None, True, 1e17])
@pytest.mark.parametrize("site", [True, False])
def test_a_power_that_is_none(
    place: Path, value: object, site: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    power(place / "power.txt", 72, value_w=value, skip=range(2))
    files = ["-p", place / "p.xml", "-w", place / "w.json", "--events", place / "power.txt"]
    files += ["--site", place / "site.toml"] * site
    found = f"{place / 'power.txt'}:1: power_available: found {found_text(value)}"
    expected = f"{found}, expected watts, 0 to 1e+15"
    assert exit_code("check", *map(str, files), "-q") == 2
    assert f"error: {expected}" in capsys.readouterr().err.splitlines()
    assert exit_code("simulate", *map(str, files), "-e", str(place / "out" / "run"), "-q") == 2
    assert capsys.readouterr().err == f"beasy-sched: {expected}\n"
    assert not (place / "out").exists()


def test_a_batsim_forwards_any_power(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    power(place / "power.txt", 1, value_w="much")
    files = ("-p", place / "p.xml", "-w", place / "w.json", "--events", place / "power.txt")
    away = ("-e", str(place / "r"), "-s", "tcp://127.0.0.1:1", "--timeout", "0.1", "--forward-unknown-events")
    assert exit_code("batsim", *map(str, files), *away) == 1  # nobody answers
    assert "warning: " in (told := capsys.readouterr().err)
    assert "power.txt:1: power_available: found 'much', expected watts" in told


# --- plans made during the run --------------------------------------------------------------------------


def test_plans_made_during_the_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `simulate` would make them: expected is what the run itself has."""
    assert codes(place, capsys, "--windows", "3", "--replan", "window") == []
    assert check(place, "--windows", "3", "--replan", "8h") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "plans made every 8 h, 8 during the run" in out


def test_a_plan_to_begin_with_may_be_shorter(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(place, capsys, "--windows", "3", plan="plan.msgpack") == ["plan-short"]
    assert codes(place, capsys, "--windows", "3", "--replan", "window", plan="plan.msgpack") == []


@pytest.mark.parametrize(
    ("arguments", "files", "told"),
    [
        (["--replan", "soon"], {}, "replan: "),
        (["--replan", "window"], {"site": ""}, "--replan requires a site"),
        (["--replan", "window"], {"events": ""}, "--replan requires the expected production"),
        (["--replan", "window"], {"p": ""}, "--replan-workload requires the platform"),
        (["--replan-limit", "5"], {}, "--replan-limit requires --replan"),
        (["--replan", "window"], {"replan-production": "no.txt"}, "no.txt: "),
        (["--replan", "window"], {"replan-season": "plan.msgpack"}, "plan.msgpack: "),
    ],
)
def test_plans_that_could_not_be_made(
    place: Path,
    arguments: list[str],
    files: dict[str, str],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check(place, "-q", *arguments, **files) == 2
    assert told in capsys.readouterr().err


def test_a_walltime_next_to_nothing(made: Path, tmp_path: Path) -> None:
    """It counts as the shortest there is; no warning of NumPy's shows."""
    jobs = [job(n, n * 1000, walltime=1e-320) for n in range(3)]
    file = workload(tmp_path / "w.json", jobs, run=run_for(1e9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert exit_code("check", "-p", str(made / "p.xml"), "-w", str(file)) == 1
