"""The rules of Section IV on cases worked out with a pencil: 50 W idle, 100 W computing a host."""

from __future__ import annotations

import pytest
from plugins.energy_budget.budget_runs import run_budget, world_of

from beasy_sched.model.decisions import QueryEnergy, SetResourceState


def watts(rate_w: float, until: float = 1000.0, **more: object) -> dict[str, object]:
    """A budget that makes so much power available."""
    return {
        "budget": f"{rate_w * until} J",
        "period_end": until,
        "monitoring": 100,
        "reservation": "strict",
        **more,
    }


def test_figure_1_saved_energy_runs_a_job_above_the_power_limit() -> None:
    """Job 0 saves 50 W for 200 s; job 1 takes 100 W more than there is for 100 s."""
    jobs = (0.0, 1, 200.0, 200.0), (10.0, 4, 100.0, 100.0)
    assert run_budget(world_of(4, *jobs), "energybud", **watts(300)).starts == {"0": 0.0, "1": 200.0}


def test_one_second_longer_and_it_waits_for_the_energy() -> None:
    """1 s more needs 100 J more, which 4 idle hosts save in 1 s."""
    jobs = (0.0, 1, 200.0, 200.0), (10.0, 4, 101.0, 100.0)
    starts = run_budget(world_of(4, *jobs), "energybud", **watts(300)).starts
    assert starts["1"] == pytest.approx(201.0, abs=0.11)


def test_the_walltime_counts_not_the_run_time() -> None:
    jobs = (0.0, 1, 200.0, 200.0), (10.0, 4, 150.0, 1.0)
    starts = run_budget(world_of(4, *jobs), "energybud", **watts(300)).starts
    assert starts["1"] == pytest.approx(250.0, abs=0.11)


def test_what_other_running_jobs_will_draw_counts() -> None:
    """A short job on its own could be paid for, but the long one would then run into debt."""
    jobs = (0.0, 2, 400.0, 400.0), (100.0, 2, 100.0, 100.0)
    done = run_budget(world_of(4, *jobs), "energybud", **watts(310))
    # Job 0 leaves 10 W; both together lack 90 W, for the 40 s until job 0 ends: 3600 J, saved by 360.
    assert done.starts["1"] == pytest.approx(360.0, abs=0.11)


def test_the_first_job_is_not_robbed() -> None:
    """Job 1 waits for energy; job 2 would fit, and delay it."""
    jobs = (0.0, 1, 200.0, 200.0), (10.0, 4, 120.0, 100.0), (20.0, 1, 30.0, 30.0)
    starts = run_budget(world_of(4, *jobs), "energybud", **watts(300)).starts
    assert starts["1"] == pytest.approx(220.0, abs=0.11)
    assert starts["2"] > starts["1"]


def test_without_a_reservation_it_is_robbed() -> None:
    """Job 1 lacks 2 kJ at 200; job 2 takes another 1.5 kJ."""
    jobs = (0.0, 1, 200.0, 200.0), (10.0, 4, 120.0, 100.0), (20.0, 1, 30.0, 30.0)
    options = watts(300, reservation="none")
    starts = run_budget(world_of(4, *jobs), "energybud", **options).starts
    assert starts["2"] == 20.0
    assert starts["1"] == pytest.approx(235.0, abs=0.11)


def test_a_job_overtakes_where_energy_is_left() -> None:
    jobs = (0.0, 1, 200.0, 200.0), (10.0, 4, 50.0, 50.0), (20.0, 1, 30.0, 30.0)
    assert run_budget(world_of(4, *jobs), "energybud", **watts(300)).starts == {"0": 0, "2": 20, "1": 200}


DIFFERENCE = (20.0, 2, 100.0, 100.0), (20.0, 1, 200.0, 200.0), (21.0, 4, 100.0, 100.0), (22.0, 1, 50.0, 50.0)
"""Until 120 all that comes is used, then 100 W are saved for the third job, which needs 5 kJ at 220."""


def test_a_short_job_may_use_what_will_be_saved_again() -> None:
    assert run_budget(world_of(4, *DIFFERENCE), "energybud", **watts(350)).starts["3"] == 22.0


def test_reducepc_saves_evenly() -> None:
    done = run_budget(world_of(4, *DIFFERENCE), "reducepc", **watts(350))
    assert done.starts == {"0": 20.0, "1": 20.0, "2": 220.0, "3": 120.0}


