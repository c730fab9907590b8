"""The same campaign on a Dask cluster."""

from __future__ import annotations

import pytest
from command_line import exit_code
from small_campaign import BAD, SMALL, run_campaign, scenario

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.plugins.campaigns import campaign, dask_cluster
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.plugins.campaigns.dask_cluster import DaskCluster
from beasy_sched.plugins.campaigns.workers import Failure

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=None
    ) as cluster:
        yield cluster


@pytest.mark.slow
def test_two_workers_come_to_the_same_bytes(cluster, tmp_path):
    run_campaign(tmp_path / "here")
    (tmp_path / "small.toml").write_text(SMALL)
    arguments = ["run", str(tmp_path / "small.toml"), "-o", str(tmp_path / "there"), "-q"]
    arguments += ["--executor", "dask", "--scheduler", cluster.scheduler_address]
    assert exit_code("campaign", *arguments) == 0
    tables = [(tmp_path / place / "runs.parquet").read_bytes() for place in ("here", "there")]
    assert tables[0] == tables[1]


@pytest.mark.slow
def test_policies_are_compared_on_a_cluster(cluster, tmp_path, capfd):
    (tmp_path / "small.toml").write_text(SMALL)
    command = ["compare", str(tmp_path / "small.toml"), "--policy", "easy", "--policy", "fcfs", "--markdown"]
    there = ["--executor", "dask", "--scheduler", cluster.scheduler_address]
    assert exit_code(*command, "-o", str(tmp_path / "here")) == 0
    here = capfd.readouterr().out
    assert "Differences from easy" in here
    assert exit_code(*command, "-o", str(tmp_path / "there"), *there) == 0
    assert capfd.readouterr().out == here


@pytest.fixture(scope="module")
def cluster_of_threads():
    """One in this process: it starts at once."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        yield cluster


def wrong(name):
    raise InputError(name, "is wrong", line=3)


def test_a_task_that_raises_is_a_failure(cluster_of_threads):
    executor = DaskCluster(cluster_of_threads.scheduler_address)
    try:
        executor.submit("good", abs, -1)
        assert executor.next_done() == ("good", 1)
        executor.submit("bad", wrong, "a.txt")
        assert executor.next_done() == ("bad", Failure("a.txt:3: is wrong"))
    finally:
        executor.close()


def test_runs_that_raise_are_rows(cluster_of_threads, tmp_path):
    policy = ('"easy"', '{ name = "bad_policies:Raises", label = "raises" }')
    begin([scenario(policy, ("[1, 2]", "[1]"))], tmp_path)
    outcome = go_on(tmp_path, DaskCluster(cluster_of_threads.scheduler_address), allowed=BAD)
    assert (outcome.executed, outcome.failed) == (6, 2)
    failed = read_campaign(tmp_path).runs.query("status == 'failed'")
    assert set(failed.policy) == {"raises"}
    assert failed.error.str.contains("an hour is enough").all()


@pytest.mark.slow
def test_workers_of_another_version_are_told_from_ours(cluster, tmp_path, monkeypatch):
    begin([scenario(("[1, 2]", "[1]"))], tmp_path)
    ours = read_campaign(tmp_path).manifest.version
    monkeypatch.setattr(campaign, "__version__", "9.9")
    outcome = go_on(tmp_path, DaskCluster(cluster.scheduler_address))
    assert outcome.failed == outcome.runs == 6
    assert set(read_campaign(tmp_path).runs.error) == {f"a worker with beasy-sched {ours} executed it"}


@pytest.mark.slow
def test_no_cluster_is_explained(monkeypatch):
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 1)
    with pytest.raises(ConfigError, match=r"no Dask scheduler responds at tcp://127\.0\.0\.1:1"):
        DaskCluster("tcp://127.0.0.1:1")
