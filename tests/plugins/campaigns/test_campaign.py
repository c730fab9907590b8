"""Campaigns in processes of this machine."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path

import msgspec
import pyarrow.parquet
import pytest
from command_line import exit_code
from small_campaign import BAD, SMALL, run_campaign, scenario

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.plugins.campaigns.campaign import begin
from beasy_sched.plugins.campaigns.campaign_table import COLUMNS, read_campaign
from beasy_sched.plugins.campaigns.folder import Folder
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.campaigns.tasks import work_share_pct


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A campaign that is complete, with its traces."""
    folder = tmp_path_factory.mktemp("campaign") / "out"
    outcome = run_campaign(folder, keep="trace")
    assert (outcome.runs, outcome.executed, outcome.failed) == (12, 12, 0)
    return folder


def test_the_table_has_a_row_a_run_and_the_columns_it_should(done):
    table = pyarrow.parquet.read_table(done / "runs.parquet")
    assert table.column_names == [column.name for column in COLUMNS]
    runs = read_campaign(done).runs
    assert runs.run.tolist() == [spec.key for spec in read_campaign(done).specs]
    assert (runs.status == "ok").all()
    assert (runs.version == __version__).all()
    outcomes = [f"jobs_{name}" for name in ("finished", "reached_walltime", "killed", "postponed")]
    outcomes += ["jobs_not_completely_finished", "jobs_rejected", "jobs_failed"]
    assert (runs[outcomes].sum(axis=1) == runs.jobs_submitted).all()
    assert (runs.jobs_submitted == 30).all()
    energies = runs[["idle_kwh", "transitions_kwh", "sleeping_kwh", "other_jobs_kwh"]].sum(axis=1)
    assert energies.to_numpy() == pytest.approx(runs.wasted_kwh.to_numpy())
    assert (runs.wasted_kwh < runs.consumed_kwh).all()


def test_the_work_of_the_jobs_that_finished(done, tmp_path):
    """Flops, not jobs: two hosts for ten seconds are twice as much as one for as long."""
    runs = read_campaign(done).runs
    all_done = runs.jobs_finished == runs.jobs_submitted
    assert (runs.work_finished_pct[all_done] == 100.0).all()
    assert all_done.any()
    assert runs.work_finished_pct[~all_done].between(0.0, 100.0, inclusive="neither").all()
    jobs = [{"id": str(n), "subtime": 0, "res": n, "profile": "p"} for n in (1, 2, 5)]
    profiles = {"p": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"nb_res": 5, "jobs": jobs, "profiles": profiles}))
    assert work_share_pct(path, {"w0!1", "w0!2"}) == 37.5
    assert work_share_pct(path, ()) == 0.0
    path.write_text(json.dumps({"nb_res": 5, "jobs": [], "profiles": {}}))
    assert work_share_pct(path, ()) is None


def test_what_runs_warn_of_is_told_once(tmp_path, capsys):
    """300 jobs in three hours are more than four hosts can do; each seed's load is another number."""
    text = SMALL.replace("jobs = 30", "jobs = 300").replace(
        '"easy", "follow-plan", "workload-reactive"', '"easy"'
    )
    (tmp_path / "busy.toml").write_text(text)
    assert exit_code("campaign", "run", str(tmp_path / "busy.toml"), "-o", str(tmp_path / "out")) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    (told,) = [line for line in warnings if "the load is" in line]
    assert told.startswith("warning: 4 of 4 runs: the load is ")


def test_policies_of_a_seed_read_the_same(done):
    runs = read_campaign(done).runs
    for name in ("platform", "workload", "power", "plan"):
        assert (runs.groupby("seed")[f"{name}_sha256"].nunique() == 1).all()
        assert (runs[f"{name}_sha256"].str.len() == 64).all()
    assert runs.workload_sha256.nunique() == 2
    assert runs.plan_sha256.nunique() == 1
    assert runs.site_sha256.nunique() == 2  # one a guard


