"""Classes of conditions: words, cloud cover and clearness."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.conditions import (
    CLEARNESS,
    CLOUD_COVER,
    NO_CONDITIONS,
    UNKNOWN,
    WORDS,
    class_of_text,
    clearness,
    known_texts,
    running_most,
)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Sunny", "clear, sunny"),
        ("Clear / Wind", "clear, sunny"),
        ("Mostly  Sunny", "mostly sunny"),
        ("Fair and Windy", "fair"),
        ("Partly Cloudy, wind", "partly cloudy"),
        ("Mostly Cloudy/Wind", "mostly cloudy"),
        ("Snow Flurries", "flurries"),
        ("Light Rain", "light rain, thunderstorms"),
        ("Scatter Thunderstorm", "light rain, thunderstorms"),
        ("PM T-Storms", "light rain, thunderstorms"),
        ("Isolated T-storms", "light rain, thunderstorms"),
        ("AM Showers / Wind", "rain, showers"),
        ("Light Rain with Thunder", "light rain, thunderstorms"),
        ("Rain / Snow", "light snow, mixes"),
        ("Wintry Mix", "light snow, mixes"),
        ("Cloudy", "cloudy"),
        ("Snow Showers Late", "snow"),
        ("Haze", "fog, haze"),
        ("Heavy Rain", "heavy rain, heavy snow"),
        ("blizzard", "heavy rain, heavy snow"),
    ],
)
def test_words(text, label):
    assert WORDS.labels[class_of_text(text)] == label


def test_there_are_13_groups_and_each_known_text_has_one_class():
    assert len(WORDS.labels) == 13
    groups = known_texts().split("; ")
    texts = [text for group in groups for text in group.split(", ")]
    assert len(texts) == len(set(texts))
    for code, group in enumerate(groups):
        assert {class_of_text(text) for text in group.split(", ")} == {code}
        assert {class_of_text(text.upper() + " / Windy") for text in group.split(", ")} == {code}


@pytest.mark.parametrize("text", ["", "wind", "raining cats", "sunny sunny", "snowed-in", "12"])
def test_an_unknown_text_is_refused_with_the_list(text):
    with pytest.raises(ConfigError) as told:
        class_of_text(text)
    assert repr(text) in str(told.value)
    assert "mostly sunny" in str(told.value)
    assert "blizzard" in str(told.value)


def test_cloud_cover_by_eighths():
    cover = [0.0, 0.125, 0.1251, 0.375, 0.5, 0.625, 0.7, 0.875, 0.876, 1.0, np.nan]
    assert CLOUD_COVER.classes(cover).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, UNKNOWN]


def test_clearness_has_the_sunniest_first():
    ratio = [1.1, 0.86, 0.85, 0.7, 0.5, 0.3, 0.15, 0.0, np.nan]
    assert CLEARNESS.classes(ratio).tolist() == [0, 0, 1, 2, 3, 4, 5, 5, UNKNOWN]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_more_cloud_is_never_a_sunnier_class(values):
    ordered = np.sort(values)
    assert np.all(np.diff(CLOUD_COVER.classes(ordered)) >= 0)
    assert np.all(np.diff(CLEARNESS.classes(ordered)) <= 0)


@pytest.mark.parametrize("value", [-0.01, 1.01, 8.0])
def test_a_cloud_cover_beyond_0_to_1_is_refused(value):
    with pytest.raises(ConfigError, match=r"found .*, expected a number from 0 to 1"):
        CLOUD_COVER.classes([0.5, value])


@pytest.mark.parametrize("scheme", [WORDS, NO_CONDITIONS])
def test_a_scheme_without_numbers_refuses_them(scheme):
    with pytest.raises(ConfigError, match="found numbers, expected texts"):
        scheme.classes([0.5])


@given(
    st.lists(st.integers(0, 9) | st.just(None), min_size=1, max_size=24 * 8),
    st.integers(0, 50),
    st.integers(0, 3),
)
def test_clearness_is_the_share_of_the_most_of_the_hour_nearby(values, first_hour, days):
    numbers = np.array([np.nan if value is None else value for value in values], dtype=float)
    found = clearness(numbers, first_hour, days)
    hours = first_hour + np.arange(len(numbers))
    for at, hour in enumerate(hours):
        near = (hours % 24 == hour % 24) & (np.abs(hours // 24 - hour // 24) <= days)
        most = max((value for value in numbers[near] if not np.isnan(value)), default=0.0)
        expected = numbers[at] / most if most > 0 else np.nan
        np.testing.assert_equal(found[at], expected)


def test_the_most_of_nothing_is_zero():
    assert running_most(np.full((3, 24), np.nan), 1).tolist() == np.zeros((3, 24)).tolist()
