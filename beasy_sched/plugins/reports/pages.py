"""HTML reports and explanations of runs, used by the commands `report` and `explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.planner.plan import PlanStore
from beasy_sched.plugin import load, targets
from beasy_sched.run.results import Places, RunTables, check_same_run, find_prefix, place_of, places_of

if TYPE_CHECKING:
    from beasy_sched.plugins.reports.story import Story


def report(
    runs: Places,
    path: PathLike,
    *,
    plan: PathLike | PlanStore | None = None,
    title: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> Path:
    """Write a self-contained HTML report of runs or a campaign, for any browser; return its path.

    Args:
        runs: results of `simulate` or `read_run`, prefixes of runs, or folders of runs; or the folder of a
            campaign.
        path: the HTML file to write.
        plan: the plan that the runs followed, used to mark steps at risk and storage limits.
        title: heading of the page (default: the runs' names).
        progress: called with the share of the runs that are read, 0 to 1.

    Raises ConfigError if pyarrow or plotly is missing, and InputError for files that cannot be read.
    """
    from beasy_sched.formats.atomic import write_atomic

    write_atomic(path, report_pieces(places_of(runs), plan=plan, title=title, report=progress))
    return Path(path)


def report_pieces(
    places: Sequence[str],
    *,
    plan: PathLike | PlanStore | None = None,
    title: str | None = None,
    report: Callable[[float], None] | None = None,
) -> Iterator[str]:
    """Return the pieces of the HTML of runs, or of the campaign in the only folder of ``places``.

    Raises ConfigError and InputError.
    """
    folders = [(place, page) for place in places if (page := page_of_folder(place))]
    if folders and len(places) > 1:
        raise ConfigError(f"{folders[0][0]} is a campaign, which cannot be combined with runs in one report")
    for place, page in folders:
        if plan is not None:
            raise ConfigError("a plan applies only to single runs: a campaign has its own plans")
        pieces: Iterator[str] = load(page)(place, title)
        return pieces
    from beasy_sched.formats.plan_file import read_plans
    from beasy_sched.plugins.reports.html import report_html

    plans = plan if plan is None or isinstance(plan, PlanStore) else read_plans(plan)
    return report_html(places, plans=plans, title=title, report=report)


def page_of_folder(place: str) -> str | None:
    """Return the function of a plug-in that makes the page of a folder, by a file in it; None for runs."""
    pages = targets("pages")
    return next((pages[name] for name in pages if (Path(place) / name).is_file()), None)


def explain(
    run: RunTables | PathLike,
    *,
    job: str | int | None = None,
    at: float | str | None = None,
    killed: bool = False,
    longest_waits: int | None = None,
    host: int | None = None,
) -> Story:
    """Explain a run: why jobs waited, started or were killed, and why servers changed state.

    Without an option, it returns an overview. Give at most one option.

    Args:
        run: result of `simulate` or `read_run`, the prefix of a run, or the folder of one run.
        job: explain this job (id with or without the workload's name, ``w0!``).
        at: explain the step that contains this time: seconds, or a string such as ``"1d6h"``.
        killed: explain all kills.
        longest_waits: explain this many of the longest waits.
        host: explain when and why this host (by its id) was on, asleep or lost.

    Returns an explanation that notebooks display; its ``data`` has all figures. Raises ConfigError and
    InputError.
    """
    from beasy_sched.outputs.quantities import parse_moment
    from beasy_sched.plugins.reports.explain_host import explain_host
    from beasy_sched.plugins.reports.explain_job import explain_job
    from beasy_sched.plugins.reports.explain_run import explain_killed, explain_run, explain_waits
    from beasy_sched.plugins.reports.explain_time import explain_time

    if sum((job is not None, at is not None, killed, longest_waits is not None, host is not None)) > 1:
        raise ConfigError("explain: give only one of job, at, killed, longest_waits and host")
    if longest_waits is not None and longest_waits < 1:
        raise ConfigError(f"longest_waits: found {longest_waits}, expected at least 1")
    prefix = find_prefix(place_of(run))
    if job is not None:
        return explain_job(prefix, str(job))
    check_same_run(prefix)
    if host is not None:
        return explain_host(prefix, host)
    if longest_waits is not None:
        return explain_waits(prefix, longest_waits)
    if at is None:
        return explain_killed(prefix) if killed else explain_run(prefix)
    try:
        moment_s = parse_moment(at) if isinstance(at, str) else float(at)
    except ValueError as error:
        raise ConfigError(f"at: {error}") from None
    return explain_time(prefix, moment_s)
