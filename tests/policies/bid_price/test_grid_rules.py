"""The battery ahead with a grid's rules: the levels are those of the balance, step by step."""

import math

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from beasy_sched.energy.balance import settle_step
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.grid_charging import GridUse
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.policies.bid_price.battery import Backup, BatteryAhead
from beasy_sched.policies.bid_price.horizon import Cells

STEP_S = 900.0
BATTERY = BatterySpec(
    3.6e6, charge_limit_w=800.0, discharge_limit_w=900.0, self_discharge_per_day=0.05, soc_start_pct=40.0
)

uses = st.tuples(st.sampled_from([0.0, 300.0, math.inf]), st.sampled_from([0.0, 300.0, math.inf]))


@example([((0.0, 0.0), -759.0), ((0.0, 300.0), -1.0)], 400.0, 30.0)  # charged in a deficit, at SoC_min
@given(
    st.lists(st.tuples(uses, st.floats(-2500, 2500)), min_size=2, max_size=24),
    st.sampled_from([0.0, 400.0, 1500.0, math.inf]),
    st.sampled_from([30.0, 80.0, 90.0]),
)
def test_levels_are_those_of_the_balance(drawn: list, limit_w: float, up_to_pct: float) -> None:
    rules = [GridUse(min(a, limit_w), min(b, limit_w), up_to_pct) for (a, b), _ in drawn]
    net_w, count, grid = np.array([net for _, net in drawn]), len(drawn), Grid(limit_w)
    cells, nothing = Cells(count, STEP_S), np.zeros(count)
    backup = Backup(nothing, nothing, np.full(count, limit_w), rules)
    levels_j, spare_j = BatteryAhead(BATTERY, BATTERY.start_j, cells, backup)._with_backup(net_w, backup)
    state = StorageState(BATTERY.start_j)
    for step, (use, net) in enumerate(zip(rules, net_w.tolist(), strict=True)):
        record, state = settle_step(
            Storage(BATTERY),
            state,
            dt_s=STEP_S,
            consumed_j=max(-net, 0.0) * STEP_S,
            renew_w=max(net, 0.0),
            grid=grid,
            use=use,
        )
        assert levels_j[step + 1] == np.float64(state.battery_j) or math.isclose(
            levels_j[step + 1], state.battery_j, rel_tol=1e-9, abs_tol=1e-3
        )
        missing_j = record.unserved_w * STEP_S
        assert (spare_j[step] < -1e-3) == (missing_j > 1e-3)


def test_a_cheap_night_ahead_leaves_more_energy_for_jobs() -> None:
    cells, nothing, net_w = Cells(8, STEP_S), np.zeros(8), np.array([0.0] * 4 + [-900.0] * 4)
    limit_w, night = np.full(8, 500.0), [GridUse(500.0, 500.0, 90.0)] * 4 + [GridUse(500.0)] * 4

    def left_j(rules: list[GridUse] | None) -> float:
        backup = Backup(nothing, nothing, limit_w, rules)
        return BatteryAhead(BATTERY, BATTERY.min_j, cells, backup).slack(net_w).slack_j

    assert left_j(night) > 0.0 > left_j(None)
