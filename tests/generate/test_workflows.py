"""The three workloads of GreenSlot's paper, against what it prints."""

import numpy as np
import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.generate.greenslot_week import NODES, WEEK_S, spread, workflow_workload
from beasy_sched.generate.workflow_options import WorkflowOptions

HOUR = 3600.0


def workload(**options):
    return workflow_workload(WorkflowOptions(**options))


def of(made, name):
    return np.array([value == name for value in made.extras["workflow"]])


def test_the_weeks_jobs_and_their_load():
    made = workload()
    assert (made.size, made.nb_res, made.window_s) == (352, 16, 104 * HOUR)
    assert made.run_s.sum() / HOUR == pytest.approx(778.7, abs=0.05)
    assert made.load == pytest.approx(0.468, abs=0.0005)
    assert np.allclose(made.walltime_s, 1.2 * made.run_s)
    assert len(set(made.extras["workflow"])) == 8 + 12 + 8


@pytest.mark.parametrize(("copies", "load_pct"), [(4, 66.7), (5, 71.6), (8, 86.5), (9, 91.5)])
def test_further_copies_of_w3(copies, load_pct):
    assert 100 * workload(copies=copies).load == pytest.approx(load_pct, abs=0.05)


def test_submissions_and_deadlines():
    made = workload()
    first, last = of(made, "W1.1"), of(made, "W2.12")
    assert set(made.submit_s[first]) == {1800.0}
    assert set(made.submit_s[last]) == {1800.0 + 11 * 1800.0}
    due = np.array(made.extras["deadline_s"])
    assert set(due[first]) == {24 * HOUR}  # Tuesday 9:00
    assert set(due[last]) == {4 * 24 * HOUR + 7 * HOUR}  # Friday 16:00
    assert set(due[of(made, "W3.2")]) == {24 * HOUR + 5 * HOUR}  # Tuesday 14:00
    assert due.max() <= WEEK_S


def test_phases_of_a_workflow():
    made = workload()
    one = of(made, "W1.3")
    phases = np.array(made.extras["phase"])[one]
    assert np.bincount(phases).tolist() == [1, 1, 16, 1]
    long_s = made.run_s[one][phases == 2]
    assert (long_s.min(), long_s.mean(), long_s.max()) == pytest.approx((0.1 * HOUR, 2.4 * HOUR, 9 * HOUR))


def test_a_staggered_week_submits_each_morning():
    made = workload(staggered=True)
    mornings = sorted(set(made.submit_s))
    assert mornings == [day * 24 * HOUR + 1800.0 + place * 1800.0 for day in range(4) for place in range(3)]
    due = np.array(made.extras["deadline_s"])
    assert np.all(due - made.submit_s > 0)
    assert np.all(np.floor((due + 9 * HOUR) / 86_400) == np.floor((made.submit_s + 9 * HOUR) / 86_400) + 1)


def test_multi_node_jobs():
    made = workload(multi_node=True)
    wide = made.hosts == 8
    assert wide.sum() == 8
    assert set(made.run_s[wide]) == {2.27 * HOUR}
    assert made.hosts.max() <= NODES


@pytest.mark.parametrize("errors", [(-20, 20), (0, 20), (-20, 0), (-40, 0)])
def test_errors_of_estimates(errors):
    made, again, other = (workload(estimate_error_pct=errors, seed=seed) for seed in (1, 1, 2))
    estimate_s = np.array(made.extras["estimate_s"])
    deviation = 100 * (made.run_s / estimate_s - 1)
    assert deviation.min() >= errors[0] - 1e-9
    assert deviation.max() <= errors[1] + 1e-9
    assert deviation.mean() == pytest.approx(sum(errors) / 2, abs=1.0)
    assert np.allclose(made.walltime_s, 1.2 * estimate_s)
    assert np.array_equal(made.run_s, again.run_s)
    assert not np.array_equal(made.run_s, other.run_s)


def test_deadlines_may_be_moved():
    moved = np.array(workload(deadline_shift_h=-6).extras["deadline_s"])
    assert np.allclose(moved, np.array(workload().extras["deadline_s"]) - 6 * HOUR)


def test_values_with_a_given_mean():
    values = spread(16, 0.1, 2.4, 9.0)
    assert values == tuple(sorted(values))
    assert np.mean(values) == pytest.approx(2.4)
    with pytest.raises(ConfigError, match="no 16 values from 1 to 2 have the mean 3"):
        spread(16, 1.0, 3.0, 2.0)


@pytest.mark.parametrize(
    "options", [{"copies": -1}, {"estimate_error_pct": (10, -10)}, {"estimate_error_pct": (-100, 0)}]
)
def test_options_that_make_no_workload(options):
    with pytest.raises(ConfigError, match="expected"):
        WorkflowOptions(**options)