def test_what_differs_from_time_to_time_is_kept_apart(done):
    assert "wall_s" not in read_campaign(done).runs
    timings = read_campaign(done).timings
    assert (timings.wall_s > 0).all()
    assert (timings.cpu_s > 0).all()


def test_traces(done):
    campaign = read_campaign(done)
    trace = campaign.trace("small.t0.s2.shed+veto.follow-plan")
    assert len(trace) == 36
    final = campaign.runs.set_index("run").soc_final_pct["small.t0.s2.shed+veto.follow-plan"]
    assert trace.soc_pct.iloc[-1] == pytest.approx(final)


def test_the_same_campaign_again_runs_nothing_and_changes_nothing(done):
    before = (done / "runs.parquet").read_bytes()
    assert run_campaign(done, keep="trace").executed == 0
    assert (done / "runs.parquet").read_bytes() == before


def test_one_process_or_two_come_to_the_same_bytes(done, tmp_path):
    run_campaign(tmp_path, jobs=1)
    assert (tmp_path / "runs.parquet").read_bytes() == (done / "runs.parquet").read_bytes()


@pytest.fixture
def copy(done, tmp_path):
    """A complete campaign that may be damaged."""
    return Path(shutil.copytree(done, tmp_path / "copy"))


def test_a_lost_table_is_written_again(copy):
    before = (copy / "runs.parquet").read_bytes()
    (copy / "runs.parquet").unlink()
    assert not read_campaign(copy).complete
    assert run_campaign(copy, keep="trace").executed == 0
    assert (copy / "runs.parquet").read_bytes() == before


@pytest.mark.slow
def test_all_files_of_runs_can_be_kept(tmp_path):
    small = scenario(("[1, 2]", "[1]"))
    run_campaign(tmp_path / "out", small)
    assert run_campaign(tmp_path / "out", small, keep="everything").executed == 6
    names = {path.name for path in (tmp_path / "out" / "runs" / "small.t0.s1.kill-all.easy").iterdir()}
    assert {"run_jobs.csv", "run_summary.json", "run_decisions.jsonl", "run_energy_trace.csv"} <= names
    assert len(read_campaign(tmp_path / "out").trace("small.t0.s1.kill-all.easy")) == 36


ALLOW = tuple(word for name in BAD for word in ("--allow-policy", name))


def test_a_file_alone_has_no_code_imported(tmp_path, capsys):
    text = SMALL.replace('"easy"', '"never_imported:Policy"')
    (tmp_path / "never_imported.py").write_text("raise SystemExit('imported')")
    (tmp_path / "s.toml").write_text(text)
    assert exit_code("campaign", "run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out"), "-q") == 2
    told = capsys.readouterr().err
    assert "s.toml: policies[0]: policy 'never_imported:Policy' comes from a data file" in told
    assert "--allow-policy never_imported:Policy" in told
    assert not (tmp_path / "out").exists()


def test_nor_does_the_folder_of_a_campaign(tmp_path, capsys):
    begin([bad("raises", "Raises")], tmp_path)
    assert exit_code("campaign", "resume", str(tmp_path), "-q") == 2
    assert "policies[0]: policy 'bad_policies:Raises' comes from a data file" in capsys.readouterr().err
    assert exit_code("campaign", "status", str(tmp_path)) == 0


def test_what_is_allowed_is_run(tmp_path):
    (tmp_path / "s.toml").write_text(
        SMALL.replace('"easy"', '{ name = "bad_policies:Exits", label = "exits" }').replace("[1, 2]", "[1]")
    )
    arguments = [str(tmp_path / "s.toml"), "-o", str(tmp_path / "out"), "-q", "-j", "2", *ALLOW]
    assert exit_code("campaign", "run", *arguments) == 1
    failed = read_campaign(tmp_path / "out").runs.query("status == 'failed'")
    assert failed.error.str.contains("SystemExit: 0").all()