@pytest.mark.parametrize("policy", ["energybud", "reducepc"])
def test_no_job_that_reaches_into_the_period_starts_at_its_cost(policy: str) -> None:
    """The second would still run when the period begins, and nothing has been saved by then."""
    jobs = (0.0, 4, 50.0, 50.0), (60.0, 4, 50.0, 50.0)
    options = {"budget": "30 kJ", "period_start": 100, "period_end": 200, "monitoring": 10}
    starts = run_budget(world_of(4, *jobs), policy, **options).starts
    assert starts["0"] == 0.0
    assert starts["1"] > 100.0


def test_powercap_keeps_below_the_limit_whatever_was_saved() -> None:
    jobs = (500.0, 1, 100.0, 100.0), (500.0, 1, 60.0, 60.0), (500.0, 1, 10.0, 10.0)
    done = run_budget(world_of(4, *jobs), "powercap", **watts(300))
    assert done.starts == {"0": 500.0, "1": 500.0, "2": 560.0}


def test_powercap_wide_jobs_wait_for_the_end_of_the_period() -> None:
    jobs = (0.0, 4, 100.0, 100.0), (10.0, 1, 2000.0, 20.0)
    done = run_budget(world_of(4, *jobs), "powercap", **watts(300))
    assert done.starts["0"] == 1000.0
    assert done.starts["1"] > 1000.0  # it would have delayed the first


@pytest.mark.parametrize("policy", ["energybud", "reducepc", "powercap"])
def test_a_tiny_budget_starts_jobs_in_order(policy: str) -> None:
    """Little more than the idle hosts' power: jobs start one by one, as the energy comes."""
    limit_w = 300 if policy == "powercap" else 170
    jobs = [(float(i), 1 + (i + 1) % 3, 10.0, 10.0) for i in range(8)]
    starts = run_budget(world_of(3, *jobs), policy, **watts(limit_w, 10_000.0)).starts
    order = sorted(starts, key=lambda job: starts[job])
    assert order == [str(i) for i in range(8)]


def test_overestimates_are_made_up_for_at_every_stage() -> None:
    """Idle hosts draw 50 W each, reckoned as 70: with 300 W there, 20 W are saved a second, truly 100 W."""
    jobs = [(10.0, 4, 70.0, 70.0)]
    done = run_budget(world_of(4, *jobs), "energybud", **watts(300, idle_w=70, computing_w=100))
    assert done.starts["0"] == pytest.approx(100.0, abs=0.11)  # at the first stage: 10 kJ for 7 kJ


def test_stages_come_every_monitoring_period_and_at_the_ends() -> None:
    world = world_of(2, (0.0, 1, 10.0, 10.0))
    options = {"budget": 0.9, "period_start": 50, "period_end": 325, "monitoring": 100}
    done = run_budget(world, "energybud", **options)
    assert [x.timestamp for x in done.decisions if isinstance(x, QueryEnergy)] == [50, 150, 250, 325]
    assert done.budget["used_j"] == pytest.approx(100 * 275)
    assert done.budget["measured_to_the_end"]


def test_idle_hosts_above_the_budget_are_reported() -> None:
    done = run_budget(world_of(2, (0.0, 1, 10.0, 10.0)), "energybud", budget=0.3, period_end=100)
    assert done.starts == {"0": 100.0}
    assert done.budget["budget_j"] == pytest.approx(0.3 * 200 * 100)
    assert done.budget["excess_j"] == pytest.approx(100 * 100 - 6000)
    assert done.budget["largest_debt_j"] == pytest.approx(4000)


@pytest.mark.parametrize("policy", ["energybud", "reducepc", "powercap"])
@pytest.mark.parametrize("allocation", ["any", "contiguous"])
def test_jobs_that_overtake_together_leave_the_first_one_its_hosts(policy: str, allocation: str) -> None:
    """At 99 s the first waiting job gets three of four hosts: one long job may overtake it, not two."""
    long = (2.0, 1, 1000.0, 1000.0)
    jobs = (0.0, 2, 99.0, 99.0), (1.0, 3, 50.0, 50.0), long, long
    options = watts(1000, 5000.0, allocation=allocation)
    starts = run_budget(world_of(4, *jobs), policy, **options).starts
    assert starts == {"0": 0.0, "1": 99.0, "2": 2.0, "3": 149.0}


