"""A real Prometheus reads the metrics of a real daemon, and answers the dashboard's questions."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from daemon.serving import Serving, serving
from outputs.test_metrics import HYDROGEN, Played, settings_of
from processes import ZmqScheduler, free_endpoint, started
from project.shell import ROOT
from small_site import SmallSite, small_site

from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.model.host_states import HostState

pytestmark = pytest.mark.slow
PATIENCE_S = 240.0
SCRAPE = "5s"
"""Interval of scrapes, and the time for an answer: a busy machine may need seconds."""
RATE = "2m"
"""Window of rates, many scrapes long."""
METRICS = "metrics at http://"
NOON_S = 12 * 3600.0
OF_OTHER_RUNS = {
    "beasy_cooling_watts", "beasy_grid_charge_watts", "beasy_grid_peak_watts", "beasy_foresee_run_seconds",
    "beasy_foresee_shortage_ratio", "beasy_foresee_target_missed_ratio", "beasy_foresee_forecasts_total",
}  # fmt: skip
"""Metrics of sites with a cooling or a grid, and of runs with forecasts of their own."""


def found(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name} here: apt-get install prometheus")
    return path


def until(true: Callable[[], Any], what: str) -> Any:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if answer := true():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come about")


class Prometheus:
    """Prometheus, which reads one target again and again."""

    def __init__(self, place: str) -> None:
        self._place = place

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The result of a query now. Raises HTTPError for one that it does not understand."""
        try:
            with urlopen(
                f"http://{self._place}/api/v1/query?{urlencode({'query': query})}", timeout=10
            ) as answer:
                return json.loads(answer.read())["data"]["result"]
        except HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it is still starting
                return []
            raise
        except OSError:  # it has not begun to listen
            return []

    def value(self, query: str) -> float | None:
        """The only value of a query; None for none."""
        result = self.ask(query)
        return float(result[0]["value"][1]) if len(result) == 1 else None


@contextmanager
def prometheus(target: str, folder: Path) -> Iterator[Prometheus]:
    config = {
        "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE},
        "scrape_configs": [{"job_name": "beasy", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    place = free_endpoint().removeprefix("tcp://")
    command = [found("prometheus"), f"--config.file={folder}/prometheus.yml", f"--web.listen-address={place}"]
    with started([*command, f"--storage.tsdb.path={folder}/tsdb"], folder):
        yield Prometheus(place)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    made = small_site(tmp_path_factory.mktemp("site"))
    made.site.write_text(made.site.read_text() + HYDROGEN)
    return made


def test_promtool_has_no_complaint(site: SmallSite) -> None:
    """About the metrics of a site with everything."""
    promtool = found("promtool")
    played = Played(site, settings_of(site), every=10**9)
    played.run()
    page = played.metrics.page()
    done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    bad = page.replace(b"beasy_battery_joules", b"beasy_battery_joules_total")
    done = subprocess.run([promtool, "check", "metrics"], input=bad, capture_output=True, check=False)
    assert done.returncode != 0


@pytest.mark.timeout(300)
def test_prometheus_reads_a_daemon(site: SmallSite, tmp_path: Path) -> None:
    """In the middle of a run that waits for it, and the dashboard's questions have answers."""
    found("prometheus")
    forecast = tmp_path / "forecast.csv"
    forecast.write_text("issued,valid,W\n0,0,1000\n")
    options = (
        *("--metrics", "127.0.0.1:0", "--site", str(site.site), "-p", str(site.platform)),
        *("--forecast", str(forecast), "--forecast-stale", "1d"),
    )
    looked: list[float] = []
    with serving(tmp_path, *options) as daemon, prometheus(target_of(daemon), tmp_path) as answers:
        assert until(lambda: answers.value("up"), "a scrape") == 1.0
        with ZmqScheduler(daemon.endpoint) as scheduler:

            def decide(message: Message) -> Reply:
                reply = scheduler.decide(message)
                if message.now >= NOON_S and not looked:
                    looked.append(message.now)
                    look(answers, message.now)
                return reply

            site.simulation().run(decide)
        assert daemon.wait() == 0, daemon.stderr
        until(lambda: answers.value("up == 0") is not None, "the end")
    assert looked


def target_of(daemon: Serving) -> str:
    """Where a daemon says that its metrics are."""

    def told() -> str:
        lines = daemon.stderr.splitlines()
        return next((line.removeprefix(METRICS) for line in lines if line.startswith(METRICS)), "")

    return until(told, "the address of the metrics").partition("/")[0]


def look(answers: Prometheus, now_s: float) -> None:
    """Ask about a run of 16 servers and 120 jobs that stands still at ``now_s``.

    A scrape that a busy machine has missed leaves a gap, so each answer is waited for.
    """

    def holds(query: str) -> None:
        until(lambda: answers.value(query) is not None, query)

    holds(f"abs(beasy_run_seconds - {now_s!r}) < 1e-5")
    holds("sum(beasy_servers) == 16")
    until(lambda: len(answers.ask("beasy_servers")) == len(HostState), "all states of servers")
    holds('beasy_info{policy="easy"} == 1')
    jobs = "sum(beasy_jobs_ended_total) + sum(beasy_jobs_waiting) + sum(beasy_jobs_running)"
    holds(f"{jobs} == sum(beasy_jobs_submitted_total)")
    holds("beasy_state_of_charge_ratio >= 0.2 <= 0.9")
    holds("abs(beasy_battery_joules / beasy_state_of_charge_ratio / 6 / 3.6e6 - 1) < 1e-6")
    until(lambda: answers.ask(f"rate(beasy_decision_seconds_count[{RATE}])"), "a rate")
    dashboard = json.loads((ROOT / "docs/grafana.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        for asked in panel["targets"]:
            if OF_OTHER_RUNS & {*re.findall(r"beasy_\w+", asked["expr"])}:
                continue
            expression = asked["expr"].replace("$instance", ".*").replace("$__rate_interval", RATE)
            until(lambda asked=expression: answers.ask(asked), expression)