def bad(name: str, policy: str):
    return scenario(('"easy"', f'{{ name = "bad_policies:{policy}", label = "{name}" }}'), ("[1, 2]", "[1]"))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("label", "policy", "error"),
    [
        ("raises", "Raises", "ZeroDivisionError"),
        ("dies", "Dies", "its process was ended by SIGKILL"),
        ("leaves", "Leaves", "its process ended with exit code 3"),
    ],
)
def test_a_run_that_goes_wrong_is_a_row_and_the_campaign_goes_on(label, policy, error, tmp_path):
    outcome = run_campaign(tmp_path / "out", bad(label, policy))
    assert (outcome.runs, outcome.executed, outcome.failed) == (6, 6, 2)
    runs = read_campaign(tmp_path / "out").runs.set_index("policy")
    assert (runs.loc[label, "status"] == "failed").all()
    assert runs.loc[label, "error"].str.contains(error).all()
    assert runs.loc[label, "finished_pct"].isna().all()
    assert (runs.drop(label).status == "ok").all()
    assert run_campaign(tmp_path / "out", bad(label, policy)).executed == 0
    assert run_campaign(tmp_path / "out", bad(label, policy), retry_failed=True).executed == 2


def test_a_tuple_without_a_plan_is_rows_that_say_so(tmp_path):
    impossible = scenario(
        ("[1, 2]", "[1]"),
        ("[site.time]", "soc_target_pct = 90.0\n[site.time]"),
        ("pv_kw = 1", "pv_kw = 0.01"),
    )
    outcome = run_campaign(tmp_path / "out", impossible)
    assert outcome.failed == outcome.runs == 6
    errors = read_campaign(tmp_path / "out").runs.error
    assert errors.str.contains("there is no plan: window 0: ").all()
    assert errors.str.contains("target").all()


def test_a_tuple_whose_inputs_cannot_be_made_is_rows_that_say_so(tmp_path):
    (tmp_path / "empty.swf").write_text("; MaxProcs: 4\n1 90000 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    late = f'[[tuples]]\nworkload = {{ source = "swf", file = "{tmp_path / "empty.swf"}", from = "2d" }}\n'
    two = parse_scenario(SMALL.replace("[1, 2]", "[1]") + "[[tuples]]\n" + late)
    outcome = run_campaign(tmp_path / "out", two)
    assert (outcome.runs, outcome.failed) == (12, 6)
    runs = read_campaign(tmp_path / "out").runs
    assert (runs.status == "ok").tolist() == [True] * 6 + [False] * 6
    assert runs.error[6:].str.contains(r"empty\.swf: no job is left").all()
    assert (runs.platform_sha256[6:] == "").all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((("jobs = 30", "jobs = 31"),), "scenario small: tuples[0].workload.jobs was 30, is now 31"),
        ((("[1, 2]", "[1, 3]"),), "scenario small: seeds[1] was 2, is now 3"),
        ((('"easy", ', ""),), "scenario small: policies was"),
        ((('name = "small"', 'name = "other"'),), "its scenarios are small; now they are other"),
    ],
)
def test_a_changed_scenario_is_refused(done, changes, message):
    with pytest.raises(ConfigError) as caught:
        run_campaign(done, scenario(*changes))
    assert message in str(caught.value)
    assert "another campaign" in str(caught.value)


def test_a_comment_may_change(done):
    small = scenario(('name = "small"', 'name = "small"\ncomment = "so small"'))
    assert run_campaign(done, small, keep="trace").executed == 0


def test_another_version_is_refused(copy):
    manifest = json.loads((copy / "campaign.json").read_text())
    (copy / "campaign.json").write_text(json.dumps({**manifest, "version": "0.0.1"}))
    with pytest.raises(ConfigError, match=rf"made by beasy-sched 0\.0\.1, this is {__version__}"):
        run_campaign(copy)
    assert exit_code("campaign", "resume", str(copy)) == 2


