from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.generate.random_streams import Stream, uniforms
from beasy_sched.generate.workload import GeneratedWorkload, split_by_shares, synthetic_workload
from beasy_sched.generate.workload_options import ARRIVAL_SHAPES, SyntheticOptions

DAY = 86_400


def draw(**options: Any) -> GeneratedWorkload:
    return synthetic_workload(SyntheticOptions(**{"reference_speed_flops": 25.57e9, **options}))


def digest(made: GeneratedWorkload) -> str:
    return hashlib.sha256(b"".join(made.json_pieces())).hexdigest()[:16]


def test_the_same_seed_gives_the_same_bytes_for_good() -> None:
    assert digest(draw(seed=1)) == digest(draw(seed=1)) == "a24d6a3ce1a8275d"
    assert digest(draw(seed=2)) == "719ba41a36bb6135"


def test_streams_do_not_touch_each_other() -> None:
    plain, other = draw(seed=5), draw(seed=5, gap_log_sd=0.0, host_shares={3: 1})
    assert np.array_equal(plain.run_s, other.run_s)
    assert np.array_equal(plain.walltime_s, other.walltime_s)
    assert not np.array_equal(plain.submit_s, other.submit_s)


def test_streams_are_pinned_and_differ() -> None:
    assert uniforms(0, Stream.WALLTIME_GROUPS, 2).tolist() == [0.9429375528828794, 0.3163371523854981]
    assert len({uniforms(1, stream, 1)[0] for stream in Stream}) == len(Stream)


def test_the_defaults_are_those_of_the_scenarios() -> None:
    made = draw(jobs=90_000)
    assert made.nb_res == 50
    assert made.window_s == 3 * DAY
    assert np.bincount((made.submit_s // DAY).astype(int)).tolist() == [67_500, 15_300, 7_200]
    assert np.median(made.run_s) == pytest.approx(1800, rel=0.03)
    log_run = np.log(made.run_s[made.run_s < 1800])
    assert np.sqrt(np.mean((log_run - np.log(1800)) ** 2)) == pytest.approx(1.3, rel=0.02)
    assert made.run_s.max() == 6 * 3600
    shares = np.bincount(made.hosts) / made.size
    assert shares[[1, 2, 4]] == pytest.approx([0.7, 0.15, 0.15], abs=0.01)
    assert made.beyond_walltime == 0


def test_end_mirrors_begin() -> None:
    assert ARRIVAL_SHAPES["end"] == ARRIVAL_SHAPES["begin"][::-1]
    made = draw(day_shares=ARRIVAL_SHAPES["end"])
    assert np.bincount((made.submit_s // DAY).astype(int)).tolist() == [72, 153, 675]


def test_day_and_night() -> None:
    made = draw(jobs=90_000, day_shares=(1, 1, 1), night_ratio=0.25)
    by_hour = np.bincount((made.submit_s % DAY // 3600).astype(int), minlength=24)
    assert by_hour[13:15].mean() / by_hour[1:3].mean() == pytest.approx(4, rel=0.1)
    assert set(np.argsort(by_hour)[-4:]) <= {11, 12, 13, 14, 15, 16}


def test_no_job_arrives_in_the_quiet_end() -> None:
    """Only the last day changes, and as many jobs come."""
    usual, quiet = draw(), draw(quiet_end_h=8.0)
    early = usual.submit_s < 2 * DAY
    assert (quiet.submit_s[early] == usual.submit_s[early]).all()
    assert quiet.submit_s.max() < 3 * DAY - 8 * 3600 < usual.submit_s.max()
    assert quiet.size == usual.size


def test_gaps() -> None:
    even = np.diff(draw(gap_log_sd=0.0, day_shares=(1,)).submit_s)
    assert even.max() - even.min() <= 1
    irregular = np.diff(draw(jobs=20_000, gap_log_sd=1.5, day_shares=(1,) * 60).submit_s)
    assert irregular.std() / irregular.mean() > 1.8


@given(st.integers(1, 300), st.lists(st.floats(0, 100), min_size=1, max_size=6).filter(any))
def test_shares_split_all(total: int, shares: list[float]) -> None:
    counts = split_by_shares(total, tuple(shares))
    assert sum(counts) == total
    exact = [total * share / sum(shares) for share in shares]
    assert all(abs(count - value) < 1 for count, value in zip(counts, exact, strict=True))


@given(
    st.integers(1, 60),
    st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any),
    st.floats(0.01, 1),
    st.floats(0, 5),
    st.integers(0, 2**64),
)
def test_any_workload_is_in_order(jobs: int, shares: list[int], night: float, sd: float, seed: int) -> None:
    made = draw(jobs=jobs, day_shares=tuple(map(float, shares)), night_ratio=night, gap_log_sd=sd, seed=seed)
    assert made.size == jobs
    assert (np.diff(made.submit_s) >= 0).all()
    assert made.submit_s[0] >= 0
    assert made.submit_s[-1] < made.window_s
    assert (made.run_s >= 1).all()
    assert (made.walltime_s > made.run_s).all()


def test_the_simulator_reads_it(tmp_path: Path) -> None:
    made = draw(jobs=50, walltimes=False)
    made.write(tmp_path / "w.json")
    read = read_workload(tmp_path / "w.json")
    assert [job.subtime for job in read.jobs] == made.submit_s.tolist()
    assert {job.walltime for job in read.jobs} == {None}
    assert json.loads((tmp_path / "w.json").read_text())["nb_res"] == read.nb_res == 50


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": 0},
        {"hosts": 3},
        {"hosts": 0},
        {"day_shares": ()},
        {"day_shares": (0.0, 0.0)},
        {"day_shares": (-1.0, 2.0)},
        {"quiet_end_h": 24.0},
        {"quiet_end_h": -1.0},
        {"night_ratio": 0.0},
        {"run_median_s": 0.5},
        {"run_cap_s": float("nan")},
        {"host_shares": {0: 1.0}},
        {"gap_log_sd": 11.0},
        {"seed": -1},
    ],
)
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        draw(**wrong)
