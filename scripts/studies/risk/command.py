"""Test whether risk limits are met on held-out weather, and determine the cost of a limit.

Started by scripts/calibrate_risk, which makes the environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from console import count, exit_code_of

from beasy_sched.cli.options import print_line
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.text_tables import TextTable
from beasy_sched.plugins.reports.drawing import PALETTE
from studies.command_line import STOPPED, parser_of, present, read_arguments, run_progress
from studies.figures import GREY, ONE_COLUMN_IN, new_figure
from studies.risk.study import FIRST_DAY, POLICIES, PROMISES, Promise, RiskStudy, Weather, skies
from studies.study import Measured


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = parser_of(
        "risk",
        "Run beasy and bid-price on several sites without a risk limit, and with limits of 1, 5, 10 and 20 %"
        " of the windows; compare the limit with the observed share of violated windows, and count the jobs"
        " that it costs. Completed runs are not repeated.",
        quick="one synthetic site, four windows; it is not conclusive",
        out="out/risk",
        prog="calibrate_risk",
    )
    add = parser.add_argument
    add(
        "--weather",
        action="append",
        default=[],
        metavar="NAME=PV,WIND",
        help="a site's files of PV and wind (either may be empty), as for 'generate power'; repeatable "
        "(default: three sites with synthetic weather)",
    )
    add("--swf", default="", metavar="FILE", help="jobs of a trace, from its day 30 on (default: synthetic)")
    add(
        "--windows",
        type=count(1),
        default=20,
        metavar="N",
        help="windows of three days on each site (default: %(default)s)",
    )
    add(
        "--first-day",
        type=count(int(FIRST_DAY)),
        default=120,
        metavar="N",
        help="day of the files at which runs begin; the days before are for forecasts (default: %(default)s)",
    )
    chosen = read_arguments(parser, arguments)
    chosen.out = chosen.out or Path("out/risk-quick" if chosen.quick else "out/risk")
    weather = []
    for text in chosen.weather:
        name, equals, files = text.partition("=")
        if not (name and equals and files.strip(",")):
            parser.error(f"--weather: found {text!r}, expected NAME=PV,WIND, such as site=pv.csv,wind.csv")
        pv, _, wind = files.partition(",")
        weather.append(Weather(name, *(str(Path(path).resolve()) if path else "" for path in (pv, wind))))
    chosen.weather = weather or skies()
    if chosen.quick:
        chosen.weather, chosen.windows = chosen.weather[:1], min(chosen.windows, 4)
    return chosen


def calibrate(chosen: argparse.Namespace) -> int:
    """Run the study, or what is left of it; return the exit code."""
    swf = str(Path(chosen.swf).resolve()) if chosen.swf else ""
    study = RiskStudy(chosen.out, chosen.weather, swf, chosen.windows, chosen.first_day)
    study.begin()
    study.write_inputs()
    with run_progress("runs") as progress:
        failed = study.go_on(Processes(chosen.jobs), progress)
    for run, why in study.failures():
        print_line(f"failed: {run.site}, {run.policy}, {run.risk}: {why}")
    results = study.results()
    study.write_table()
    sites = ", ".join(weather.name for weather in study.weather)
    jobs = Path(swf).name if swf else "synthetic"
    origin = f"{len(study.weather)} sites ({sites}) x {study.windows} windows of three days; jobs: {jobs}."
    figures = ((name, draw(results)) for name, draw in (("risk-calibration", calibration_figure),))
    present(chosen, "Risk limits", [whole_table(results), site_table(results)], origin, figures, columns=120)
    return int(failed > 0)


def band(windows: int, share: float) -> tuple[int, int]:
    """The 95 % band of a binomial count of ``windows``: the least and the most."""
    counts = np.arange(windows + 1)
    logs = np.array([_log_binomial(windows, k) for k in counts.tolist()])
    chances = np.exp(logs + counts * np.log(share) + (windows - counts) * np.log1p(-share))
    reached = np.cumsum(chances)
    return int(np.searchsorted(reached, 0.025)), int(np.searchsorted(reached, 0.975))


def _log_binomial(n: int, k: int) -> float:
    return float(np.sum(np.log(np.arange(n - k + 1, n + 1))) - np.sum(np.log(np.arange(1, k + 1))))


def whole_table(results: dict[Promise, Measured]) -> TextTable:
    """All sites together: limit, observed share, and cost."""
    rows: list[tuple[str, ...]] = []
    for policy in POLICIES:
        for risk in (None, *PROMISES):
            these = [
                result.values for run, result in results.items() if (run.policy, run.risk) == (policy, risk)
            ]
            if not these:
                continue
            total = {name: sum(float(values[name] or 0) for values in these) for name in these[0]}
            windows, wrong = int(total["windows"]), int(total["wrong"])
            low, high = (0, 0) if risk is None else band(windows, risk)
            rows.append((
                policy,
                "none" if risk is None else f"{100 * risk:g}",
                f"{wrong} of {windows}",
                f"{100 * wrong / windows:.1f}",
                "" if risk is None else f"{low} to {high}",
                f"{100 * total['finished'] / total['submitted']:.2f}",
                f"{total['killed']:.0f}",
                f"{total['slowdown'] / len(these):.1f}",
            ))  # fmt: skip
    head = (
        "policy",
        "limit, %",
        "violated",
        "observed, %",
        "95 % band",
        "finished, %",
        "killed",
        "slowdown",
    )
    note = "Band: of a binomial count with the share of the limit; a limit is met up to the band's upper end."
    return TextTable("Limit and observed share, all sites", head, rows, head[1:], note)


def site_table(results: dict[Promise, Measured]) -> TextTable:
    """Violated windows, and jobs finished, on each site."""
    sites = list(dict.fromkeys(run.site for run in results))
    rows: list[tuple[str, ...]] = [
        (policy, "none" if risk is None else f"{100 * risk:g}", *_cells(results, sites, policy, risk))
        for policy in POLICIES
        for risk in (None, *PROMISES)
    ]
    head = ("policy", "limit, %", *sites)
    return TextTable("Violated windows (jobs finished, %) on each site", head, rows, head[1:])


def _cells(
    results: dict[Promise, Measured], sites: Sequence[str], policy: str, risk: float | None
) -> Iterator[str]:
    for site in sites:
        found = results.get(Promise(site, policy, risk))
        if found is None:
            yield "failed"
            continue
        values = found.values
        finished_pct = 100.0 * float(values["finished"] or 0) / float(values["submitted"] or 1)
        yield f"{values['wrong']} of {values['windows']} ({finished_pct:.1f})"


def calibration_figure(results: dict[Promise, Measured]) -> Any:
    """Draw the observed share over the limit, with the binomial band."""
    figure, axes = new_figure(ONE_COLUMN_IN, 2.8)
    windows = 0
    for color, policy in zip(PALETTE, POLICIES, strict=False):
        points = []
        for risk in PROMISES:
            these = [r.values for run, r in results.items() if (run.policy, run.risk) == (policy, risk)]
            windows = sum(int(values["windows"] or 0) for values in these)
            if windows:
                wrong = sum(int(values["wrong"] or 0) for values in these)
                points.append((100 * risk, 100 * wrong / windows))
        axes.plot(*zip(*points, strict=True), "o-", color=color, label=policy)
    shares = np.linspace(0.0, 0.21, 60)
    off = NormalDist().inv_cdf(0.975) * np.sqrt(shares * (1 - shares) / max(windows, 1))
    low_pct, high_pct = 100 * np.maximum(shares - off, 0.0), 100 * (shares + off)
    label = f"95 % of {windows} windows"
    axes.fill_between(100 * shares, low_pct, high_pct, color=GREY, alpha=0.18, linewidth=0, label=label)
    axes.plot([0, 21], [0, 21], color=GREY, linestyle=":")
    axes.set_xlabel("limit: share of windows [%]")
    axes.set_ylabel("violated windows [%]")
    axes.set_xlim(0, 21)
    axes.set_ylim(0, None)
    axes.legend(loc="upper left")
    axes.grid(True)
    return figure


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of("calibrate_risk", lambda: calibrate(chosen), stopped=STOPPED)