def test_a_changed_trace_is_refused(tmp_path):
    trace = tmp_path / "trace.swf"
    trace.write_text("1 0 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    change = ('source = "synthetic"\nseed = 1\njobs = 30\nrun_median_s = 300\nrun_cap_s = 1800\n', "")
    swf = ("host_shares = { 1 = 3, 2 = 1 }", f'source = "swf"\nfile = "{trace}"')
    run_campaign(tmp_path / "out", scenario(change, swf))
    trace.write_text("1 0 0 90 1 -1 -1 1 90 -1 1 1 1 -1 1 -1 -1 -1\n")
    with pytest.raises(ConfigError, match=r"trace\.swf has changed"):
        run_campaign(tmp_path / "out", scenario(change, swf))


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match="not empty and does not contain a campaign"):
        run_campaign(tmp_path)
    with pytest.raises(InputError, match=r"campaign\.json: cannot be read"):
        read_campaign(tmp_path)


def test_a_folder_that_was_just_begun_is_taken(tmp_path):
    (tmp_path / ".campaign.json.99.part").write_text("{")  # killed while it was written
    begin([scenario()], tmp_path)
    assert read_campaign(tmp_path).runs.empty


def test_one_campaign_at_a_time(done):
    with Folder(done).locked(), pytest.raises(ConfigError, match="another campaign, or a part"):
        run_campaign(done, keep="trace")


@pytest.mark.skipif(sys.platform == "win32", reason="no fcntl")
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    import fcntl

    def no_locks(*given):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    begin([scenario()], tmp_path)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(ConfigError, match=r"cannot be locked .* on a file system with locks"):
        run_campaign(tmp_path)
    assert Folder(tmp_path).running_since_s() is None


def test_two_scenarios_of_one_name_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="two scenarios are called 'small'"):
        run_campaign(tmp_path, scenario(), scenario(("[1, 2]", "[3]")))


def test_what_is_not_installed_is_named_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[data\]'"):
        run_campaign(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_killed_campaign_left_half_written_goes(copy):
    left = copy / "rows" / ".small.t0.s1.kill-all.easy.json.99.part"
    left.write_text("{")
    torn = copy / "rows" / "small.t0.s1.kill-all.easy.json"
    before = (copy / "runs.parquet").read_bytes()
    torn.write_bytes(torn.read_bytes()[:100])
    assert run_campaign(copy, keep="trace").executed == 1
    assert not left.exists()
    assert (copy / "runs.parquet").read_bytes() == before


def test_the_commands(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(SMALL.replace("[1, 2]", "[1]"))
    out = str(tmp_path / "out")
    assert exit_code("campaign", "run", str(tmp_path / "mine.toml"), "-o", out, "-j", "2") == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[3:11]] == [
        "small,", "easy", "follow-plan", "workload-reactive",
        "small,", "easy", "follow-plan", "workload-reactive",
    ]  # fmt: skip
    runs = read_campaign(out).runs
    for line, finished, wasted in zip(
        [*lines[4:7], *lines[8:11]], runs["finished_pct"], runs["wasted_kwh"], strict=True
    ):
        cells = line.split()
        assert (cells[1], float(cells[2]), float(cells[6])) == (
            "1", pytest.approx(finished, abs=0.00501), pytest.approx(wasted, abs=0.00501)
        )  # fmt: skip
    assert "\x1b" not in said.err + said.out  # no bar, no colours: this is no terminal
    assert f"6 runs; wrote {Path(out) / 'runs.parquet'}" in said.err
    assert exit_code("campaign", "status", out) == 0
    assert "6 of 6 runs are finished\n  small: 6 of 6\nthe table is" in capsys.readouterr().out
    assert exit_code("campaign", "resume", out) == 0
    assert "all runs were already finished" in capsys.readouterr().err


@pytest.mark.slow
def test_a_full_disk_stops_the_campaign_which_can_go_on(tmp_path, capsys):
    resource = pytest.importorskip("resource")
    begin([scenario()], tmp_path / "out")
    run_campaign(tmp_path / "other", scenario())  # begins the server of processes, which keeps its limits
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))  # EFBIG, as a quota would
    try:
        code = exit_code("campaign", "resume", str(tmp_path / "out"), "-j", "1", "-q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = capsys.readouterr().err
    assert code == 1
    assert "out of resources" in said
    assert "To continue: beasy-sched campaign resume" in said
    assert run_campaign(tmp_path / "out").failed == 0


@pytest.mark.slow
def test_a_policy_that_hangs_is_a_row_not_the_end_of_the_campaign(tmp_path, capsys):
    begin([bad("hangs", "Hangs")], tmp_path)
    assert exit_code("campaign", "resume", str(tmp_path), "-j", "4", "-q", "--time-limit", "8s", *ALLOW) == 1
    runs = read_campaign(tmp_path).runs
    failed = runs[runs["status"] == "failed"]
    assert list(failed["policy"]) == ["hangs"] * 2
    assert set(failed["error"]) == {"it exceeded the time limit of 8 s and was stopped"}
    assert len(runs) == 6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--time-limit", "soon"), "'soon' is not a duration"),
        (("--time-limit", "0"), "expected more than 0 s"),
        (
            ("--time-limit", "1h", "--executor", "dask", "--scheduler", "tcp://127.0.0.1:1"),
            "--time-limit requires --executor processes",
        ),
    ],
)
def test_wrong_time_limits(tmp_path, capsys, arguments, told):
    assert exit_code("campaign", "resume", str(tmp_path), *arguments) == 2
    assert told in capsys.readouterr().err


