"""What a line of a live source says."""

from __future__ import annotations

import contextlib
import json

import pytest

from beasy_sched.plugins.slurm.readings import (
    BATTERY,
    LONGEST_LINE,
    POWER,
    Damaged,
    LineReader,
    Quantity,
    Reading,
)

NOW = 1_780_000_000.0
POWER_1_KW = {"power_available": 1000.0}


def said(*lines: str, quantity: Quantity = POWER, epoch_s: float | None = None) -> Reading | None:
    """What the last of some lines of a source says."""
    reader = LineReader(quantity, epoch_s)
    return [reader.read(line.encode(), NOW) for line in lines][-1]


def damage(*lines: str, quantity: Quantity = POWER) -> tuple[str, str]:
    """What is wrong with the last of some lines, and its kind."""
    reader = LineReader(quantity)
    for line in lines[:-1]:
        with contextlib.suppress(Damaged):  # a header that names no power
            reader.read(line.encode(), NOW)
    with pytest.raises(Damaged) as caught:
        reader.read(lines[-1].encode(), NOW)
    return caught.value.kind, str(caught.value)


def test_a_number_is_watts_and_holds_from_now() -> None:
    assert said("1000") == said(" 1e3 \r") == Reading(NOW, POWER_1_KW)


def test_an_event_has_all_fields_of_power() -> None:
    fields = {
        "power_available": 1000.0,
        "sun_available": 400.0,
        "import_price_per_kwh": -0.02,
        "carbon_g_per_kwh": 35.0,
    }
    event = {"timestamp": NOW - 60, "type": "power", "who": "meter 7", **fields}
    assert said(json.dumps(event)) == Reading(NOW - 60, fields)


def test_an_event_of_batsim_5_is_the_same() -> None:
    event = {"timestamp": NOW, "type": "generic", "data": json.dumps(POWER_1_KW)}
    assert said(json.dumps(event)) == Reading(NOW, POWER_1_KW)


def test_fields_that_are_null_are_left_out() -> None:
    assert said('{"power_available": 1000, "sun_available": null, "timestamp": null}') == Reading(
        NOW, POWER_1_KW
    )


@pytest.mark.parametrize(
    ("time", "at"),
    [
        (1_780_000_123.5, 1_780_000_123.5),
        (1_780_000_123_500, 1_780_000_123.5),
        ("1780000123.5", 1_780_000_123.5),
        ("2026-05-28T20:26:40Z", 1_780_000_000.0),
        ("2026-05-28 22:26:40.789+02:00", 1_780_000_000.0),
        (300, NOW),
    ],
)
def test_times_are_dates_or_seconds_or_milliseconds(time: float | str, at: float) -> None:
    assert said(json.dumps({"time": time, **POWER_1_KW})) == Reading(at, POWER_1_KW)


def test_small_times_count_from_the_epoch_if_there_is_one() -> None:
    line = '{"timestamp": 300, "power_available": 1000}'
    assert said(line, epoch_s=NOW - 1000) == Reading(NOW - 700, POWER_1_KW)


@pytest.mark.parametrize(
    "lines",
    [
        ("time,power_available", "2026-05-28 20:26:40,1000"),
        ("timestamp,pv [kW],temperature", "1780000000,1.0,25"),
        ("date;PV (kW)", "2026-05-28T20:26:40+00:00;1,0"),
        (
            "# Renewables.ninja",
            "time,local_time,electricity",
            "2026-05-28 20:26:40,2026-05-28 22:26:40,1.000",
        ),
        ("\ufefftime\tpower_w", "2026-05-28 20:26:40\t1000"),
        ("power_w", "1000"),
        ("time,pv_kw,energy_kwh,humidity [%]", "2026-05-28 20:26:40,1.0,5,60"),
    ],
)
def test_tables_name_the_power_or_state_its_unit(lines: tuple[str, ...]) -> None:
    assert said(*lines) == Reading(NOW, POWER_1_KW)


def test_a_column_of_sun_beside_that_of_power() -> None:
    reading = said("time,sun_available,power_available", "2026-05-28 20:26:40,400,1000")
    assert reading == Reading(NOW, {"power_available": 1000.0, "sun_available": 400.0})


def test_a_header_may_come_again() -> None:
    assert said("power_w", "5", "power_kw", "1") == Reading(NOW, POWER_1_KW)


@pytest.mark.parametrize("line", ["", "  ", "# power", "power_w"])
def test_some_lines_say_nothing(line: str) -> None:
    assert said(line) is None


