"""The embedded simulator as a Batsim 5 against every recorded run of a real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import exit_code
from protocol.batsim5_files import FOLDER, needs_recordings, recorded
from recordings.batsim5_runs import PLATFORMS, differences, different_files, replay, simulation_of

from beasy_sched.errors import InputError

pytestmark = needs_recordings
DOCS = Path(__file__).resolve().parents[2] / "docs" / "guides" / "batsim.md"

REFUSED_INPUTS = {
    "dup": "the id 'w0!a' occurs twice",
    "events_obj": "is not for Batsim 5: convert it",
    "events_old": "is not for Batsim 5: convert it",
    "id_int": "Invalid string job identifier 'x w0 y'",
    "id_w0": "Invalid string job identifier 'row01'",
    "old_profile": "is not for Batsim 5: convert it",
    "wt_neg": "'walltime' is -1, which Batsim 5 refuses",
}
"""Runs whose inputs Batsim aborted on, and what we say."""
INPUTS = {"events_obj": "events_obj.txt", "events_old": "events_old.txt", "old_profile": "old.json"}
"""Those whose faulty file has another name."""
REFUSED_HELLOS = {
    "hello_no_commit": "decision_component_commit",
    "hello_no_features": "requested_simulation_features",
    "hello_no_version": "batprotocol_version",
    "order_far": "event_type comes later",
}
"""Runs that ended with the scheduler's introduction."""
REFUSED_OPTION = "fcfs_E"
REFUSED = {
    "bad_json": "not JSON",
    "call_dup_periodic": "call_id='x' while this call_id is already in use",
    "call_fraction": "Expected `int`, got `float`",
    "call_incompatible": "Period inconsistency found",
    "call_offset": "non-zero offset",
    "empty_alloc": "found no hosts, expected intervals",
    "exec_no_placement": "required field `executor_placement_type`",
    "exec_oob": "Cannot get machine 99: it does not exist",
    "exec_sleeping": "(hostname='n0') cannot compute jobs now",
    "exec_switching": "its state is 'switching_off'",
    "exec_twice": "its state (RUNNING) is not JOB_STATE_SUBMITTED",
    "exec_unknown": "Cannot get job 'w0!nope': it does not exist",
    "force_stop": "ForceSimulationStop is not simulated",
    "kill10": "Cannot get job 'w0!a': it does not exist",
    "kill_done": "Cannot get job 'w0!a': it does not exist",
    "kill_done_later": "Cannot get job 'w0!a': it does not exist",
    "kill_queued": "refers to a job not being executed nor completed",
    "kill_twice": "Invalid (empty) job_ids received",
    "kill_unknown": "Cannot get job 'w0!nope': it does not exist",
    "not_implemented_trigger": "Unhandled event type received (TriggerProbe)",
    "off_already": "already in a sleep pstate (current: 3 target: 3)",
    "off_busy": "jobs are running on machine 0",
    "off_unknown_ps": "already in a computing pstate (current: 0 target: 17)",
    "off_virtual": "Switching from a computation pstate to an invalid pstate: 0 -> 4",
    "off_while_off": "Machine 0 ('n0') has an invalid pstate : 4",
    "off_while_on": "Machine 0 ('n0') has an invalid pstate : 5",
    "on_already": "already in a computing pstate (current: 0 target: 0)",
    "on_while_off": "Machine 0 ('n0') has an invalid pstate : 4",
    "probes_noenergy": "trying to probe energy on hosts",
    "ps_unknown": "(pstate 17 >= length of pstates 6)",
    "ps_unknown_host": "Cannot get machine 9: it does not exist",
    "reject_running": "cannot be rejected at the present time",
    "reject_then_exec": "Cannot get job 'w0!a': it does not exist",
    "reject_unknown": "Cannot get job 'w0!nope': it does not exist",
    "ts_gt_now": "event timestamp (5) is after message's now (0)",
    "unknown_field": "unknown field `comment`",
    "unknown_type": "which no scheduler sends",
    "wrong_direction": "which no scheduler sends",
}
"""Runs that Batsim aborted at an answer, and what we say; the messages until then are the same."""
DEADLOCKS = ("donothing", "dyn_disabled")
"""Runs that Batsim ended with exit code 1, as we do."""
OTHERWISE = {"init_probe1": "22 messages told, 21 recorded"}
"""Runs that go otherwise here. Batsim hung, when a probe was stopped in the instant of its reading."""
WITHOUT_MESSAGES = {*REFUSED_INPUTS, *REFUSED_HELLOS, REFUSED_OPTION}
PLAYED = sorted(set(recorded()) - WITHOUT_MESSAGES)


