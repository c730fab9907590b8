"""Options of `slurm run`, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from beasy_sched.declared import OptionDoc

MODEL: Final = "model"
"""Name for no meter: the scheduler's own model is used."""
OnKill = Literal["drop", "requeue", "checkpoint"]
OnReject = Literal["hold", "cancel"]
Order = Literal["submission", "priority"]
Mode = Literal["jobs", "nodes-only"]


_POLLS_S: Final[dict[Mode, float]] = {"jobs": 1.0, "nodes-only": 10.0}
"""Default polling interval in each mode, s."""


def read_on_kill(name: str) -> OnKill:
    """Return the treatment of killed jobs by its name. Raises ValueError."""
    if name == "cancel":
        raise ValueError("found 'cancel', which is now called 'drop': use --on-kill drop")
    for known in get_args(OnKill):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"found {name!r}, expected one of {', '.join(get_args(OnKill))}")


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """Settings of a run on a cluster, in addition to those of any run."""

    partition: Annotated[str, OptionDoc("partition of the cluster")]
    mode: Annotated[
        Mode,
        OptionDoc(
            "'jobs': the policy starts the partition's jobs on whole nodes. 'nodes-only': Slurm starts jobs,"
            " and the policy limits the number of nodes that are on"
        ),
    ] = "jobs"
    act: Annotated[
        bool,
        OptionDoc(
            "--act: start held jobs and power nodes up and down, or with nodes-only reserve nodes and power"
            " them down. --shadow: change nothing, and only report the decisions"
        ),
    ] = False
    power: Annotated[
        str | None,
        OptionDoc(
            "source of the current power production: a growing file (CSV or events), 'command:PROGRAM'"
            " (prints watts, or a JSON object, on each line), or 'prometheus:URL?query=...'"
        ),
    ] = None
    battery: Annotated[
        str | None,
        OptionDoc("source of the measured state of charge in percent, as for --power (default: computed)"),
    ] = None
    meter: Annotated[
        str,
        OptionDoc(
            "source of the nodes' energy consumption: 'model' (estimated from their states), 'slurm' (Slurm's"
            " energy accounting), 'command:PROGRAM' (prints watts, or JSON with power_w or energy_j, on each"
            " line), or 'prometheus:URL?query=...' (W)"
        ),
    ] = MODEL
    power_stale_s: Annotated[
        float,
        OptionDoc(
            "assume 0 W if the source is silent for this time [default: two steps of the site, or 10 min]"
        ),
    ] = 600.0
    endpoint: Annotated[
        str | None,
        OptionDoc("use an external Batsim scheduler (such as batsched) at this endpoint instead of --policy"),
    ] = None
    poll_s: Annotated[
        float | None, OptionDoc("polling interval of the cluster [default: 1; nodes-only: 10]")
    ] = None
    for_s: Annotated[float | None, OptionDoc("end after this time (default: run until stopped)")] = None
    fail_open_s: Annotated[
        float, OptionDoc("return the partition to Slurm if the scheduler has not replied for this time")
    ] = 600.0
    on_kill: Annotated[
        OnKill | None,
        OptionDoc(
            "treatment of jobs that are killed for lack of energy: they are cancelled (drop), requeued"
            " (requeue), or requeued after a signal, upon which they write a checkpoint (checkpoint)"
            " [default: drop; nodes-only: no job is killed, its nodes accept no further ones]"
        ),
    ] = None
    low_partition: Annotated[
        str | None,
        OptionDoc(
            "nodes-only: partition whose jobs do not start (State=DOWN) while fewer nodes are offered than"
            " the running jobs and the other partitions' waiting jobs would take"
        ),
    ] = None
    on_reject: Annotated[OnReject, OptionDoc("what to do with jobs that the scheduler rejects")] = "hold"
    order: Annotated[
        Order,
        OptionDoc(
            "order of waiting jobs: that of submission, or the site's priorities (account shares, age and"
            " nice value, with Slurm's weights)"
        ),
    ] = "submission"
    tell_users: Annotated[
        bool,
        OptionDoc(
            "with --foresee and --act: write the expected start of each held job into its comment"
            " (scontrol update JobId=... Comment=...), after what its user has written there"
        ),
    ] = False
    pstate_command: Annotated[
        str | None,
        OptionDoc("program that sets the frequency of a node; {node}, {pstate} and {mhz} are filled in"),
    ] = None

    @property
    def interval_s(self) -> float:
        """Polling interval, s."""
        return _POLLS_S[self.mode] if self.poll_s is None else self.poll_s
