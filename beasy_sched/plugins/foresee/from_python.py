"""Forecasts and comparisons of a run as data frames."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.extras import load_optional
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.quantities import parse_moment
from beasy_sched.run.results import RunTables, find_prefix, place_of

if TYPE_CHECKING:
    import pandas as pd


def foresee(
    run: RunTables | PathLike, at: float | str, *, continuations: int = 30, at_once: int | None = None
) -> pd.DataFrame:
    """Forecast a run at a time: when each waiting job starts and ends, next to what happened.

    Args:
        run: result of `simulate` or `read_run`, or the prefix of a run; it is repeated from its inputs.
        at: the time: seconds, or a string such as ``"1d6h"``.
        continuations: number of possible futures.
        at_once: number of futures computed at the same time (default: one for each processor).

    Returns one row per waiting job, with times in simulated seconds: the 10, 50 and 90 % quantiles of start
    and end, the start by walltimes alone, and the actual ones. ``attrs["forecast"]`` has the whole forecast,
    with the storage's levels. Raises ConfigError and InputError.
    """
    load_optional("pandas", "beasy-sched[data]", "data frames")
    import pandas as pd

    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.plugins.foresee.following import ForecastFollower, Moments
    from beasy_sched.run.in_process import run_in_process
    from beasy_sched.run.repeating import repeatable_run

    at_s = _moment(at)
    _check_numbers(continuations, at_once)
    repeated = repeatable_run(find_prefix(place_of(run)))
    foresight = ForecastFollower(
        Moments(at_s=(at_s,)),
        continuations=continuations,
        at_once=at_once,
        warn=lambda text: warnings.warn(text, stacklevel=2),
    )
    files = RunFiles(None, repeated.settings, decisions=False)
    summary = run_in_process(repeated.inputs, files, metering=repeated.metering, followers=[foresight])
    if not foresight.forecasts:
        raise ConfigError(f"at: no forecast at {at_s:g} s; the run ended at {summary.end_s or 0.0:g} s")
    (forecast,) = foresight.forecasts
    jobs, missing = forecast.jobs, [math.nan] * 3
    starts = [job.start_s or missing for job in jobs]
    ends = [job.end_s or missing for job in jobs]
    columns: dict[str, list[Any]] = {"id": [job.id for job in jobs]}
    for which, intervals in (("start", starts), ("end", ends)):
        for place, name in enumerate((f"{which}_low_s", f"{which}_s", f"{which}_high_s")):
            columns[name] = [interval[place] for interval in intervals]
    for name in ("start_by_walltimes_s", "never", "killed", "started_s", "ended_s"):
        columns[name] = [getattr(job, name) for job in jobs]
    frame = pd.DataFrame(columns)
    frame.attrs["forecast"] = forecast
    return frame


def what_if(
    run: RunTables | PathLike,
    at: float | str,
    *,
    policy: str | None = None,
    lose: str | None = None,
    production: PathLike | None = None,
    add: str | None = None,
    site: PathLike | None = None,
    known: bool = False,
    continuations: int = 30,
    at_once: int | None = None,
) -> pd.DataFrame:
    """Continue a run from a time as it was and with a change, in the same possible futures.

    Args:
        run: result of `simulate` or `read_run`, or the prefix of a run; it is repeated from its inputs.
        at: time of the change: seconds, or a string such as ``"1d6h"``.
        policy: another policy, with its default options.
        lose: servers that break down, such as ``"0-3"``.
        production: events file with the production from that time on.
        add: servers that are put back into service.
        site: site file with other limits of grid and battery, prices or carbon intensity from that time on.
        known: continue in the run's own future instead of drawn ones.
        continuations: number of drawn futures.
        at_once: number of futures computed at the same time (default: one for each processor).

    Returns one row per figure: its means over the futures, the mean difference and its interval of 80 %.
    Raises ConfigError and InputError.
    """
    load_optional("pandas", "beasy-sched[data]", "data frames")
    import pandas as pd
    from msgspec.structs import asdict

    from beasy_sched.plugins.foresee.what_if import Change, figures
    from beasy_sched.plugins.foresee.what_if import what_if as compare

    change = Change(
        policy,
        _hosts("lose", lose),
        None if production is None else str(production),
        _hosts("add", add),
        None if site is None else str(site),
    )
    at_s = _moment(at)
    _check_numbers(continuations, at_once)
    prefix = find_prefix(place_of(run))
    comparison = compare(prefix, at_s, change, is_known=known, continuations=continuations, at_once=at_once)
    return pd.DataFrame([asdict(each) for each in figures(comparison)]).set_index("name")


def _hosts(name: str, text: str | None) -> HostSet | None:
    try:
        return None if text is None else HostSet.parse(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def _moment(at: float | str) -> float:
    try:
        return parse_moment(str(at))
    except ValueError as error:
        raise ConfigError(f"at: {error}") from None


def _check_numbers(continuations: int, at_once: int | None) -> None:
    numbers = {"continuations": (continuations, 10_000), "at_once": (1 if at_once is None else at_once, 1000)}
    for name, (number, most) in numbers.items():
        if type(number) is not int or not 1 <= number <= most:
            raise ConfigError(f"{name}: found {number!r}, expected an integer from 1 to {most}")
