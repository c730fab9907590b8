"""Columns of quantiles or members: their names, units and checks."""

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.quantile_columns import check_values, is_spread, read_quantiles, read_spread
from beasy_sched.formats.table import parse_table


@pytest.mark.parametrize(
    ("name", "spread"),
    [
        *[
            (name, True)
            for name in (
                "p10",
                "P2.5",
                "p10_kw",
                "p10 [kW]",
                "m1",
                "member 3",
                "m12 (MW)",
                "p10 (kWh)",
                "m1_kva",
            )
        ],
        *[(name, False) for name in ("p", "power", "p10%", "pv_kw", "kW", "m1_pv", "time", "")],
    ],
)
def test_names(name, spread):
    assert is_spread(name) is spread


def test_quantiles_are_those_of_the_powers_of_their_columns():
    table = parse_table("f.csv", "p90,p10_w,p50_mw\n3,500,0.002\n", lambda cells: True)
    checked = {}
    watts = {"p90": 1e3, "p10_w": 1.0, "p50_mw": 1e6}
    powers_w = lambda name: table.numbers(name) * watts[name]  # noqa: E731
    found = read_quantiles(table, table.names, powers_w, checked.__setitem__)
    assert found.levels.tolist() == [0.1, 0.5, 0.9]
    assert found.power_w.tolist() == [[500.0], [2000.0], [3000.0]]
    assert {name: powers.tolist() for name, powers in checked.items()} == {
        "p90": [3000.0],
        "p10_w": [500.0],
        "p50_mw": [2000.0],
    }


def test_values_that_are_missing_or_negative():
    table = parse_table("f.csv", "m1,m2\n1,2\n,-3\n", lambda cells: cells[0] == "m1")
    check_values(table, "m1", np.array([0.0, 1.0]))
    with pytest.raises(InputError, match=r"f\.csv:3: m1: the value is missing"):
        check_values(table, "m1", table.numbers("m1"))
    with pytest.raises(InputError, match=r"f\.csv:3: m2: must not be negative"):
        check_values(table, "m2", table.numbers("m2"))


def test_members_stay_as_they_are():
    table = parse_table("f.csv", "m1,m2\n3,1\n4,9\n", lambda cells: True)
    quantiles, members_w = read_spread(table, table.names, table.numbers, lambda name, powers: None)
    assert quantiles.power_w.tolist() == [[1.0, 4.0], [3.0, 9.0]]
    assert members_w.tolist() == [[3.0, 4.0], [1.0, 9.0]]
    table = parse_table("f.csv", "p10,p90\n1,3\n", lambda cells: True)
    assert read_spread(table, table.names, table.numbers, lambda name, powers: None)[1] is None
