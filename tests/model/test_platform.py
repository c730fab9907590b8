"""What a host's properties say, and what is refused with the host's name."""

from __future__ import annotations

import numpy as np
import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform, ServerKind, SleepState

PROPERTIES = {
    "wattage_per_state": "100:100:200, 90:150, 10:10, 110:110:110, 130:130:130",
    "sleep_pstates": "2:3:4",
    "speed_per_state": "1e8, 5e7, 1e-9, 0.5, 0.2",
}


def kind(**changes: str) -> ServerKind:
    return ServerKind.from_properties("n0", {**PROPERTIES, **changes})


def test_a_kind() -> None:
    server = kind()
    assert server.idle_w == (100, 90, 10, 110, 130)
    assert server.epsilon_w == (100, 90, 10, 110, 130)
    assert server.full_w == (200, 150, 10, 110, 130)
    assert server.sleep == SleepState(pstate=2, off_pstate=3, on_pstate=4)
    assert server.computing == (0, 1)
    assert server.fastest == 0
    assert (server.off_duration_s(), server.on_duration_s()) == (2.0, 5.0)
    assert server.reference_speed_flops == 1e8


def test_without_properties_there_is_one_pstate_and_no_sleep() -> None:
    server = ServerKind.from_properties("n0", {})
    assert (server.pstates, server.computing, server.fastest) == (1, (0,), 0)
    assert server.sleep is None
    assert server.off_duration_s() == 0.0


def test_computing_pstates_may_come_last_and_the_fastest_is_found_by_speed() -> None:
    server = kind(sleep_pstates="0:1:2", speed_per_state="1, 0.5, 0.2, 3e9, 7e9")
    assert server.computing == (3, 4)
    assert server.fastest == 4


def test_the_median_speed_is_the_faster_of_two_middle_ones() -> None:
    four = ServerKind("k", speeds_flops=(40.0, 10.0, 30.0, 20.0))
    assert four.reference_speed_flops == 30.0
    assert ServerKind("k", speeds_flops=(40.0, 10.0, 30.0)).reference_speed_flops == 30.0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"wattage_per_state": "a:b"}, "'a:b' is not"),
        ({"wattage_per_state": "1_0:20"}, "'1_0:20' is not"),
        ({"wattage_per_state": "1:2:3:4"}, "is not"),
        ({"wattage_per_state": "100"}, "'100' is not 'idle:full'"),
        ({"watt_per_state": "1:2"}, "wattage_per_state '.*' and watt_per_state '1:2' give different powers"),
        ({"wattage_per_state": "", "watt_per_state": "1:x"}, "watt_per_state: '1:x' is not"),
        ({"wattage_per_state": "nan:1"}, "is not"),
        ({"wattage_per_state": "-1:1"}, "is not"),
        ({"wattage_per_state": "1:inf"}, "is not"),
        ({"wattage_per_state": "100:200"}, "5 speeds but 1 entries"),
        ({"sleep_pstates": "2:3"}, "triple of P-state numbers"),
        ({"sleep_pstates": "a:b:c"}, "triple of P-state numbers"),
        ({"sleep_pstates": "2:3:9"}, "expected 0 to 4"),
        ({"sleep_pstates": "-1:3:4"}, "expected 0 to 4"),
        ({"sleep_pstates": "2:3:3"}, "three different"),
        ({"speed_per_state": "fast"}, "'fast' is not a list of speeds"),
        ({"speed_per_state": "1,1,1,nan,1"}, "is not a list of speeds"),
        ({"speed_per_state": "1,1,1,0,1"}, "above 0"),
        ({"sleep_pstates": "0:1:2, 3:4:0"}, "no P-state remains"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_hosts_name(changes: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as found:
        kind(**changes)
    assert "'n0'" in str(found.value)


def test_cores_by_their_property() -> None:
    assert kind().cores == 1
    assert kind(core_count="4").cores == 4
    assert ServerKind.from_properties("n0", {"core_count": "4"}, cores=2).cores == 2  # the simulator's word
    for wrong in ("0", "-1", "four", "1.5", "9" * 20):
        with pytest.raises(ConfigError, match=r"'n0': core_count: .* expected 1 or more"):
            kind(core_count=wrong)


def test_only_hosts_with_several_cores_tell_them() -> None:
    kinds = tuple(ServerKind(str(cores), (1.0,), cores=cores) for cores in (1, 4))
    platform = Platform(kinds, np.array([0, 1]), ("a", "b"), properties=({"x": "y"}, {"core_count": "9"}))
    assert platform.telling_hosts().properties == ({"x": "y"}, {"core_count": "4"})


@pytest.mark.parametrize("changes", [{"sleep_pstates": "a" * 3000}, {"sleep_pstates": "2:3"}])
def test_errors_do_not_repeat_long_texts(changes: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as found:
        ServerKind.from_properties("n" * 3000, {**PROPERTIES, **changes})
    assert len(str(found.value)) < 500
