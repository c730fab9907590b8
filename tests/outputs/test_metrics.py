"""Metrics for Prometheus: at any moment they are what the session says, and telling changes nothing."""

from __future__ import annotations

import itertools
import json
import re
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from command_line import exit_code
from daemon.serving import BEGIN, END, Peer, job, raw, serving
from project.shell import ROOT
from small_site import SmallSite, small_site

from beasy_sched.engine import Session
from beasy_sched.engine.observed import ObservedSession
from beasy_sched.model import decisions as d
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.forecast_news import ForecastNews
from beasy_sched.outputs.metrics import Metrics
from beasy_sched.run.building import build_session
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs

prometheus_parser = pytest.importorskip("prometheus_client.parser", reason="metrics need prometheus_client")

HYDROGEN = """
[hydrogen]
tank_kg = 2.0
level_start_kg = 1.0
level_target_kg = 1.0
electrolyzer_max_kw = 1.0
fuel_cell_max_kw = 0.5
"""
COOLED_WITH_GRID = """
[cooling]
pue = 1.25
[grid]
import_limit_kw = 2.0
tariff = [{ per_kwh = 0.2 }]
charge = { hours = [0, 5] }
peak_per_kw = 10.0
"""
Values = dict[str, float]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    made = small_site(tmp_path_factory.mktemp("site"))
    made.site.write_text(made.site.read_text() + HYDROGEN)
    return made


def values_of(page: bytes) -> Values:
    """Every sample of a page, by its name and labels as they are written."""
    families = prometheus_parser.text_string_to_metric_families(page.decode())
    return {
        sample.name + "".join(f'{{{key}="{text}"}}' for key, text in sample.labels.items()): sample.value
        for family in families
        for sample in family.samples
    }


def labelled(values: Values, name: str) -> dict[str, float]:
    """The values of a metric by its only label."""
    return {
        match[1]: value
        for key, value in values.items()
        if (match := re.fullmatch(name + r'{\w+="(.*)"}', key))
    }


def settings_of(site: SmallSite, policy: str = "power-reactive") -> RunSettings:
    return RunSettings(policy=policy, site=site.site.read_text())


class Played:
    """A run whose metrics are looked at after some of its messages."""

    def __init__(self, site: SmallSite, settings: RunSettings, *, every: int = 25) -> None:
        self.metrics = Metrics("some-policy")
        self.session = build_session(settings)
        self.replies: list[Reply] = []
        self.looks = 0
        self._every = every
        self._run = ObservedSession(self.session, [self.metrics])
        self._simulation = site.simulation(events=settings.site is not None)

    def run(self) -> Values:
        """ObservedSession, and return what is told at the end."""
        self._simulation.run(self._decide)
        return values_of(self.metrics.page())

    def _decide(self, message: Message) -> Reply:
        reply = self._run.step(message)
        self.replies.append(reply)
        if len(self.replies) % self._every == 1:
            self.looks += 1
            as_the_session(values_of(self.metrics.page()), self.session)
        return reply


def as_the_session(values: Values, session: Session) -> None:
    """Check what is told against the session itself."""
    cluster, side = session.cluster, session.power
    assert values["beasy_run_seconds"] == session.now
    states = [int((cluster.state == state).sum()) for state in range(5)]
    assert [*labelled(values, "beasy_servers").values()] == states
    assert [*labelled(values, "beasy_servers")] == [
        "idle", "busy", "asleep", "switching_off", "switching_on"
    ]  # fmt: skip
    assert values["beasy_servers_unavailable"] == 0
    assert values["beasy_jobs_waiting"] == len([*cluster.queue])
    assert values["beasy_jobs_running"] == len(cluster.running)
    assert values["beasy_jobs_submitted_total"] == session.submitted
    assert [*labelled(values, "beasy_jobs_ended_total").values()] == [*session.outcomes.counts().values()]
    if side is None:
        return
    battery = side.site.storage.battery
    assert values["beasy_battery_joules"] == side.storage.battery_j
    assert values["beasy_state_of_charge_ratio"] == pytest.approx(side.storage.battery_j / battery.capacity_j)
    assert values["beasy_hydrogen_grams"] == 1000.0 * side.storage.hydrogen_kg
    assert values["beasy_production_watts"] == side.inputs.production_w
    if side.trace:
        last = side.trace[-1].record
        for name, power_w in (
            ("demand", last.demand_w), ("charge", last.charge_w), ("discharge", last.discharge_w),
            ("electrolyzer", last.electrolyzer_w), ("fuel_cell", last.fuel_cell_w),
            ("grid_import", last.import_w), ("grid_export", last.export_w), ("base_load", last.base_w),
            ("curtailed", last.curtailed_w), ("unserved", last.unserved_w),
        ):  # fmt: skip
            assert values[f"beasy_{name}_watts"] == power_w, name


