"""Options of `slurm run`, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from beasy_sched.declared import Means

MODEL: Final = "model"
"""Name for no meter: the scheduler's own model is used."""
OnKill = Literal["cancel", "requeue"]
OnReject = Literal["hold", "cancel"]


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """Settings of a run on a cluster, in addition to those of any run."""

    partition: Annotated[str, Means("partition of the cluster")]
    act: Annotated[
        bool,
        Means(
            "--act: start held jobs, and power nodes up and down. --shadow: change nothing, and only"
            " report the decisions"
        ),
    ] = False
    power: Annotated[
        str | None,
        Means(
            "source of the current power production: a growing file (CSV or events), 'command:PROGRAM'"
            " (prints watts, or a JSON object, on each line), or 'prometheus:URL?query=...'"
        ),
    ] = None
    battery: Annotated[
        str | None,
        Means("source of the measured state of charge in percent, as for --power (default: computed)"),
    ] = None
    meter: Annotated[
        str,
        Means(
            "source of the nodes' energy consumption: 'model' (estimated from their states), 'slurm' (Slurm's"
            " energy accounting), 'command:PROGRAM' (prints watts, or JSON with power_w or energy_j, on each"
            " line), or 'prometheus:URL?query=...' (W)"
        ),
    ] = MODEL
    power_stale_s: Annotated[
        float,
        Means("assume 0 W if the source is silent for this time [default: two steps of the site, or 10 min]"),
    ] = 600.0
    endpoint: Annotated[
        str | None,
        Means("use an external Batsim scheduler (such as batsched) at this endpoint instead of --policy"),
    ] = None
    poll_s: Annotated[float, Means("polling interval of the cluster")] = 1.0
    for_s: Annotated[float | None, Means("end after this time (default: run until stopped)")] = None
    fail_open_s: Annotated[
        float, Means("return the partition to Slurm if the scheduler has not replied for this time")
    ] = 600.0
    on_kill: Annotated[OnKill, Means("what to do with jobs that are killed for lack of energy")] = "cancel"
    on_reject: Annotated[OnReject, Means("what to do with jobs that the scheduler rejects")] = "hold"
    pstate_command: Annotated[
        str | None,
        Means("program that sets the frequency of a node; {node}, {pstate} and {mhz} are filled in"),
    ] = None
