"""Plans, reports, explanations, campaigns and policies from Python, with the errors of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_campaign import SMALL

import beasy_sched as bs
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.planner.plan import PlanStore
from beasy_sched.policies import Policy, Start


class InTurn(Policy):
    """The first that fits."""

    name = "in-turn"
    summary = "in turn"

    def schedule(self, view):
        free, actions = view.free_mask(), []
        for job in view.queue:
            hosts = view.fastest(free, job.res)
            if len(hosts) == job.res and (view.budget is None or view.budget.grant_start(hosts.ids)):
                free[hosts.ids] = False
                actions.append(Start(job, hosts, "it fits"))
        return actions


@pytest.mark.slow
def test_a_plan_is_followed(days, plan: PlanStore) -> None:
    run = bs.simulate(*days[1:], policy="beasy", site="default", plan=plan)
    assert run.summary["planned"]["steps"] == 864
    assert run.summary["planned"]["soc_final_pct"] == pytest.approx(float(plan[0].soc_pct[-1]))


@pytest.mark.slow
def test_a_plan_is_that_of_the_command(days, plan: PlanStore, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from beasy_sched.cli import cli

    path = tmp_path / "plan.msgpack"
    arguments = ["plan", "-p", days.platform, "-w", days.workload, "--production", days.power, "-o", path]
    done = CliRunner().invoke(cli, [*map(str, arguments), "-q"])
    assert done.exit_code == 0, done.output
    own = tmp_path / "own.msgpack"
    bs.plan(days.platform, [days.workload], production=days.power, path=own)
    assert own.read_bytes() == path.read_bytes()
    assert len(read_plans(own)) == len(plan) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "the demand must have one source: give either workload or demand"),
        ({"workload": "w.json", "demand": "d.csv"}, "the demand must have one source"),
        ({"workload": "w.json"}, "give either production or production_forecast"),
        (
            {"workload": "w.json", "production": "p", "surplus": "all"},
            "surplus: found 'all', expected one of",
        ),
        ({"workload": "w.json", "production": "p", "runs": "long"}, "runs: found 'long'"),
        ({"workload": "w.json", "production": "p", "windows": 0}, "windows: found 0"),
    ],
)
def test_plans_name_what_is_wrong(days, given, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        bs.plan(days.platform, **given)


@pytest.mark.slow
def test_a_plan_warns_of_a_demand_beyond_the_servers(days, tmp_path: Path) -> None:
    demand = tmp_path / "demand.csv"
    demand.write_text("power_kw\n" + "50\n" * 864)
    with pytest.warns(UserWarning, match="the demand reaches 50 kW, but the servers draw at most"):
        bs.plan(days.platform, demand=demand, production=days.power)


def test_a_plan_without_its_files_is_an_input_error(days, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.json"):
        bs.plan(days.platform, tmp_path / "nothing.json", production=days.power)


def test_a_class_of_ones_own_is_a_policy(days) -> None:
    run = bs.simulate(*days[1:], policy=InTurn, site="default")
    assert run.summary["settings"]["policy"] == f"{__name__}:InTurn"
    assert "it fits" in set(run.decisions["rule"])

    class Inner(InTurn):
        pass

    with pytest.raises(ConfigError, match="expected a class defined at module level"):
        bs.simulate(*days[1:], policy=Inner)
    with pytest.raises(ConfigError, match="expected a name or a class"):
        bs.simulate(*days[1:], policy=InTurn())  # type: ignore[arg-type]


def test_power_tells_the_suns_part(tmp_path: Path) -> None:
    for name, sizes in (
        ("sun", {"pv_kw": 2}),
        ("both", {"pv_kw": 2, "wind_kw": 1}),
        ("wind", {"wind_kw": 1}),
    ):
        path = bs.generate_power(tmp_path / name, days=1, seed=1, **sizes)
        events = [json.loads(line) for line in path.read_text().splitlines()]
        sun_w, power_w = (sum(event[k] for event in events) for k in ("sun_available", "power_available"))
        assert (sun_w > 0.0, sun_w < power_w) == (name != "wind", name != "sun")


def test_progress_is_told(days) -> None:
    shares: list[float] = []
    bs.simulate(*days[1:], site="default", progress=shares.append)
    assert shares
    assert shares == sorted(shares)
    assert shares[-1] <= 1.0


@pytest.mark.slow
def test_a_report_is_a_file(run: bs.Run, fcfs: bs.Run, plan: PlanStore, tmp_path: Path) -> None:
    page = bs.report([run, fcfs.prefix], tmp_path / "both.html", plan=plan, title="Two of them")
    assert page == tmp_path / "both.html"
    text = page.read_text("utf-8")
    assert "Two of them" in text
    assert text.endswith("</html>\n")
    with pytest.raises(ConfigError, match="expected at least one"):
        bs.report([], tmp_path / "none.html")
    with pytest.raises(InputError):
        bs.report(tmp_path / "nothing", tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_an_explanation_is_text_and_data(run: bs.Run) -> None:
    story = bs.explain(run, job=17)
    assert repr(story) == str(story)
    assert str(story).startswith("Job w0!17\n")
    assert max(map(len, str(story).splitlines())) <= 110
    assert str(bs.explain(run.prefix, job="w0!17")) == str(story)
    assert bs.explain(run, at="1d6h").data == bs.explain(run, at=30 * 3600.0).data
    with pytest.raises(ConfigError, match="at: "):
        bs.explain(run, at="noon")
    with pytest.raises(ConfigError, match="this run has no such job"):
        bs.explain(run, job="never")
    assert str(bs.explain(run)).startswith("Run ")
    assert bs.explain(run, longest_waits=2).data != bs.explain(run, killed=True).data
    with pytest.raises(ConfigError, match="give only one of job, at"):
        bs.explain(run, job=17, killed=True)
    with pytest.raises(ConfigError, match="longest_waits: found 0"):
        bs.explain(run, longest_waits=0)
    with pytest.raises(InputError, match="nothing"):
        bs.explain("nothing", job=1)


@pytest.mark.slow
def test_a_campaign_is_a_table(tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(SMALL)
    told: list[tuple[int, int]] = []
    table = bs.campaign(
        scenario, tmp_path / "out", jobs=1, progress=lambda done, total: told.append((done, total))
    )
    assert (table["status"] == "ok").all()
    assert told[-1] == (len(table), len(table))
    again = bs.campaign([scenario], tmp_path / "out")
    assert again.equals(table)
    page = bs.report(tmp_path / "out", tmp_path / "campaign.html")
    assert page.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scenarios": []}, "scenarios: found none"),
        ({"scenarios": "best-begin", "keep": "all"}, "keep: found 'all'"),
        ({"scenarios": "best-begin", "jobs": 0}, "jobs: found 0"),
    ],
)
def test_campaigns_name_what_is_wrong(given, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told):
        bs.campaign(folder=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_options_of_the_other_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cores_per_host, start_s: only for traces: give swf"):
        bs.generate_workload(tmp_path / "w.json", start_s=0.0, cores_per_host=4)
    with pytest.raises(ConfigError, match="jobs: only for synthetic workloads"):
        bs.generate_workload(tmp_path / "w.json", swf="trace.swf", jobs=5)
    with pytest.raises(ConfigError, match="walltimes: found 'groups', expected one of True, False"):
        bs.generate_workload(tmp_path / "w.json", walltimes="groups")
    with pytest.raises(ConfigError, match="chains: found 'all', expected one of none, keep, wait"):
        bs.generate_workload(tmp_path / "w.json", swf="trace.swf", chains="all")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cloudiness: only for synthetic weather"):
        bs.generate_power(tmp_path / "p.txt", pv="pv.csv", pv_kw=1, cloudiness=0.5)
    assert not [*tmp_path.iterdir()]


def test_a_trace_becomes_a_workload(tmp_path: Path) -> None:
    rows = [f"{n} {n * 900} 5 {300 + n} 32 -1 -1 32 900 -1 {n % 2} 1 1 1 -1 1 -1 -1" for n in range(1, 50)]
    (tmp_path / "trace.swf").write_text("; MaxProcs: 800\n" + "\n".join(rows) + "\n")
    made = bs.generate_workload(
        tmp_path / "w.json",
        swf=tmp_path / "trace.swf",
        cores_per_host=16,
        keep={"status": [1]},
        walltimes="none",
    )
    text = made.read_text("utf-8")
    assert text.count('"res":2') == 25
    assert "walltime" not in text
