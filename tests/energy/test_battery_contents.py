"""Price and carbon of a battery's contents, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.energy.balance import settle_step
from beasy_sched.energy.battery_contents import BatteryContents, Released
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.grid import Grid, Metered
from beasy_sched.energy.grid_charging import AS_ALWAYS, GridUse
from beasy_sched.energy.storage import Storage, StorageState

KWH, HOUR = 3.6e6, 3600.0
CHARGES = GridUse(1e6, 1e6, 90.0)


class _Battery:
    """A battery followed for hours: its load, production, price and carbon."""

    def __init__(self, efficiency: float = 1.0, self_discharge: float = 0.0, soc_pct: float = 0.0) -> None:
        self.spec = BatterySpec(
            10 * KWH,
            soc_min_pct=0.0,
            soc_start_pct=soc_pct,
            soc_target_pct=0.0,
            charge_limit_w=1000.0,
            discharge_limit_w=5000.0,
            charge_efficiency=efficiency,
            discharge_efficiency=1.0,
            self_discharge_per_day=self_discharge,
        )
        self.state, self.contents = StorageState(self.spec.start_j), BatteryContents(self.spec)
        self.paid, self.grams = 0.0, 0.0

    def hour(
        self, load_w: float, renew_w: float, price: float, carbon: float | None, *, charges: bool = False
    ) -> Released:
        record, self.state = settle_step(
            Storage(self.spec),
            self.state,
            dt_s=HOUR,
            consumed_j=load_w * HOUR,
            renew_w=renew_w,
            grid=Grid(),
            use=CHARGES if charges else AS_ALWAYS,
        )
        kwh = record.import_w / 1000.0
        charged_kwh = record.grid_charge_w / 1000.0
        self.paid += charged_kwh * price
        self.grams += charged_kwh * (carbon or 0.0)
        metered = Metered(price, kwh * price, 0.0, None if carbon is None else kwh * carbon)
        return self.contents.settle(record, metered)


def test_discharged_energy_has_the_mean_price_and_carbon_of_the_contents() -> None:
    battery = _Battery()
    battery.hour(0.0, 0.0, 0.10, 300.0, charges=True)  # 1 kWh of the grid
    battery.hour(500.0, 0.0, 0.20, 100.0, charges=True)  # another, next to a load of 0.5 kW
    battery.hour(0.0, 1000.0, 0.50, 900.0)  # 1 kWh of the sun, whatever the grid's price
    released = battery.hour(1500.0, 0.0, 0.40, 500.0)
    assert released.grid_w == pytest.approx(1000.0)
    assert released.cost == pytest.approx(0.15)
    assert released.carbon_g == pytest.approx(200.0)
    assert (battery.contents.cost, battery.contents.carbon_g) == pytest.approx((0.15, 200.0))


def test_production_alone_is_free_and_green() -> None:
    battery = _Battery(soc_pct=50.0)
    assert battery.hour(1000.0, 0.0, 0.40, 500.0) == (0.0, 0.0, 0.0)


def test_losses_raise_the_price_of_what_is_left() -> None:
    battery = _Battery(efficiency=0.5, self_discharge=0.5)
    battery.hour(0.0, 0.0, 0.10, 300.0, charges=True)
    for _ in range(24):
        battery.hour(0.0, 0.0, 0.3, 300.0)
    assert battery.state.battery_j == pytest.approx(0.25 * KWH)
    released = battery.hour(2000.0, 0.0, 0.4, 300.0)
    assert (released.cost, released.carbon_g) == pytest.approx((0.10, 300.0))


def test_unknown_carbon_stays_unknown() -> None:
    battery = _Battery()
    battery.hour(0.0, 0.0, 0.10, None, charges=True)
    assert battery.hour(500.0, 0.0, 0.1, 300.0).carbon_g is None


hours = st.tuples(st.floats(0, 2000), st.floats(0, 2000), st.floats(0, 1), st.floats(0, 900), st.booleans())


@given(st.lists(hours, max_size=40), st.floats(0.5, 1), st.floats(0, 0.5), st.floats(0, 90))
def test_all_that_was_paid_is_discharged_or_stored(
    drawn: list, efficiency: float, self_discharge: float, soc_pct: float
) -> None:
    battery = _Battery(efficiency, self_discharge, soc_pct)
    cost = carbon_g = 0.0
    for load_w, renew_w, price, carbon, charges in drawn:
        released = battery.hour(load_w, renew_w, price, carbon, charges=charges)
        cost, carbon_g = cost + released.cost, carbon_g + (released.carbon_g or 0.0)
    assert cost + battery.contents.cost == pytest.approx(battery.paid, abs=1e-9)
    assert carbon_g + (battery.contents.carbon_g or 0.0) == pytest.approx(battery.grams, abs=1e-6)
    assert battery.contents.grid_j <= battery.state.battery_j * (1 + 1e-9) + 1e-6