@pytest.mark.parametrize("name", PLAYED)
def test_a_recording_is_matched_or_refused_alike(name: str) -> None:
    run = recorded()[name]
    done = replay(run)
    faults = [*differences(done.told, [*run.of("batsim")])]
    assert faults == ([OTHERWISE[name]] if name in OTHERWISE else [])
    if name in REFUSED:
        assert run.exit_code == 134
        assert REFUSED[name] in done.end
    elif name in DEADLOCKS:
        assert (run.exit_code, done.end) == (1, "deadlock")
    else:
        assert run.exit_code in (0, None) or name in OTHERWISE
        assert done.end == "finished"


OTHER_FILES = {
    "dyn": "jobs: consumed_energy is -1.000000, recorded 0.000000",
    "exec_comma": "jobs: allocated_resources is 0-1, recorded 0",
}
"""Where files differ: registered jobs without metering; hosts that are read from ``0,1``."""
WRITTEN = [name for name in PLAYED if (FOLDER / "rc2" / name / "out_schedule.json").exists()]


@pytest.mark.parametrize("name", WRITTEN)
def test_the_files_are_those_of_batsim(name: str) -> None:
    faults = different_files(replay(recorded()[name]), recorded()[name])
    expected = OTHER_FILES.get(name)
    assert all(fault.startswith(expected or "none") for fault in faults), faults
    assert bool(faults) == (expected is not None)


@pytest.mark.parametrize("name", REFUSED_INPUTS)
def test_inputs_that_batsim_aborts_on_are_refused(name: str, tmp_path: Path) -> None:
    assert recorded()[name].exit_code == 134
    file = FOLDER / "workloads" / INPUTS.get(name, f"{name}.json")
    option = "-w" if file.suffix == ".json" else "--ee"
    arguments = (
        "-p",
        str(PLATFORMS / "dvfs4.xml"),
        option,
        str(file),
        "-e",
        f"{tmp_path}/",
        "--timeout",
        "5",
    )
    assert exit_code("batsim", "--protocol", "5", *arguments) == 2
    assert not [*tmp_path.iterdir()]
    with pytest.raises(InputError) as error:
        _read(file)
    assert REFUSED_INPUTS[name] in str(error.value)


def _read(file: Path) -> None:
    from beasy_sched.model.choices import BatsimFormat
    from beasy_sched.simulator import Inputs, SimulationOptions

    workloads, events = ([file], []) if file.suffix == ".json" else ([], [file])
    Inputs(PLATFORMS / "dvfs4.xml", workloads, events, strict=BatsimFormat.BATSIM5).read(SimulationOptions())


@pytest.mark.parametrize("name", REFUSED_HELLOS)
def test_introductions_that_batsim_aborts_on_are_refused(name: str) -> None:
    run = recorded()[name]
    assert run.exit_code in (134, 139)
    done = replay(run)
    assert done.told == []
    assert REFUSED_HELLOS[name] in done.end


def test_the_option_that_batsim_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("batsim", "--protocol", "5", "-p", "p.xml", "-E") == 2
    assert "--energy is not implemented" in capsys.readouterr().err
    assert any("--energy is not implemented" in line for line in recorded()[REFUSED_OPTION].errors)


def test_no_recording_is_left_out() -> None:
    assert len(recorded()) == 105
    assert len(PLAYED) == 93
    aborted = {name for name, run in recorded().items() if run.exit_code in (134, 139)}
    assert aborted == {*REFUSED, *REFUSED_INPUTS, *REFUSED_HELLOS}
    assert {name for name, run in recorded().items() if run.exit_code == 1} == {
        *DEADLOCKS, *OTHERWISE, REFUSED_OPTION,
    }  # fmt: skip
    assert len(WRITTEN) == 52


def test_the_figures_in_the_docs_are_up_to_date() -> None:
    text = DOCS.read_text().partition("### Validation")[2].partition("\n## ")[0]
    alike = len(PLAYED) - len(OTHERWISE)
    for figure in (
        f"{alike} of the 105",
        f"{len(REFUSED)} of them",
        f"{len(WITHOUT_MESSAGES)} runs",
        f"{len(WRITTEN)} runs",
    ):
        assert figure in text, figure
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == {*OTHERWISE, *OTHER_FILES}


def test_the_comparison_notices() -> None:
    run = recorded()["switches"]
    told = [*run.of("batsim")]
    assert [*differences(told, told)] == []
    later = [raw.replace(b'"now": 22.0', b'"now": 22.00001') for raw in told]
    other = [raw.replace(b'"0-1"', b'"0-2"') for raw in told]
    joined = [*told[:3], told[4], told[3], *told[5:]]
    for wrong in (later, other, joined, told[:-1]):
        assert [*differences(wrong, told)]
    assert simulation_of(run).finished is False
