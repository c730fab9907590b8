"""The page as a file: nothing breaks out of it, nothing is fetched, the same input gives the same bytes."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from plugins.reports.by_hand import DECISIONS, JOBS, STARTS, summary, write_run

from beasy_sched.plugins.reports.html import MOST_DETAILED, report_html
from beasy_sched.plugins.reports.page import embedded_json

pytest.importorskip("pyarrow", reason="reports need pyarrow")
pytest.importorskip("plotly", reason="reports need plotly")

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'"


class Outline(HTMLParser):
    """Counts elements, and keeps what scripts of JSON hold."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []
        self._json = self._packed = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = dict(attrs)
        self._json = tag == "script" and named.get("type") == "application/json"
        self._packed = tag == "script" and "data-for" in named

    def handle_data(self, data: str) -> None:
        if self._json or self._packed:
            self.data.append(zlib.decompress(base64.b64decode(data)).decode() if self._packed else data)
        self._json = self._packed = False


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    return found


def page_of(*places: str, **options: str) -> str:
    return "".join(report_html(places, **options))


@pytest.mark.slow
def test_hostile_names(tmp_path: Path) -> None:
    evil = "evil<b>&'run"
    told = summary(warnings=[EVIL], error=EVIL)
    told["settings"]["policy"] = EVIL
    told["settings"]["options"] = {EVIL: EVIL}
    kill = next(line for line in DECISIONS if line["action"] == "kill")
    started = STARTS.replace('"w!1"', json.dumps(f"w!{EVIL}"))
    decisions = started + json.dumps({**kill, "job": EVIL, "rule": EVIL}) + "\n"
    jobs = JOBS.replace("\n1,w,", '\n"' + EVIL.replace('"', '""') + '",w,')
    prefix = write_run(tmp_path / evil, jobs=jobs, summary=json.dumps(told), decisions=decisions)
    harmless, hostile = outline(page_of(write_run(tmp_path / "a"))), outline(page_of(prefix, title=EVIL))
    assert hostile.tags.count("script") == harmless.tags.count("script")
    assert hostile.tags.count("img") == harmless.tags.count("img") == 0
    assert hostile.tags.count("b") == 0
    assert any(f"w!{EVIL}" in json.loads(text).get("jobs", {}).get("id", ()) for text in hostile.data)
    kills = [
        t for text in hostile.data for t in json.loads(text).get("traces", []) if t.get("name") == "kills"
    ]
    assert "<" not in kills[0]["text"][0]  # plotly would take it for HTML


@pytest.mark.slow
def test_same_files_same_bytes(tmp_path: Path) -> None:
    prefix = write_run(tmp_path / "a")
    assert page_of(prefix) == page_of(prefix)


def test_nothing_is_fetched(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "a"))
    assert "default-src 'none'" in page
    head, _, rest = page.partition("<script>")
    assert not re.search(r"https?://|@import|url\(", head)
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)=[\"'](?!data:)", head + rest)


@pytest.mark.slow
def test_every_run_has_its_charts_and_ids_are_unique(tmp_path: Path) -> None:
    page = page_of(*(write_run(tmp_path / name) for name in "abc"))
    ids = re.findall(r'class="drawing" id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    of_run = [
        {one.removeprefix(f"run-{n}-") for one in ids if one.startswith(f"run-{n}-")} for n in (1, 2, 3)
    ]
    assert of_run[0] == of_run[1] == of_run[2] >= {"balance", "soc", "queue", "gantt"}
    assert sorted(ids) == sorted(re.findall(r'data-for="([a-z0-9-]+)"', page))


@pytest.mark.slow
def test_plotly_and_the_charts_are_compressed(tmp_path: Path) -> None:
    """The page of three runs is smaller than plotly alone, and plotly is whole."""
    from plotly.offline import get_plotlyjs

    page = page_of(*(write_run(tmp_path / name) for name in "abc"))
    assert len(page) < len(get_plotlyjs()) / 2
    (content,) = re.findall(r'<script type="text/plain" data-plotly>([^<]*)</script>', page)
    assert zlib.decompress(base64.b64decode(content)).decode() == get_plotlyjs()


@pytest.mark.slow
def test_very_many_runs_are_only_compared(tmp_path: Path) -> None:
    page = page_of(*(write_run(tmp_path / f"r{n}") for n in range(MOST_DETAILED + 1)))
    assert re.findall(r'class="drawing" id="([^"]+)"', page) == [
        "outcomes", "energy", "all-soc", "all-queue", "all-waits",
    ]  # fmt: skip
    assert "shown for at most 12 runs" in page


@pytest.mark.slow
def test_warnings_and_early_ends_are_told(tmp_path: Path) -> None:
    told = summary(warnings=["mind the gap"], error="the peer went away", complete=False)
    page = page_of(write_run(tmp_path / "a", summary=json.dumps(told)))
    assert re.findall(r'<p class="warning">(.*?)</p>', page) == [
        "ended early: the peer went away",
        "mind the gap",
    ]


@pytest.mark.slow
def test_a_warning_of_several_runs_is_told_once(tmp_path: Path) -> None:
    told = {"a": ["gap", "alone"], "b": ["gap"], "c": ["gap", "two"], "d": ["gap", "two", "two"]}
    for name, warnings in told.items():
        write_run(tmp_path / "out" / name, summary=json.dumps(summary(warnings=warnings)))
    page = page_of(str(tmp_path / "out"))
    assert re.findall(r'<p class="warning">(.*?)</p>', page) == [
        "all runs: gap",
        "a: alone",
        "c, d: two",
    ]


@pytest.mark.slow
def test_a_warning_of_many_runs_names_some(tmp_path: Path) -> None:
    for number in range(12):
        warnings = ["gap"] if number else []
        write_run(tmp_path / "out" / f"r{number:02}", summary=json.dumps(summary(warnings=warnings)))
    page = page_of(str(tmp_path / "out"))
    assert re.findall(r'<p class="warning">(.*?)</p>', page) == [
        "r01, r02, r03, r04, r05, r06, r07, r08 and 3 more: gap"
    ]


@pytest.mark.parametrize(
    ("array", "packed"),
    [
        (np.array([1.0, np.nan]), '{"f8":"AAAAAAAAAAAAAAAA8Pg/fw=="}'),
        (np.array([1e5, 1.0]), '{"i4":"oAGGAAEAAAA="}'),
        (np.array([1, -1]), '{"i1":"Af8="}'),
        (np.array([300, 2], dtype=">i2"), '{"i2":"LAIBAA=="}'),
        (np.array([]), '{"f8":""}'),
        (np.array([1.5], dtype=np.float32), '{"f4":"AADAPw=="}'),
    ],
)
def test_arrays(array: np.ndarray, packed: str) -> None:
    """Byte planes of the smallest type that has all numbers."""
    assert embedded_json(array) == packed


def test_json_cannot_end_its_script() -> None:
    text = embedded_json({"x": EVIL})
    assert "<" not in text
    assert json.loads(text) == {"x": EVIL}
