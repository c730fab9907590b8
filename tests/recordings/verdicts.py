"""What each recording must come to."""

from __future__ import annotations

from dataclasses import dataclass

from recordings.archive import SMALL, Recording, recordings
from recordings.replay import Outcome, compare_csv, compare_messages, recorded_messages, replay

OUT_OF_SCOPE = {
    "com_half": "the profile communicates; refused at load by name",
}

REFUSED_LATENCY = {"14": "You asked to be awaken in the past! (you ask: 0.001000, it is: 0.001800)"}
"""What our refusal says, for every run with latency that Batsim aborted."""

REFUSALS = {
    "bad_empty_resources": "found no hosts, expected intervals",
    "bad_exec_busy": "currently computing jobs (these ones: {w0!a})",
    "bad_exec_busy_later": "currently computing jobs (these ones: {w0!a})",
    "bad_exec_completed": "Cannot get job 'w0!a': it does not exist",
    "bad_exec_dup_ids": "The job requires 2 machines but 1 were given",
    "bad_exec_empty_alloc": "found no hosts, expected intervals",
    "bad_exec_fewer": "The job requires 2 machines but 1 were given",
    "bad_exec_machine_oob": "Cannot get machine 9: it does not exist",
    "bad_exec_more": "The job requires 2 machines but 3 were given",
    "bad_exec_no_bang": "Invalid string job identifier 'a'",
    "bad_exec_not_submitted": "its state (NOT_SUBMITTED) is not JOB_STATE_SUBMITTED",
    "bad_exec_sleeping": "its state is 'sleeping'",
    "bad_exec_switching": "its state is 'switching_off'",
    "bad_exec_switching_on": "its state is 'switching_on'",
    "bad_exec_twice": "its state (RUNNING) is not JOB_STATE_SUBMITTED",
    "bad_exec_unknown_job": "Cannot get job 'w0!zzz': it does not exist",
    "bad_exec_unknown_workload": "there is no workload 'w9'",
    "bad_negative_pstate": "Invalid parameters for machine 3 (pstate -1",
    "bad_off_busy": "jobs are running on machine 0",
    "bad_off_busy_group": "jobs are running on machine 0",
    "bad_on_while_switching_off": "its state is 'sleeping'",
    "bad_pstate_no_energy": "Receiving a pstate modification request, which is forbidden",
    "bad_query_no_energy": "about the energy consumption of the machines but energy simulation is not",
    "bad_query_unknown": "Unknown QUERY 'air_temperature_all'",
    "bad_reject_running": "cannot be rejected at the present time",
    "bad_reject_unknown": "Job 'w0!zzz' does not exist",
    "bad_sleep_to_sleep": "Switching from a sleep pstate to a non-computation pstate on machine 3 : 3 -> 3",
    "bad_state_int": "Expected `str`, got `int` - at `$.events[0].data.state`",
    "bad_state_text": "should be a string corresponding to an integer (got 'sleep')",
    "bad_ts_gt_now": "timestamp 5 of event 0 should be lower than or equal to now=2",
    "bad_unknown_machine": "Cannot get machine 7: it does not exist",
    "bad_unknown_pstate": "Invalid parameters for machine 3 (pstate 9",
    "bad_unknown_type": "unknown 'type' value 'HELLO'",
    "call_now": "awaken in the past! (you ask: 4.000000, it is: 4.000000)",
    "call_past": "awaken in the past! (you ask: 2.000000, it is: 4.000000)",
    "change_state": "Job a did not complete",
    "dyn_disabled": "dynamic profile registration received but the option seems disabled",
    "ev_array": "an event could not be parsed",
    "ev_badline": "an event could not be parsed",
    "ev_machine_exec_unavail": "its state is 'unavailable'",
    "ev_negative_ts": "timestamp is -1",
    "ev_nofwd": "unknown event type 'user_specific_type'",
    "id_w0_inside": "Invalid string job identifier 'xw0y'",
    "init_asleep_exec": "machine 2 is not in a computation pstate (ps=3)",
    "kill_at_completion": "Cannot get job 'w0!a': it does not exist",
    "kill_completed_later": "Cannot get job 'w0!a': it does not exist",
    "kill_completed_samemsg": "Cannot get job 'w0!b': it does not exist",
    "kill_not_started": "refers to a job not being executed nor completed",
    "kill_same_time_as_end": "Cannot get job 'w0!a': it does not exist",
    "kill_same_time_as_end_dl": "Cannot get job 'w0!b': it does not exist",
    "kill_unknown": "Trying to kill job 'w0!zz'",
    "kill_walltime_race": "Cannot get job 'w0!a': it does not exist",
    "two_event_types": "was not in UNAVAILABLE state (current state: idle)",
    "walltime_zero": "invalid walltime (0)",
    "zero_delay": "'delay' is 0, expected a strictly positive number",
}
"""What our refusal says, for every run that Batsim aborted."""

MATCH, REFUSED, OUT = "match", "refused alike", "out of scope"


@dataclass(frozen=True)
class Verdict:
    """How a recording was met."""

    word: str
    faults: tuple[str, ...]
    why: str = ""
    messages: int = 0


def judge(recording: Recording) -> Verdict:
    """Replay a recording and compare everything."""
    if recording.name in OUT_OF_SCOPE:
        return Verdict(OUT, (), OUT_OF_SCOPE[recording.name])
    outcome = replay(recording)
    recorded = recorded_messages(recording)
    faults = compare_messages(outcome.told, recorded) + _compare_clocks(outcome, recording)
    if recording.aborted:
        wanted = (REFUSALS | REFUSED_LATENCY)[recording.name]
        if wanted not in outcome.refusal:
            faults.append(f"refusal: {outcome.refusal!r}, expected {wanted!r}")
        return Verdict(REFUSED, tuple(faults), wanted, len(recorded))
    if outcome.refusal:
        faults.append(f"refused: {outcome.refusal}")
    ending = "deadlock" if recording.deadlock else "finished"
    if outcome.ended != ending:
        faults.append(f"the end is {outcome.ended!r}, recorded {ending!r}")
    if outcome.csv.keys() != recording.csv.keys():
        faults.append(f"files {sorted(outcome.csv)}, recorded {sorted(recording.csv)}")
    for name in outcome.csv.keys() & recording.csv.keys():
        faults += compare_csv(name, outcome.csv[name], recording.csv[name])
    return Verdict(MATCH, tuple(faults), "deadlock" if recording.deadlock else "", len(recorded))


def _compare_clocks(outcome: Outcome, recording: Recording) -> list[str]:
    """Compare the clocks at the messages in full digits, where the recording has them."""
    pairs = zip(outcome.clocks_s, recording.clocks_s, strict=False)
    return [f"clock {ours!r}, recorded {theirs!r}" for ours, theirs in pairs if ours != theirs]


def all_verdicts(archive: str = SMALL) -> dict[str, Verdict]:
    return {name: judge(recording) for name, recording in recordings(archive).items()}
