"""The README's pictures, and the script that draws them."""

import re
from xml.etree import ElementTree

import draw_figures as drawing
import pytest
from project.shell import ROOT

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = ROOT / "docs/figures"


def test_one_picture_after_the_other():
    frames = [[("Run", f"a <b> & {n}"), ("", "x" * 200)] for n in range(4)]
    root = ElementTree.fromstring(drawing.animation(frames))
    groups = root.findall(f"{SVG}g")
    delays = [float(re.search(r"animation-delay: ([\d.]+)s", group.get("style"))[1]) for group in groups]
    assert delays == pytest.approx([n * drawing.SHOWN_S for n in range(4)])
    assert f"animation: shown {4 * drawing.SHOWN_S:g}s" in root.findtext(f"{SVG}style")
    assert "25% { visibility: hidden; }" in root.findtext(f"{SVG}style")
    assert [group.get("class") for group in groups].count("still") == 1  # where nothing may move
    for n, group in enumerate(groups):
        head, first, second = group.findall(f"{SVG}text")
        assert (head.text, first.text) == ("Run", f"a <b> & {n}")
        assert len(second.text) == drawing.COLUMNS - 12
        assert second.text.endswith("x…")
        for text in (head, first, second):
            assert float(text.get("textLength")) == pytest.approx(drawing.CELL * len(text.text))
            assert float(text.get("x")) + float(text.get("textLength")) < float(root.get("width"))
            assert float(text.get("y")) < float(root.get("height"))


def test_the_recording_is_what_watch_shows():
    path = FIGURES / "watch.svg"
    groups = ElementTree.parse(path).getroot().findall(f"{SVG}g")
    assert 8 <= len(groups) <= 12
    assert path.stat().st_size < 300_000
    for group in groups:
        words = [text.text for text in group.findall(f"{SVG}text")]
        assert {"Run", "Battery", "Power now", "Plan", "Servers", "Jobs", "Queue", "Decisions"} < {*words}
        assert words[1].startswith("beasy; ")


def test_the_report_is_a_picture_of_its_first_screen():
    data = (FIGURES / "report.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    size = (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))
    assert size == drawing.WINDOW
    assert len(data) < 300_000


def test_the_fan_widens_around_the_forecast():
    root = ElementTree.parse(FIGURES / "fan.svg").getroot()
    shapes = {each.get("class"): each for each in root if each.get("points")}
    assert {"wide", "narrow", "middle", "actual", "now"} <= {*shapes}
    assert "prefers-color-scheme: dark" in root.findtext(f"{SVG}style")

    def points(name: str) -> list[tuple[float, ...]]:
        return [tuple(map(float, each.split(","))) for each in shapes[name].get("points").split()]

    now = points("now")[0][0]
    for name in ("wide", "narrow"):
        band = points(name)
        upper, lower = band[: len(band) // 2], band[len(band) // 2 :][::-1]
        assert [x for x, _ in upper] == [x for x, _ in lower] == [x for x, _ in points("middle")]
        assert all(high <= low for (_, high), (_, low) in zip(upper, lower, strict=True))  # y grows downwards
        assert upper[0][0] >= now - 1
    assert points("actual")[-1][0] == pytest.approx(drawing.FAN_SIZE[0] - drawing.FAN_EDGES[2], abs=0.1)
    for text in root.findall(f"{SVG}text"):
        assert 0 <= float(text.get("x")) <= drawing.FAN_SIZE[0]
        assert 0 < float(text.get("y")) < drawing.FAN_SIZE[1]