def test_a_failed_run_is_in_the_exit_code(tmp_path, capsys):
    begin([bad("raises", "Raises")], tmp_path)
    assert exit_code("campaign", "resume", str(tmp_path), "-j", "2", "-q", *ALLOW) == 1
    assert "2 of 6 runs failed; for the reasons: beasy-sched campaign status" in capsys.readouterr().err
    assert (tmp_path / "runs.parquet").exists()


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["plan", "workload"])
def test_an_input_that_a_power_cut_emptied_is_made_again(copy, kind):
    emptied = next((copy / "inputs").glob(f"{kind}-*"))
    whole, table = emptied.read_bytes(), (copy / "runs.parquet").read_bytes()
    emptied.write_bytes(b"")
    for row in (copy / "rows").iterdir():
        row.unlink()
    assert run_campaign(copy, keep="trace").failed == 0
    assert emptied.read_bytes() == whole
    assert (copy / "runs.parquet").read_bytes() == table


def test_status_of_a_campaign_under_way(tmp_path, capsys):
    run_campaign(tmp_path, bad("raises", "Raises"))
    (tmp_path / "rows" / "small.t0.s1.kill-all.follow-plan.json").unlink()
    (tmp_path / "runs.parquet").unlink()
    assert exit_code("campaign", "status", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "5 of 6 runs are finished\n  small: 5 of 6, 2 failed\n" in said
    assert "failed: small.t0.s1.kill-all.raises: policy" in said
    assert "beasy-sched campaign resume" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "-o", "x"], "'nothing' is neither a file nor a scenario"),
        (["no.toml", "-o", "x"], "no.toml: cannot be read"),
        (["average"], "Missing option '-o'"),
        (["average", "-o", "x", "--executor", "dask"], "needs --scheduler"),
        (
            ["average", "-o", "x", "--executor", "dask", "--scheduler", "y"],
            "expected an address such as tcp://host:8786",
        ),
        (["average", "-o", "x", "--scheduler", "y"], "requires --executor dask"),
    ],
)
def test_wrong_commands_are_explained(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code("campaign", "run", *arguments) == 2
    assert message in capsys.readouterr().err


def test_quick(tmp_path):
    outcome = run_campaign(
        tmp_path, msgspec.structs.replace(scenario(), site={**scenario().site, "time": {}}), small=True
    )
    assert (outcome.runs, outcome.failed) == (6, 0)
    runs = read_campaign(tmp_path).runs
    assert (runs.jobs_submitted == 10).all()
    assert (runs.end_s < 86_401).all()