def test_consecutive_hosts() -> None:
    """Hosts 0, 2 and 3 are free: two in a row are 2 and 3; three never are before job 1 ends."""
    jobs = (0.0, 1, 10.0, 10.0), (0.0, 1, 100.0, 100.0), (20.0, 2, 30.0, 30.0), (21.0, 3, 9.0, 9.0)
    done = run_budget(world_of(4, *jobs), "energybud", allocation="contiguous")
    assert done.where == {"0": "0", "1": "1", "2": "2-3", "3": "0-2"}
    assert done.starts["3"] == 100.0


# --- shutdown: 7 s off at 60 W, 20 s on at 80 W, 5 W asleep ---


def test_idle_hosts_are_switched_off_and_woken_for_a_job() -> None:
    done = run_budget(
        world_of(2, (100.0, 1, 50.0, 50.0)), "energybud", **watts(1000, 300.0, shutdown="opportunistic")
    )
    assert done.starts == {"0": 120.0}
    switched = [
        (x.timestamp, str(x.resources), x.state) for x in done.decisions if isinstance(x, SetResourceState)
    ]
    assert switched == [(0, "0-1", 2), (100, "0", 0), (170, "0", 2)]
    other_j = 7 * 60 + 293 * 5
    host_j = 7 * 60 + 93 * 5 + 20 * 80 + 50 * 100 + 7 * 60 + 123 * 5
    assert done.budget["used_j"] == pytest.approx(other_j + host_j)


def test_hosts_wake_in_time_for_the_reservation() -> None:
    """The hosts are switched off at 0, in the message before the first job's."""
    jobs = (0.0, 1, 100.0, 100.0), (10.0, 2, 50.0, 50.0)
    done = run_budget(world_of(2, *jobs), "energybud", **watts(1000, shutdown="opportunistic"))
    assert done.starts == {"0": 27.0, "1": 127.0}
    assert (107.0, "1", 0) in [
        (x.timestamp, str(x.resources), x.state) for x in done.decisions if isinstance(x, SetResourceState)
    ]


def test_hosts_that_are_off_stay_so_while_a_job_runs() -> None:
    """4 hosts, 60 W: off they save 40 W after 7 s at 240 W; the job lacks 55 W for 120 s."""
    done = run_budget(
        world_of(4, (0.0, 1, 100.0, 100.0)), "energybud", **watts(60, 2000.0, shutdown="opportunistic")
    )
    claimed_s = 7 + (7 * (240 - 60) + 55 * 120 + 7 * (60 - 5)) / 40
    assert done.starts["0"] == pytest.approx(claimed_s + 20, abs=0.2)


def test_an_idle_host_is_kept_on_for_a_reservation_that_is_near() -> None:
    """Host 1 comes free 5 s before both are needed; off and on again would take 27 s."""
    jobs = (0.0, 1, 100.0, 100.0), (0.0, 1, 95.0, 95.0), (10.0, 2, 50.0, 50.0)
    done = run_budget(world_of(2, *jobs), "energybud", **watts(1000, shutdown="opportunistic"))
    assert done.starts == {"0": 27.0, "1": 27.0, "2": 127.0}


def test_a_budget_below_idle_power_is_kept_by_switching_off() -> None:
    """2 hosts idle draw 100 W, 60 W are there: off, they save for the job."""
    job = (0.0, 2, 100.0, 100.0)
    done = run_budget(world_of(2, job), "energybud", **watts(60, 2000.0, shutdown="opportunistic"))
    assert 200.0 < done.starts["0"] < 600.0
    assert done.budget["excess_j"] == 0.0


def test_nothing_is_switched_off_outside_the_period() -> None:
    options = {"budget": "inf", "period_start": 100, "period_end": 200, "shutdown": "opportunistic"}
    done = run_budget(world_of(1, (250.0, 1, 10.0, 10.0)), "energybud", **options)
    assert [x.timestamp for x in done.decisions if isinstance(x, SetResourceState)] == [100, 250]
    assert done.starts == {"0": 270.0}


def test_beside_a_site_sleeping_hosts_wake_for_waiting_jobs() -> None:
    """The guard put them to sleep while there was no power; later there is."""
    from worlds import run

    world = world_of(2, (0.0, 2, 30.0, 30.0)).but(production_w=(0.0, 400.0, 400.0, 400.0), soc_start_pct=20.0)
    done = run(world, "energybud")
    assert done.session.outcomes.counts()["finished"] == 1
    assert done.session.commander.switches >= 4
