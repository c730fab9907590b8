"""Small histories whose predictions can be worked out by hand."""

import numpy as np

from beasy_sched.forecast.conditions import ConditionScheme
from beasy_sched.forecast.solar import SolarHistory

SUN, CLOUD, STORM = 0, 1, 2
SCHEME = ConditionScheme("sky", ("sun", "cloud", "storm"))
DAY_ONE = 14_000
"""Number of the first day of histories."""
LIT = range(8, 18)
"""Hours with sun."""


def day_of(power_w):
    """A day with this power in all hours with sun."""
    day = np.zeros(24)
    day[8:18] = power_w
    return day


def history(days, *, first_day=DAY_ONE, capacity_w=100.0, **more):
    """From pairs of a class and the power (or 24 powers) of each day."""
    powers = [day_of(power) if np.ndim(power) == 0 else np.asarray(power, float) for _, power in days]
    classes = np.repeat([code for code, _ in days], 24)
    return SolarHistory(first_day * 24, np.concatenate(powers), classes, SCHEME, capacity_w, **more)


def changing(days=40):
    """Sunny days of 100 W and cloudy ones of 50 W in turn: B = 100 W, f(sun) = 1, f(cloud) = 1/2."""
    return history([(SUN, 100.0) if day % 2 == 0 else (CLOUD, 50.0) for day in range(days)])


def seen_until(hour, **powers):
    """Today's production before ``hour``; h9=50.0 sets hour 9, the others have none."""
    seen = np.full(24, np.nan)
    seen[:hour] = 0.0
    for name, power in powers.items():
        seen[int(name[1:])] = power
    return seen
