"""The figure of a comparison: panels, hues, what is refused, the same bytes each time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.campaigns.paired import COMPARED, ComparedPolicies, execution_weights
from beasy_sched.plugins.campaigns.paired_figure import draw_differences
from beasy_sched.plugins.reports.drawing import RUN_COLORS

pytest.importorskip("matplotlib", reason="figures need matplotlib")


def sample(policies: Sequence[str], measures: Sequence[str], days: int = 6) -> ComparedPolicies:
    """Executions in which each policy is 10 better than the one before, but for noise."""
    executions = tuple(("a", day, 1) for day in range(days))
    noise = np.random.default_rng(1).normal(size=(days, len(policies)))
    values = {name: 10.0 * np.arange(len(policies)) + noise for name in measures}
    return ComparedPolicies(tuple(policies), values, executions, execution_weights(executions, resamples=200))


USUAL = [name for name in COMPARED if name not in ("cost", "carbon", "missed")]
BLOCKS = {
    ("mine", "kill-all without veto"): sample(["easy", "beasy", "mine"], USUAL),
    ("mine", "shed with veto"): sample(["easy", "beasy", "mine"], [*COMPARED]),
}


def text_of(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    return draw_differences(BLOCKS, "easy", ".svg", *arguments).decode()  # type: ignore[arg-type]


@pytest.mark.sampled
@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_formats(suffix: str, begins: bytes) -> None:
    drawn, again = (draw_differences(BLOCKS, "easy", suffix, ["finished", "work"]) for _ in range(2))
    assert drawn.startswith(begins)
    assert again == drawn


@pytest.mark.slow
def test_all_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(monkeypatch)
    for said in ("mine, guard shed with veto: 6 executions", "finished jobs", "cost of imported energy",
                 "p &lt; 0.05", "Differences from easy", ">beasy<", ">mine<"):  # fmt: skip
        assert said in text
    assert "distance from target" not in text
    assert ">easy<" not in text
    chosen = text_of(monkeypatch, ["off"])
    assert "distance from target" in chosen
    assert "finished jobs" not in chosen


@pytest.mark.sampled
@pytest.mark.parametrize("policies", [1, 2, 8])
def test_rows_have_room(policies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks of 5.5 points and labels of 8 do not overlap, however few rows there are."""
    heights_in = []

    def measured(figure: Any, *given: Any, **named: Any) -> bytes:
        figure.draw_without_rendering()
        heights_in.extend(axes.get_window_extent().height / figure.dpi for axes in figure.axes)
        return b""

    monkeypatch.setattr("beasy_sched.plugins.campaigns.paired_figure.figure_bytes", measured)
    names = ["easy", *(f"policy-{n}" for n in range(policies))]
    draw_differences({("mine", "shed with veto"): sample(names, USUAL)}, "easy", ".png")
    assert heights_in
    assert min(heights_in) > policies * 12.0 / 72.0


def test_each_policy_has_a_hue_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = list(RUN_COLORS.values())[:3]
    text = text_of(monkeypatch, ["finished"])
    drawn = {color: len(re.findall(f"stroke: {color}; stroke-width: 1.6", text)) for color in (first, second)}
    assert drawn == {first: 2, second: 2}  # an interval in each of two panels
    assert third not in text


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--measure: found 'speed', expected one of finished, work"):
        draw_differences(BLOCKS, "easy", ".png", ["speed"])
    with pytest.raises(ConfigError, match="found no other policy"):
        draw_differences({("a", "b"): sample(["easy"], USUAL)}, "easy", ".png")
    many = [f"p{number}" for number in range(len(RUN_COLORS) + 2)]
    with pytest.raises(ConfigError, match="select some with --policy"):
        draw_differences({("a", "b"): sample(many, USUAL)}, "p0", ".png")
    with pytest.raises(ConfigError, match="expected png, svg, pdf"):
        draw_differences(BLOCKS, "easy", ".gif")