@pytest.mark.parametrize(
    ("lines", "kind", "message"),
    [
        (("cloudy",), "text", "found 'cloudy', expected a number (W), or a JSON object"),
        (("pv_kwh", "5"), "header", "found the columns pv_kwh: rename one to power_available, or"),
        (("time,pv_kva", "2026-05-28 20:26:40,5"), "header", "found the columns time, pv_kva: rename one"),
        (("p [mW]", "5"), "header", "found the columns p [mW]: rename one to power_available"),
        (("12,5",), "text", "found '12,5', expected a number (W)"),
        (("-5",), "value", "found power_available -5.0, expected watts, 0 to 1e+15, in '-5'"),
        (("nan",), "value", "found power_available nan, expected watts"),
        (("1e16",), "value", "found power_available 1e+16, expected watts"),
        (('{"watts": 5}',), "value", "found no power_available, in '{\"watts\": 5}'"),
        (('{"power_available": true}',), "value", "found power_available true, expected watts"),
        (('{"power_available": "5"}',), "value", "found power_available '5', expected watts"),
        (
            ('{"power_available": 5, "sun_available": 6}',),
            "value",
            "found sun_available 6, expected watts, at least 0 and at most power_available",
        ),
        (
            ('{"power_available": 5, "carbon_g_per_kwh": "low"}',),
            "value",
            "found carbon_g_per_kwh 'low', expected a number",
        ),
        (('{"power_available": 5',), "JSON", "5' is not valid JSON: it ends in the middle"),
        (('{"power_available": NaN}',), "JSON", "is not valid JSON"),
        (('{"time": "noon", "power_available": 5}',), "time", "found the time 'noon', expected seconds"),
        (('{"time": -1, "power_available": 5}',), "time", "found the time -1, expected seconds since 1970"),
        (("5" * (LONGEST_LINE + 1),), "length", "found a line of more than 64 KiB"),
        (("time,pv [kW],wind [kW]",), "header", "found the columns time, pv [kW], wind [kW]: rename one to"),
        (("time,power", "2026-05-28,5"), "header", "found the columns time, power: rename one to"),
        (("time,pv_kw", "2026-05-28,5,6"), "row", "'2026-05-28,5,6' has 3 values, expected 2"),
        (("time,pv_kw", "2026-05-28,much"), "number", "power_available: found 'much', expected a number"),
        (("time,pv_kw", "2026-05-28,-"), "value", "found no power_available, in '2026-05-28,-'"),
        (("time,pv_kw", "28 May,5"), "time", "found the time '28 May', expected seconds since 1970"),
    ],
)  # fmt: skip
def test_damaged_lines_say_what_was_found_and_expected(
    lines: tuple[str, ...], kind: str, message: str
) -> None:
    found, text = damage(*lines)
    assert found == kind
    assert message in text


def test_what_is_no_text_is_damaged() -> None:
    with pytest.raises(Damaged, match="is not UTF-8 text: found the byte 0xff") as caught:
        LineReader(POWER).read(b"\xff1\x000\x00", NOW)
    assert caught.value.kind == "encoding"


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        (("61.2",), {"soc_pct": 61.2}),
        (('{"soc_pct": 61.2, "hydrogen_kg": 3}',), {"soc_pct": 61.2, "hydrogen_kg": 3.0}),
        (('{"hydrogen_kg": 3}',), {"hydrogen_kg": 3.0}),
        (("time,soc_pct", "2026-05-28 20:26:40,0"), {"soc_pct": 0.0}),
        (("time,SoC [%]", "2026-05-28 20:26:40,80"), {"soc_pct": 80.0}),
        (("SoC (p.u.)", "0.8"), {"soc_pct": 80.0}),
    ],
)
def test_the_storage_says_its_levels(lines: tuple[str, ...], fields: dict[str, float]) -> None:
    assert said(*lines, quantity=BATTERY) == Reading(NOW, fields)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("101", "found soc_pct 101.0, expected a number from 0 to 100"),
        ('{"hydrogen_kg": -1}', "found hydrogen_kg -1, expected a number, 0 or more"),
        ('{"power_available": 5}', "found neither soc_pct nor hydrogen_kg"),
        ("soc", "found the columns soc: rename one to soc_pct, or state the unit of only one"),
        ("full", "found 'full', expected a number (percent), or a JSON object or a table with soc_pct"),
    ],
)
def test_levels_that_cannot_be_are_damaged(line: str, message: str) -> None:
    assert message in damage(line, quantity=BATTERY)[1]


def test_numbers_below_a_name_without_a_unit_are_not_percent() -> None:
    kind, message = damage("soc", "0.8", quantity=BATTERY)
    assert (kind, message[:21]) == ("header", "found the columns soc")
