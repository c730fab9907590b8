import math

import pytest

from beasy_sched.energy.fields import FieldError
from beasy_sched.energy.plants import PvPlant, WindTurbine


def test_the_turbine_s_curve_at_and_around_its_corners():
    turbine = WindTurbine(1000, cut_in_m_s=3, rated_m_s=13, cut_out_m_s=25)
    speeds = [0, 3, 3.01, 8, 13, 13.01, 25, 25.01, 40]
    assert turbine.power_w(speeds) == pytest.approx([0, 0, 1, 500, 1000, 1000, 1000, 0, 0])


def test_a_panel_is_linear_in_the_irradiance():
    plant = PvPlant(2000, efficiency=0.8)
    assert plant.power_w([0, 500, 1000, 1100]) == pytest.approx([0, 800, 1600, 1760])


@pytest.mark.parametrize(
    ("field", "value"),
    [("rated_w", -1), ("rated_m_s", 3), ("cut_out_m_s", 11), ("cut_in_m_s", math.nan), ("rated_w", math.inf)],
)
def test_a_turbine_that_cannot_be_is_refused(field, value):
    with pytest.raises(FieldError, match=f"^{field}:"):
        WindTurbine(**{"rated_w": 1000, field: value})


def test_a_panel_that_cannot_be_is_refused():
    with pytest.raises(FieldError, match="efficiency: found 90, expected a fraction"):
        PvPlant(1000, efficiency=90)
