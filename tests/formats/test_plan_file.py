"""Plan files: back as written, and never a damaged, foreign or newer one."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import UNSET
from plan_cases import hand_plan

from beasy_sched.errors import InputError
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.formats.plan_file import PLAN_FORMAT, csv_lines, json_text, read_plans, write_plans
from beasy_sched.planner.plan import Plan, PlanStore, Provenance, Solved

FIRST = replace(
    hand_plan(),
    provenance=Provenance(
        "a test", "HiGHS 1", {"site": "0" * 64}, {"surplus": "store"}, (Solved("power", "optimal", 1e-5),)
    ),
)
PLANS = PlanStore([FIRST, replace(FIRST, start_s=FIRST.end_s)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.msgpack"
    write_plans(path, PLANS)
    return path


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)
        elif field.name in ("power", "servers"):
            assert_same(left, right)
        else:
            assert left == right


def test_back_as_written(file: Path) -> None:
    back = read_plans(file)
    assert len(back) == 2
    for one, other in zip(PLANS, back, strict=True):
        assert_same(one, other)


def with_quantiles(plan: Plan, *, levels: Any = (0.1, 0.9), power_w: Any = None) -> Plan:
    if power_w is None:
        power_w = np.stack([0.5 * plan.power.load_w, 2.0 * plan.power.load_w])
    return replace(plan, load_quantiles=Quantiles(np.array(levels), power_w))


def test_quantiles_of_the_demand_are_kept_where_there_are_any(file: Path, tmp_path: Path) -> None:
    assert b"load_quantiles" not in file.read_bytes()
    plans = PlanStore([FIRST, with_quantiles(PLANS[1])])
    write_plans(tmp_path / "bounded", plans)
    back = read_plans(tmp_path / "bounded")
    assert back[0].load_quantiles is UNSET
    assert_same(back[1].load_quantiles, plans[1].load_quantiles)
    write_plans(tmp_path / "again", back)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "bounded").read_bytes()


def test_quantiles_of_the_demand_in_exports() -> None:
    assert "load_low_w" not in next(csv_lines(PLANS))
    assert b"load_quantiles" not in json_text(PLANS)
    plans = PlanStore([FIRST, with_quantiles(PLANS[1])])
    rows = [*csv.DictReader(io.StringIO("".join(csv_lines(plans))))]
    for number, plan in enumerate(plans):
        mine = [row for row in rows if row["window"] == str(number)]
        assert [float(row["load_low_w"]) for row in mine] == plan.demand.low_w.tolist()
        assert [float(row["load_high_w"]) for row in mine] == plan.demand.high_w.tolist()
    windows = json.loads(json_text(plans))["windows"]
    assert "load_quantiles" not in windows[0]
    assert windows[1]["load_quantiles"]["levels"] == [0.1, 0.9]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"power_w": np.zeros((2, 2))}, "load_quantiles.power_w: found an array of float64 of shape"),
        ({"power_w": np.full((2, FIRST.steps), np.nan)}, "the demand is nan W at step 0"),
        ({"power_w": np.full((2, FIRST.steps), -1.0)}, "the demand is -1.0 W at step 0"),
        ({"power_w": np.full((2, FIRST.steps), 1e15)}, "more than 1e12 W, check the unit"),
    ],
)
def test_quantiles_that_cannot_be(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    PLAN_FORMAT.write(tmp_path / "bad", [with_quantiles(FIRST, **changes)])
    with pytest.raises(InputError, match=message):
        read_plans(tmp_path / "bad")


def test_quantiles_that_cross(tmp_path: Path) -> None:
    good = with_quantiles(FIRST)
    assert good.load_quantiles is not UNSET
    good.load_quantiles.power_w[:] = good.load_quantiles.power_w[::-1].copy()
    PLAN_FORMAT.write(tmp_path / "bad", [good])
    with pytest.raises(InputError, match="quantiles cross"):
        read_plans(tmp_path / "bad")


def test_same_plan_same_bytes(file: Path, tmp_path: Path) -> None:
    write_plans(tmp_path / "again", read_plans(file))
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_states_of_many_servers_are_small(tmp_path: Path) -> None:
    """Ten thousand servers, one asleep after the other: far below a byte a state."""
    steps, count = 864, 10_000
    states = np.where(np.arange(steps)[:, None] * count > np.arange(count) * steps, 2, 0).astype(np.int8)
    assert FIRST.servers is not None
    servers = replace(
        FIRST.servers, states=states, kind_of=np.zeros(count, dtype=np.intp), energy_j=np.zeros(steps)
    )
    zeros, level = np.zeros(steps), np.full(steps + 1, FIRST.power.battery_j[0])
    power = replace(
        FIRST.power,
        **{
            field.name: zeros
            for field in fields(FIRST.power)
            if field.name not in ("import_w", "base_w", "services_w", "pue", "grid_charge_w", "others")
        }
        | {"battery_j": level, "hydrogen_kg": level * 0},
    )
    plan = replace(FIRST, power=power, servers=servers, load_uncertainty=zeros, renew_uncertainty=zeros)
    path = tmp_path / "large"
    write_plans(path, PlanStore([plan]))
    assert path.stat().st_size < 200_000
    back = read_plans(path)[0].servers
    assert back is not None
    np.testing.assert_array_equal(back.states, states)


class TestDamage:
    def test_truncated_at_every_length(self, file: Path) -> None:
        content = file.read_bytes()
        for length in range(0, len(content), 7):
            file.write_bytes(content[:length])
            with pytest.raises(InputError, match=r"is corrupt or truncated|is not a beasy-sched plan"):
                read_plans(file)

    def test_one_byte_changed(self, file: Path) -> None:
        content = file.read_bytes()
        for at in range(0, len(content), 11):
            file.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
            try:
                read_plans(file)
            except InputError:
                continue
            program_at = content.index(b"program") + len(b"program")
            assert program_at <= at < content.index(b"sha256"), f"byte {at} was changed unnoticed"

    @pytest.mark.parametrize("content", [b"", b"hello", b"\xc1", b"\x90" * 3, b"{}", json.dumps({}).encode()])
    def test_something_else(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a beasy-sched plan"):
            read_plans(path)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="cannot be read: No such file"):
            read_plans(tmp_path / "none")

    def test_newer(self, tmp_path: Path) -> None:
        newer = {"format": "beasy-sched plan", "version": 2, "program": "beasy-sched 9.1", "windows": {}}
        path = tmp_path / "newer"
        path.write_bytes(msgspec.msgpack.encode(newer))
        with pytest.raises(InputError, match=r"has format version 2, written by beasy-sched 9.1; this is"):
            read_plans(path)

    def test_more_than_the_cap_in_all(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("beasy_sched.formats.packed_file.MOST_UNPACKED_BYTES", 300)
        with pytest.raises(InputError, match="arrays of more than 0 MiB in total"):
            read_plans(file)

    def test_an_array_that_unpacks_to_gigabytes(self, tmp_path: Path) -> None:
        bomb = zlib.compress(bytes(50_000_000))
        power = {field.name: ["f8", [1 << 28], bomb] for field in fields(FIRST.power)}
        windows = msgspec.msgpack.encode([{**msgspec.to_builtins(FIRST, enc_hook=str), "power": power}])
        digest = hashlib.sha256(windows).digest()
        content = {"format": "beasy-sched plan", "version": 1, "sha256": digest, "windows": windows}
        (tmp_path / "x").write_bytes(msgspec.msgpack.encode(content))
        with pytest.raises(InputError, match="MiB in total"):
            read_plans(tmp_path / "x")

    def test_inconsistent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Written without the check: the reader's own check names window and constraint."""
        power = replace(FIRST.power, charge_w=np.array([1e3, 0.0, 0.0]))
        with monkeypatch.context() as patch:
            patch.setattr(Plan, "check", lambda self: None)
            write_plans(tmp_path / "x", PlanStore([replace(FIRST, power=power)]))
        with pytest.raises(InputError, match=r"window 0: battery development"):
            read_plans(tmp_path / "x")


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(PLANS)))))
    assert len(rows) == 6
    assert rows[3]["time_s"] == "10800.0"
    assert [float(row["soc_pct"]) for row in rows[:3]] == pytest.approx([70, 60, 50])
    assert [row["servers_on"] for row in rows[:3]] == ["3", "2", "1"]
    assert [float(row["envelope_w"]) for row in rows[:3]] == [2e3, 2e3, 1e3]


def test_json() -> None:
    windows = json.loads(json_text(PLANS))["windows"]
    assert [window["start_s"] for window in windows] == [0.0, 10_800.0]
    assert windows[0]["servers"]["state_changes"] == [[[0, 0], [1, 2]], [[0, 1], [2, 2]], [[0, 0]]]
    assert windows[0]["power"]["charge_w"] == [2e3, 0.0, 0.0]
    assert windows[0]["provenance"]["solved"][0]["gap"] == 1e-5
