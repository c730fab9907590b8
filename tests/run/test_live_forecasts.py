"""Forecasts that are renewed during a run: plans, decision log, metrics, warnings; the clock is a number."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np
import pytest
from command_line import exit_code
from river import RIVER
from small_site import SmallSite, small_site

from beasy_sched.energy import sources
from beasy_sched.engine.observed import Observer
from beasy_sched.errors import ConfigError
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import parse_site
from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.metrics import forecast_ages_s
from beasy_sched.run.live_forecasts import LiveForecasts
from beasy_sched.run.opening import open_run
from beasy_sched.run.settings import FollowSettings, ReplanSettings, RunSettings
from beasy_sched.units import SECONDS_PER_HOUR

HOUR = SECONDS_PER_HOUR


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    made = small_site(tmp_path_factory.mktemp("site"), jobs=40)
    made.site.write_text(made.site.read_text().replace("window_h = 24", "window_h = 8"))
    return made


class At(Observer):
    """Does something once at a time of the run, and notes the age of the forecasts at every message."""

    def __init__(self, time_s: float, do: Callable[[], None]) -> None:
        self.time_s, self.do, self.is_done = time_s, do, False
        self.ages: list[tuple[float, dict[str, float]]] = []
        self.expected_w: list[float] = []
        """Production expected in five minutes, at every message."""

    def before(self, session, message) -> None:
        if message.now >= self.time_s and not self.is_done:
            self.is_done = True
            self.do()

    def after(self, session, message, reply) -> None:
        self.ages.append((message.now, dict(forecast_ages_s(session))))
        if (forecast := session.power.forecast) is not None:
            self.expected_w.append(float(forecast.renewable_w(message.now + 300.0, 300.0, 1)[0]))


def settings_of(site: SmallSite, **given) -> RunSettings:
    return RunSettings(site=site.site.read_text(), windows=3, **given)


def forecast_csv(*issues: tuple[float, float, float, int]) -> str:
    """Issues: time of issue, first hour, kW, number of hours."""
    rows = (
        f"{HOUR * issued},{HOUR * (first + n)},{kw}"
        for issued, first, kw, hours in issues
        for n in range(hours)
    )
    return "\n".join(["issued,valid,kW", *rows, ""])


def run(
    site: SmallSite,
    prefix: Path,
    settings: RunSettings,
    at: At | None = None,
    *,
    live: bool = True,
    record: Path | None = None,
) -> tuple[RunSummary, list[str]]:
    """A run as of the daemon, with the embedded simulator; returns the summary and the warnings printed."""
    said: list[str] = []
    forecasts = LiveForecasts(settings, say=said.append, clock=lambda: 0.0) if live else None
    if at is not None:
        before = at.do

        def renewed() -> None:
            before()
            forecasts.look()  # as the threads do
            forecasts.look()

        at.do = renewed
    platform = read_simgrid_platform(site.platform).platform
    with RunFiles(str(prefix), settings, record=record) as files:
        with open_run(files, lambda: platform, observers=(at,), live=forecasts) as running:
            site.simulation().run(running.step)
        summary = files.finish(running.session)
    if forecasts is not None:
        forecasts.close()
    return summary, said


def logged(prefix: Path) -> list[dict]:
    lines = map(json.loads, Path(f"{prefix}_decisions.jsonl").read_text().splitlines())
    return [line for line in lines if line["action"] == "forecast"]


# --- a file -----------------------------------------------------------------------------------------------


def test_the_next_plan_uses_a_renewed_forecast(site, tmp_path):
    pytest.importorskip("highspy", reason="planning needs the HiGHS solver")
    path = tmp_path / "f.csv"
    path.write_text(forecast_csv((0, 0, 3, 24)))
    replan = ReplanSettings("4h", (str(site.workload),))
    settings = settings_of(site, policy="follow-plan", forecast=str(path), replan=replan)
    at = At(6 * HOUR, lambda: path.write_text(forecast_csv((0, 0, 3, 24), (5, 5, 4, 19))))
    summary, said = run(site, tmp_path / "r", settings, at)
    assert (said, [w for w in summary.warnings if "forecast" in w]) == ([], [])
    plans = {plan.start_s / HOUR: plan for plan in read_plans(f"{tmp_path / 'r'}_plan.msgpack")}
    assert set(plans[4].power.renew_w) == {3000.0}
    assert set(plans[8].power.renew_w) == {4000.0}
    # the plan from 8 h was requested one step before, from a forecast issued at 5 h
    assert plans[8].provenance.rolled.forecast_age_s == 3 * HOUR - 300
    (line,) = logged(tmp_path / "r")
    assert line["rule"] == "forecast in use"
    assert line["facts"]["issued_at_s"] == 5 * HOUR
    ages = [(now_s, each) for now_s, each in at.ages if each]
    assert ages[0][0] >= 6 * HOUR
    assert all(each == {"forecast": pytest.approx(now_s - 5 * HOUR)} for now_s, each in ages)


def test_plans_of_a_renewed_production(site, tmp_path):
    pytest.importorskip("highspy", reason="planning needs the HiGHS solver")
    path = tmp_path / "p.csv"
    path.write_text("time,kW\n" + "".join(f"2026-06-01 {hour:02}:00,3\n" for hour in range(24)))
    replan = ReplanSettings("4h", (str(site.workload),), production=str(path))
    settings = settings_of(site, policy="follow-plan", replan=replan)
    new = "time,kW\n" + "".join(f"2026-06-01 {hour:02}:00,4\n" for hour in range(6, 12))
    at = At(6 * HOUR, lambda: path.write_text(new))
    summary, said = run(site, tmp_path / "r", settings, at)
    assert said == [
        f"forecast {path}: it ends 4.0 h before the end of the window: the one before is used after that"
    ]
    assert said[0] in summary.warnings
    plans = {plan.start_s / HOUR: plan for plan in read_plans(f"{tmp_path / 'r'}_plan.msgpack")}
    assert np.round(plans[8].power.renew_w, 6).tolist() == [4000.0] * 48
    assert np.round(plans[12].power.renew_w, 6).tolist() == [3000.0] * 48


@pytest.mark.sampled
@pytest.mark.parametrize("option", ["forecast", "production"])
def test_a_file_that_does_not_change_is_as_read_once(option, site, tmp_path):
    pytest.importorskip("highspy", reason="planning needs the HiGHS solver")
    path = tmp_path / "f.csv"
    path.write_text(forecast_csv((0, 0, 3, 24)))
    production = str(site.events) if option == "production" else None
    settings = settings_of(
        site,
        policy="follow-plan",
        forecast=str(path) if option == "forecast" else None,
        replan=ReplanSettings("4h", (str(site.workload),), production=production),
    )
    run(site, tmp_path / "a", settings, At(HOUR, lambda: None))
    run(site, tmp_path / "b", settings, live=False)
    for name in ("decisions.jsonl", "energy_trace.csv", "plan.msgpack"):
        assert Path(f"{tmp_path / 'a'}_{name}").read_bytes() == Path(f"{tmp_path / 'b'}_{name}").read_bytes()


def test_a_source_of_the_site_adds_to_a_renewed_production(site, tmp_path, monkeypatch):
    monkeypatch.setitem(sources.KINDS, "river", RIVER)
    sources.register(RIVER)
    text = "issued,valid,W\n" + "".join(f"0,{300 * n},1000\n" for n in range(3))
    (tmp_path / "f.csv").write_text(text)
    mill = '[[source]]\nname = "mill"\nkind = "river"\nflow_m3_s = 0.05\nhead_m = 2.5\nfalls_per_day = 0.5\n'
    settings = RunSettings(
        site=site.site.read_text() + mill,
        replan=ReplanSettings("window", production=str(tmp_path / "f.csv")),
    )
    found = LiveForecasts(settings).begin().production
    (series,) = (each.series for each in parse_site(settings.site, "s").sources)
    expected = [1000.0 + series.mean_w(at, at + 300.0) for at in (0.0, 300.0, 600.0)]
    assert found.renewable_w(0.0, 300.0, 3).tolist() == expected


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: path.unlink(), "{path}: cannot be read: No such file or directory"),
        (lambda path: path.write_text("issued,valid,kW\n0,0,1\n0,36"), "{path}:3: "),
        (lambda path: path.write_text("Gateway timeout\n"), "{path}: column 'Gateway timeout'"),
        (lambda path: path.write_text(""), "{path}: is empty"),
    ],
)
def test_a_spoilt_file_is_one_line_and_the_forecast_before_stays(spoil, told, site, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(forecast_csv((0, 0, 3, 24)))
    settings = settings_of(site, forecast=str(path))
    at = At(6 * HOUR, lambda: spoil(path))
    summary, said = run(site, tmp_path / "r", settings, at)
    (line,) = said
    assert line.startswith(told.format(path=path))
    assert line.endswith("; the forecast before stays in use")
    assert "\n" not in line
    assert line in summary.warnings
    assert [each["rule"] for each in logged(tmp_path / "r")] == ["forecast not renewed"]
    assert set(at.expected_w[:-20]) == {3000.0}


def test_a_forecast_that_is_not_renewed_is_said_once(site, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(forecast_csv((0, 0, 3, 24)))
    settings = settings_of(site, forecast=str(path), follow=FollowSettings(stale_s=2 * HOUR))
    _, said = run(site, tmp_path / "r", settings, At(HOUR, lambda: None))
    (line,) = said
    assert line.startswith(f"forecast {path}: it was issued 2.")
    assert "longer than --forecast-stale (2.0 h)" in line
    assert [each["rule"] for each in logged(tmp_path / "r")] == ["forecast in use", "forecast stale"]


@pytest.mark.plugins("reports")
def test_explain_tells_the_age(site, tmp_path, capsys):
    path = tmp_path / "f.csv"
    path.write_text(forecast_csv((0, 0, 3, 24)))
    settings = settings_of(site, forecast=str(path))
    at = At(6 * HOUR, lambda: path.write_text(forecast_csv((5, 5, 4, 19))))
    run(site, tmp_path / "r", settings, at)
    assert exit_code("explain", str(tmp_path / "r"), "--at", "9h") == 0
    out = "".join(capsys.readouterr().out.split())  # lines break within long paths
    assert f"Theforecastof--forecast({path})tookeffect" in out
    assert "Inthisstepitwas4h00minold." in out


# --- a program --------------------------------------------------------------------------------------------


def test_a_program_counts_from_its_start(site, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("W\n" + "1000\n" * 288)
    command = f"command:{shlex.join(['cat', str(path)])}"
    _, said = run(site, tmp_path / "r", settings_of(site, forecast=command))
    assert said == []
    (line,) = logged(tmp_path / "r")
    assert (line["facts"]["source"], line["facts"]["age_s"]) == ("command:cat", 0.0)


def test_a_program_that_fails_at_first_is_an_error(site):
    command = shlex.join([sys.executable, "-c", "import sys; sys.exit('no key')"])
    with pytest.raises(ConfigError, match=r"no forecast: command:.* has ended with exit code 1 \(no key\)"):
        LiveForecasts(settings_of(site, forecast=f"command:{command}"))


# --- which options are for which command ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--forecast", "command:cat f"),
            "forecast 'command:cat f': only 'serve' and 'slurm run' run a program",
        ),
        (
            ("--replan", "window", "--replan-production", "command:cat f"),
            "--replan-production command:cat f: only 'serve' and 'slurm run' run a program",
        ),
    ],
)
def test_a_simulation_runs_no_program(options, told, site, tmp_path, capsys):
    files = ("-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events))
    assert exit_code("simulate", *files, "--site", str(site.site), *options, "-o", str(tmp_path / "r")) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("forecast", [(), ("--forecast", "none"), ("--forecast", "perfect:p.txt")])
def test_a_limit_requires_a_forecast_that_is_read_again(forecast, site, capsys):
    assert exit_code("serve", "--site", str(site.site), *forecast, "--forecast-stale", "6h") == 2
    assert "--forecast-stale, --forecast-every," in capsys.readouterr().err


# --- recordings -------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("option", ["forecast", "production"])
def test_a_replay_uses_each_forecast_from_the_message_on_with_which_it_came(option, site, tmp_path):
    pytest.importorskip("highspy", reason="planning needs the HiGHS solver")
    path, prefix = tmp_path / "f.csv", tmp_path / "r"
    path.write_text(forecast_csv((0, 0, 3, 24)))
    source = {option: str(path)}
    replan = ReplanSettings("4h", (str(site.workload),), production=source.get("production"))
    settings = settings_of(site, policy="follow-plan", forecast=source.get("forecast"), replan=replan)
    at = At(6 * HOUR, lambda: path.write_text(forecast_csv((0, 0, 3, 24), (5, 5, 0.2, 19))))
    run(site, prefix, settings, at, record=tmp_path / "run.rec")
    assert exit_code("replay", str(tmp_path / "run.rec"), "-p", str(site.platform)) == 0
    path.unlink()  # the recording has all that is needed
    assert exit_code("replay", str(tmp_path / "run.rec"), "-p", str(site.platform)) == 0
    without = tmp_path / "without.rec"
    without.write_bytes(b"".join(_items_but_renewals(tmp_path / "run.rec")))
    assert exit_code("replay", str(without), "-p", str(site.platform)) == 1, "the renewal decides"


def _items_but_renewals(recording: Path):
    """The items of a recording, without the forecasts after the first message."""
    with recording.open("rb") as file:
        has_begun = False
        for item in msgpack.Unpacker(file, max_buffer_size=1 << 31):
            has_begun = has_begun or isinstance(item, list)
            if not (has_begun and isinstance(item, dict) and "forecast" in item):
                yield msgpack.packb(item)


@pytest.mark.parametrize(
    "field", [{"valid_s": b"1234"}, {"start": "soon"}, {"values": None}, {"levels": b"1" * 9}]
)
def test_a_damaged_forecast_in_a_recording(field, site, tmp_path, capfd):
    path = tmp_path / "f.csv"
    path.write_text(forecast_csv((0, 0, 3, 24)))
    run(site, tmp_path / "r", settings_of(site, forecast=str(path)), record=tmp_path / "run.rec")
    with (tmp_path / "run.rec").open("rb") as file:
        items = [*msgpack.Unpacker(file, max_buffer_size=1 << 31)]
    items[1]["forecast"] |= field
    (tmp_path / "run.rec").write_bytes(b"".join(map(msgpack.packb, items)))
    assert exit_code("replay", str(tmp_path / "run.rec"), "-p", str(site.platform)) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "forecast" in line
    assert "damaged" in line