@pytest.mark.slow
def test_at_any_moment_the_values_are_those_of_the_session(site: SmallSite) -> None:
    played = Played(site, settings_of(site))
    values = played.run()
    assert played.looks > 15
    as_the_session(values, played.session)
    assert values["beasy_demand_watts"] > 0
    assert sum(labelled(values, "beasy_jobs_ended_total").values()) == 120
    assert values['beasy_info{policy="some-policy"}{version="' + _version() + '"}'] == 1


def _version() -> str:
    from beasy_sched import __version__

    return __version__


@pytest.mark.slow
def test_decisions_are_those_of_the_replies(site: SmallSite) -> None:
    played = Played(site, settings_of(site))
    values = played.run()
    sent: Counter[str] = Counter(start=0, reject=0, kill=0, set_pstate=0)
    for decision in (decision for reply in played.replies for decision in reply.decisions):
        if isinstance(decision, d.ExecuteJob):
            sent["start"] += 1
        elif isinstance(decision, d.RejectJob):
            sent["reject"] += 1
        elif isinstance(decision, d.KillJobs):
            sent["kill"] += len(decision.job_ids)
        elif isinstance(decision, d.SetResourceState):
            sent["set_pstate"] += len(decision.resources)
    assert labelled(values, "beasy_decisions_total") == dict(sent)
    assert sent["start"] > 50
    assert sent["set_pstate"] > 10
    assert values["beasy_decision_seconds_count"] == len(played.replies)


def test_without_a_site_nothing_is_told_of_power(site: SmallSite) -> None:
    played = Played(site, RunSettings())
    values = played.run()
    as_the_session(values, played.session)
    assert not [name for name in values if re.search("watts|joules|ratio|grams|staleness", name)]


def test_before_the_first_message() -> None:
    metrics = Metrics("easy")
    ObservedSession(build_session(RunSettings()), [metrics])
    values = values_of(metrics.page())
    assert sum(value for name, value in values.items() if not name.startswith("beasy_info")) == 0
    assert len(labelled(values, "beasy_servers")) == 5


@pytest.mark.slow
def test_counters_go_on_where_one_session_follows_another(site: SmallSite) -> None:
    metrics = Metrics("easy")
    told = []
    for _ in range(3):
        session = build_session(settings_of(site))
        site.simulation().run(ObservedSession(session, [metrics]).step)
        if len(told) != 1:
            told.append(values_of(metrics.page()))
        else:
            told.append({})  # nobody asks after the second one
    once, thrice = told[0], told[2]
    counters = [name for name in once if "_total" in name or name == "beasy_decision_seconds_count"]
    assert len(counters) > 10
    assert {name: thrice[name] for name in counters} == {name: 3 * once[name] for name in counters}
    assert thrice["beasy_run_seconds"] == once["beasy_run_seconds"]


def test_latency_is_that_of_the_step() -> None:
    metrics = Metrics("easy")
    session = build_session(RunSettings())

    def slow(message: Message) -> Reply:
        time.sleep(0.04)
        return Reply(message.now, [])

    session.step = slow  # type: ignore[method-assign]
    step = ObservedSession(session, [metrics]).step
    step(Message(0.0, []))
    step(Message(0.0, []))
    values = values_of(metrics.page())
    assert values['beasy_decision_seconds_bucket{le="0.03"}'] == 0
    assert values['beasy_decision_seconds_bucket{le="+Inf"}'] == 2
    assert values["beasy_decision_seconds_sum"] >= 0.08


