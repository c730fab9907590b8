"""The settings of the scheduler's side of a run: the structs that options and recordings are made of.

`run.building` makes the session from them. This module imports little, so that a command starts fast.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from beasy_sched.declared import WINDOWS, OptionDoc
from beasy_sched.limits import LATEST_S
from beasy_sched.model.choices import RETRIES, EnergySource, OnKill, Placement
from beasy_sched.numbers import Range
from beasy_sched.units import SECONDS_PER_HOUR


class ReplanSettings(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Plans made during the run: their times and inputs."""

    every: Annotated[
        str,
        OptionDoc(
            'replan during the run from the current storage levels: at each ``"window"``, or at an interval'
            ' such as ``"12h"``; plans assume ``workload`` and the forecast, or else ``events``',
            "Replan during the run from the current storage levels: 'window', at the start of every window,"
            " or an interval such as 12h. The plans assume the demand and production of --plan or, in"
            " 'simulate' without --plan, those of the run itself.",
        ),
    ]
    workloads: Annotated[
        tuple[str, ...],
        OptionDoc("with --replan: expected workload (Batsim JSON)"),
    ] = ()
    demand: Annotated[
        str | None,
        OptionDoc("with --replan: expected demand instead: powers (CSV or events) or their quantiles (CSV)"),
    ] = None
    production: Annotated[
        str | None,
        OptionDoc(
            "with --replan: expected production, powers (events or CSV); 'serve' and 'slurm run' read it"
            " again when it changes, or run 'command:PROGRAM'. Default: --forecast, if given"
        ),
    ] = None
    limit_s: Annotated[
        float | None,
        OptionDoc(
            "with --replan: wall-clock limit for solving a plan; after it, the previous plan stays in effect."
            " [default: 60 for serve, 600 for simulate]",
            range=Range(0, LATEST_S, above=True),
        ),
    ] = None
    season: Annotated[
        str | None,
        OptionDoc(
            "with --replan: seasonal plan (of 'plan --season') with the hydrogen targets of the windows",
        ),
    ] = None


class FollowSettings(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Forecasts that are read again during a run."""

    stale_s: Annotated[
        float | None,
        OptionDoc(
            "warn if the newest forecast that was read is older than this; it stays in use."
            " [default: 1d, once the forecast has been renewed, or for command:PROGRAM]",
            range=Range(0, LATEST_S, above=True),
        ),
    ] = None
    every_s: Annotated[
        float,
        OptionDoc(
            "interval at which the program of a forecast (command:PROGRAM) is run, in wall-clock time",
            range=Range(1, LATEST_S),
        ),
    ] = SECONDS_PER_HOUR
    pv_kw: Annotated[
        float | None,
        OptionDoc(
            "nominal power of the site's PV, kW, for forecasts of irradiance or of shares of the capacity",
            range=Range(0, 1e6, above=True),
        ),
    ] = None
    wind_kw: Annotated[
        float | None,
        OptionDoc(
            "nominal power of the site's wind turbines, kW, for forecasts of wind speed",
            range=Range(0, 1e6, above=True),
        ),
    ] = None


class RunSettings(Struct, frozen=True):
    """The user's settings, kept in summaries and recordings so that a run can be repeated."""

    policy: Annotated[
        str,
        OptionDoc(
            'a policy\'s name, ``"package.module:Class"``, or your own class',
            "Scheduling policy: a name from 'beasy-sched policies', or package.module:Class.",
        ),
    ] = "easy"
    options: Annotated[
        dict[str, Any],
        OptionDoc(
            'options of the policy, as ``{"priority": "slowdown"}``',
            "All options of the policy as a JSON object, or @FILE for a file that contains one.",
        ),
    ] = {}
    site: Annotated[
        str | None,
        OptionDoc(
            'site file; ``"default"`` is the built-in site',
            "Site file (TOML): battery, hydrogen, steps, guard. Without it, power is unlimited."
            " 'default' selects the built-in site.",
        ),
    ] = None
    """Content of the site file."""
    site_name: str = "site.toml"
    """Name of the site file, for error messages."""
    plan: Annotated[
        str | None,
        OptionDoc(
            "an offline plan, required by some policies: its file, or the return value of `plan`",
            "Plan of the site ('beasy-sched plan'): sets the hydrogen schedule; results compare planned and"
            " actual values. Some policies require it.",
        ),
    ] = None
    """Plan file."""
    forecast: Annotated[
        str | None,
        OptionDoc(
            "predictions of the production, as for ``--forecast``: a forecast file,"
            ' ``"predictor:FILE"``, or ``"perfect"``, the production of ``events``',
            "Predictions of the production, for policies that plan ahead: a forecast file, 'predictor:FILE'"
            " (training data, or a TOML file), 'perfect:EVENTS' (the actual production, for studies;"
            " 'perfect' without a file uses --events) or 'none'. 'serve' and 'slurm run' read a forecast file"
            " again when it changes, or run 'command:PROGRAM', which prints a forecast.",
        ),
    ] = None
    windows: Annotated[
        int,
        OptionDoc("length of the run in planning windows of the site (72 h each by default)", range=WINDOWS),
    ] = 1
    energy: Annotated[
        EnergySource,
        OptionDoc(
            "source of the energy used: the simulator's replies (requires its -E), or the daemon's own model"
            " (always with Batsim 5)",
        ),
    ] = EnergySource.BATSIM
    power_actions: bool = True
    """Whether P-states may be changed."""
    replan: ReplanSettings | None = None
    """None: no plans are made during the run."""
    retry_s: Annotated[
        float | UnsetType,
        OptionDoc(
            "initial delay before retrying to wake a server that failed to wake (default: 300;"
            " doubles with each further failure, up to 12 times)",
            "Initial delay before retrying to wake a server that failed to wake, such as 5min or"
            " 300; doubles with each further failure, up to 12 times. [default: 5min]",
            RETRIES,
            "s",
        ),
    ] = UNSET
    """None: `RETRY_S`; see `engine.lost`."""
    follow: FollowSettings | UnsetType = UNSET
    """Unset: the defaults."""
    placement: Annotated[
        Placement | UnsetType,
        OptionDoc(
            "who starts jobs: the policy (``own``), or an EASY scheduler within the servers that the policy"
            " offers (``external``), as Slurm does when it keeps placing jobs",
        ),
    ] = UNSET
    """Unset: ``own``, and not in recordings, which therefore stay readable for older versions."""
    suspend_s: Annotated[
        float | UnsetType,
        OptionDoc(
            "with external placement: put servers to sleep that have been idle for this time, s, as Slurm's"
            " SuspendTime (default: only those that are not offered)",
            "With --placement external: put servers to sleep that have been idle for this time, as Slurm's"
            " SuspendTime. [default: only those that are not offered]",
            Range(0.0, LATEST_S),
            "s",
        ),
    ] = UNSET
    on_kill: Annotated[
        OnKill | UnsetType,
        OptionDoc(
            "treatment of a job that the guard, the policy or a broken server ends: it is lost (``drop``),"
            " is submitted again from its beginning (``requeue``), or with what its last checkpoint left"
            " (``checkpoint``)",
            "Treatment of a job that the guard, the policy or a broken server ends: it is lost (drop, the"
            " default), is submitted again from its beginning (requeue), or with what its last checkpoint"
            " left (checkpoint; see [restart] in the site file).",
        ),
    ] = UNSET
    """Unset: ``drop``, and not in recordings, which therefore stay readable for older versions."""
    placed_elsewhere: bool | UnsetType = UNSET
    """With external placement: whether a cluster places the jobs, not an EASY scheduler in this process."""
