"""The summary as a table for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from beasy_sched.outputs.summary import job_share_pct
from beasy_sched.units import JOULES_PER_KWH

Row = tuple[str, str]


def summary_rows(summary: dict[str, Any]) -> list[Row]:
    """Return the rows of the summary's table: what, and how much."""
    settings, jobs, quality = summary["settings"], summary["jobs"], summary["quality"]
    rows = [("policy", settings["policy"])]
    if summary["error"]:
        rows.append(("ended early", summary["error"]))
    rows += _job_rows(jobs)
    if quality["waiting_s_mean"] is not None:
        rows.append(("mean waiting time", f"{quality['waiting_s_mean']:,.1f} s"))
        rows.append(
            (
                "bounded slowdown, mean / median",
                _two(quality, "bounded_slowdown_mean", "bounded_slowdown_p50"),
            )
        )
    if quality["utilization"] is not None:
        rows.append(("utilization", f"{100 * quality['utilization']:.2f} %"))
    if quality.get("server_switches"):
        rows.append(("servers put to sleep or woken", f"{quality['server_switches']:,} times"))
    if "budget" in summary:
        rows += _budget_rows(summary["budget"])
    if "site" in summary:
        rows += _site_rows(summary["site"], summary["energy_kwh"])
    if "planned" in summary:
        rows += _planned_rows(summary["planned"], summary["site"], summary["energy_kwh"])
    return rows


def _budget_rows(budget: dict[str, Any]) -> list[Row]:
    """What the policy had to do with, and what was used of it."""
    share = "" if budget.get("share") is None else f" ({100 * budget['share']:g} %)"
    given_j, used_j = budget["budget_j"], budget["used_j"]
    rows = [("energy budget", "none" if given_j is None else f"{given_j / JOULES_PER_KWH:,.2f} kWh{share}")]
    if used_j is not None:
        until = "" if budget["measured_to_the_end"] else ", as far as the run went"
        rows.append(("  used in its period", f"{used_j / JOULES_PER_KWH:,.2f} kWh{until}"))
    if budget.get("excess_j"):
        rows.append(("  more than the budget", f"{budget['excess_j'] / JOULES_PER_KWH:,.2f} kWh"))
    return rows


def _planned_rows(planned: dict[str, Any], site: dict[str, Any], energy_kwh: dict[str, float]) -> list[Row]:
    """What was planned beside what came of it."""
    if not planned["steps"]:
        return [("planned", "nothing for the time of this run")]
    plan_kwh = planned["energy_kwh"]
    rows = [
        (
            "planned / real: production",
            f"{plan_kwh['production']:,.2f} / {energy_kwh['production']:,.2f} kWh",
        ),
        ("  servers", f"{plan_kwh['servers']:,.2f} / {energy_kwh['consumed']:,.2f} kWh"),
        ("  curtailed", f"{plan_kwh['curtailed']:,.2f} / {energy_kwh['curtailed']:,.2f} kWh"),
        ("  final state of charge", f"{planned['soc_final_pct']:.2f} / {site['soc_final_pct']:.2f} %"),
    ]
    if "hydrogen_final_kg" in site:
        real_kg = site["hydrogen_final_kg"]
        rows.append(("  final hydrogen", f"{planned['hydrogen_final_kg']:.3f} / {real_kg:.3f} kg"))
    return rows


def _job_rows(jobs: dict[str, int]) -> list[Row]:
    rows = [("jobs submitted", f"{jobs['submitted']:,}")]
    for name, count in jobs.items():
        if name != "submitted" and (count or name in ("finished", "postponed", "killed")):
            shown = count + jobs["failed"] if name == "finished" else count
            pct = job_share_pct(jobs, name)
            label = "  of these, with an error code" if name == "failed" else name.replace("_", " ")
            rows.append((f"  {label}", f"{shown:,}" + ("" if pct is None else f" ({pct:.2f} %)")))
    return rows


def _two(values: dict[str, float], first: str, second: str) -> str:
    return f"{values[first]:.2f} / {values[second]:.2f}"


def _site_rows(site: dict[str, Any], energy_kwh: dict[str, float]) -> list[Row]:
    rows = [
        ("guard", f"{site['guard']}, {'with' if site['veto'] else 'without'} veto"),
        (
            "state of charge: start, lowest, final",
            f"{site['soc_start_pct']:.2f}, {site['soc_lowest_pct']:.2f}, {site['soc_final_pct']:.2f} %",
        ),
        ("  final less target", f"{site['soc_distance_points']:+.2f} points"),
    ]
    if "hydrogen_final_kg" in site:
        hydrogen = f"{site['hydrogen_final_kg']:.3f} kg ({round(site['hydrogen_distance_kg'], 3) + 0.0:+.3f})"
        rows.append(("hydrogen, final (less target)", hydrogen))
    names = {
        "production": "energy produced",
        "consumed": "energy consumed",
        "finished_jobs": "  by jobs that finished",
        "wasted": "  wasted (all the rest)",
        "curtailed": "energy curtailed",
        "unserved": "energy unserved",
    }
    rows += [(label, f"{energy_kwh[name]:,.2f} kWh") for name, label in names.items()]
    return rows


def print_summary(summary: dict[str, Any]) -> None:
    """Print a run's table on standard output."""
    print_rows(summary_rows(summary))


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table of two columns on standard output: in a frame on a terminal, plain text elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        sys.stdout.write(f"{name:<{width}}  {value}".rstrip() + "\n")
    sys.stdout.flush()