@pytest.mark.slow
def test_how_old_the_power_is(site: SmallSite) -> None:
    """The time since it was announced; or by whoever reads a source, and then it grows by itself."""
    now_s = 1e9
    metrics = Metrics("easy", clock_s=lambda: now_s)
    session = build_session(settings_of(site))
    step = ObservedSession(session, [metrics]).step
    ages: list[float] = []
    number = itertools.count()

    def decide(message: Message) -> Reply:
        reply = step(message)
        if session.power.inputs.announced_s >= 0.0 and next(number) % 7 == 0:
            age_s = values_of(metrics.page())["beasy_power_staleness_seconds"]
            assert age_s == pytest.approx(session.now - session.power.inputs.announced_s)
            ages.append(age_s)
        return reply

    site.simulation().run(decide)
    assert 0.0 <= min(ages) < 1.0 < max(ages) <= 301.0  # announced every 300 s
    metrics.note_power_reading(now_s - 7.0)
    assert values_of(metrics.page())["beasy_power_staleness_seconds"] == 7.0
    now_s += 60.0
    assert values_of(metrics.page())["beasy_power_staleness_seconds"] == 67.0


@pytest.mark.slow
def test_scrapes_of_other_threads_see_whole_pictures_only(site: SmallSite) -> None:
    metrics = Metrics("easy")
    session = build_session(settings_of(site))
    over = threading.Event()
    pages: list[list[Values]] = [[], [], []]

    def scrape(seen: list[Values]) -> None:
        while not over.is_set():
            seen.append(values_of(metrics.page()))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=scrape, args=(seen,)) for seen in pages]
    try:
        for thread in threads:
            thread.start()
        site.simulation().run(ObservedSession(session, [metrics]).step)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    for seen in pages:
        running = [page for page in seen if page["beasy_run_seconds"] > 0]
        assert len(running) > 3
        for page in running:
            assert sum(labelled(page, "beasy_servers").values()) == 16
            ended = sum(labelled(page, "beasy_jobs_ended_total").values())
            there = page["beasy_jobs_waiting"] + page["beasy_jobs_running"]
            assert ended + there == page["beasy_jobs_submitted_total"]
        for name in ("beasy_run_seconds", "beasy_jobs_submitted_total", "beasy_decision_seconds_count"):
            assert [page[name] for page in seen] == sorted(page[name] for page in seen)


@pytest.mark.slow
def test_the_run_is_the_same(site: SmallSite, tmp_path: Path) -> None:
    inputs = Inputs(site.platform, [site.workload], [site.events])
    for name, metrics in (("a", Metrics("easy")), ("b", None)):
        run_in_process(inputs, RunFiles(str(tmp_path / name), settings_of(site)), observers=[metrics])
    for name in ("jobs.csv", "decisions.jsonl", "energy_trace.csv", "summary.json"):
        assert (tmp_path / f"a_{name}").read_bytes() == (tmp_path / f"b_{name}").read_bytes(), name


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, site: SmallSite, capfd) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "prometheus_client.core", raising=False)
    files = ("-p", str(site.platform), "-w", str(site.workload))
    assert exit_code("simulate", *files, "--metrics", ":0") == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "pip install" in err
    assert "'.[metrics]' in a clone" in err
    assert len(err.splitlines()) == 1


# --- pages about them -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything(site: SmallSite, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """All metrics of a site that has everything: name, kind, help."""
    forecast = tmp_path_factory.mktemp("forecast") / "f.csv"
    forecast.write_text("issued,valid,W\n0,0,1000\n")
    settings = settings_of(site)
    dated = settings.site.replace("[time]", '[time]\nstart = "2022-03-07T00:00:00+01:00"')
    settings = msgspec.structs.replace(settings, forecast=str(forecast), site=dated + COOLED_WITH_GRID)
    played = Played(site, settings, every=10**9)
    played.session.options.forecast.follow()
    played.metrics.note_forecast(ForecastNews(0.0, {}, 1, 0, shortage=0.5, misses_target=0.5))
    played.run()
    text = played.metrics.page().decode()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    return [
        (name, kinds[name], told) for name, told in re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE)
    ]


def test_the_table_of_the_page_is_complete(everything: list[tuple[str, str, str]]) -> None:
    page = (ROOT / "docs/guides/looking.md").read_text("utf-8")
    rows = re.findall(r"^\| `(beasy_\w+)` \| (\w+) \| (.*) \|$", page, re.MULTILINE)
    assert rows == everything
    assert len(rows) > 25


def test_the_dashboard_asks_for_metrics_that_there_are(everything: list[tuple[str, str, str]]) -> None:
    known = {name for name, _, _ in everything}
    known |= {f"beasy_decision_seconds_{part}" for part in ("bucket", "sum", "count")}
    dashboard = json.loads((ROOT / "docs/grafana.json").read_text("utf-8"))
    asked = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            names = set(re.findall(r"beasy_\w+", target["expr"]))
            assert names, panel["title"]
            asked |= names
    assert asked <= known
    assert known - asked <= {
        "beasy_battery_joules",
        "beasy_decision_seconds",
    }  # shown in other units, in parts
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= 24 and place["y"] + place["h"] <= 26 for place in places)
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))


# --- the commands ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_daemon_tells_of_its_simulation(tmp_path: Path) -> None:
    with serving(tmp_path, "--metrics", "127.0.0.1:0") as daemon, Peer(daemon.endpoint) as peer:
        url = re.search(r"^metrics at (http://127.0.0.1:\d+/metrics)$", daemon.stderr, re.MULTILINE)[1]
        assert scraped(url)["beasy_jobs_submitted_total"] == 0
        peer.ask(BEGIN)
        peer.ask(raw(job("a"), job("b", res=3), job("c", res=4), now=2.0))
        values = scraped(url)
        assert values["beasy_run_seconds"] == 2.0
        assert values["beasy_jobs_running"] == 2
        assert values["beasy_jobs_waiting"] == 1
        assert labelled(values, "beasy_servers")["busy"] == 4
        assert labelled(values, "beasy_decisions_total")["start"] == 2
        peer.ask(END)
        assert daemon.wait() == 0
        with pytest.raises(OSError, match="refused"):
            scraped(url)


def scraped(url: str) -> Values:
    from urllib.request import urlopen

    with urlopen(url, timeout=300) as answer:
        return values_of(answer.read())


@pytest.mark.slow
def test_a_simulation_tells_of_itself(site: SmallSite, tmp_path: Path, monkeypatch, capfd) -> None:
    """The policy itself asks: what it reads is what was so after the message before."""
    (tmp_path / "asks_itself.py").write_text(
        "import os, re, urllib.request\n"
        "from beasy_sched.policies.easy import Easy\n"
        "read = []\n"
        "class Asks(Easy):\n"
        "    def schedule(self, view):\n"
        "        with urllib.request.urlopen(os.environ['METRICS_URL'], timeout=300) as answer:\n"
        "            text = answer.read().decode()\n"
        "        seconds = re.search(r'^beasy_run_seconds (.*)$', text, re.MULTILINE)[1]\n"
        "        read.append((float(seconds), view.now))\n"
        "        return super().schedule(view)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    port = free_port()
    monkeypatch.setenv("METRICS_URL", f"http://127.0.0.1:{port}/metrics")
    files = ("-p", str(site.platform), "-w", str(site.workload))
    assert exit_code("simulate", *files, "--policy", "asks_itself:Asks", "--metrics", f":{port}") == 0
    assert f"metrics at http://127.0.0.1:{port}/metrics\n" in capfd.readouterr().err
    read = sys.modules["asks_itself"].read
    assert len(read) > 100
    assert all(before <= now for before, now in read)
    assert read[-1][0] > 0.0


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
