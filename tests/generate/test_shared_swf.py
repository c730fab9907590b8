"""Treatment of every real trace; the counts were taken with a separate awk program."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.generate.workload_options import SwfOptions
from beasy_sched.generate.workload_swf import workload_from_swf

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "swf"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the real traces are not beside the project")


class Fate(NamedTuple):
    """Expected outcome of one file."""

    kept: int
    hosts: int
    host_hours: float
    zero: int = 0
    """Dropped: run time 0."""
    no_run: int = 0
    """Dropped: run time missing."""
    no_request: int = 0
    """Kept without a requested time: walltime by rule."""
    beyond: int = 0
    """Run longer than their walltime."""
    steps_back: int = 0
    """Neighbouring rows out of order."""
    long_rows: int = 0
    """Rows with more than 18 fields."""
    options: dict[str, Any] = {}  # noqa: RUF012


FATES = {
    "CEA-Curie_predictsim_sample.swf": Fate(33469, 93312, 40845452.293, zero=2883, beyond=891),
    "CTC-SP2_pyss-easy.swf.gz": Fate(77199, 338, 2299824.917, steps_back=29952),
    "KTH-SP2-1996-2.swf": Fate(28481, 100, 562394.074, zero=8, beyond=475),
    "KTH-SP2_pyss-easy.swf.gz": Fate(28481, 100, 559224.744, steps_back=9415),
    "NASA-iPSC-1993-3.1-cln.swf.gz": Fate(18066, 128, 131732.782, zero=173, no_request=18066),
    "RICC-2010-2.swf.gz": Fate(447784, 8192, 26227305.841, zero=10, no_request=2, beyond=7092),
    "SDSC-BLUE_pyss-easy.swf.gz": Fate(232542, 1152, 20652911.247, steps_back=73012),
    "alea_hpc2n_excerpt.swf": Fate(3145, 240, 139904.221, no_run=25, beyond=320),
    "curie_1w_43659000.swf": Fate(33282, 80640, 10966508.632, zero=631, beyond=348, steps_back=57),
    "curie_1w_46054648.swf": Fate(9167, 80640, 12135061.042, beyond=231, steps_back=8),
    "metacentrum_1w_1360702000.swf": Fate(30884, 3356, 732461.587, steps_back=1),
    "metacentrum_1w_1362000000.swf": Fate(31934, 3356, 986688.750, steps_back=1),
    "metacentrum_1w_1367276567.swf": Fate(6902, 3356, 554779.814, steps_back=1),
    # The requested time stands in field 6; without the option it is twice the run time, with a warning.
    "mira_argonne.swf": Fate(22508, 49152, 128417929.981, beyond=4261, options={"requested_time_field": 6}),
    "sdscblue_1w_16944036.swf": Fate(999, 1152, 157996.933, steps_back=1),
    "sdscblue_1w_22874448.swf": Fate(1810, 1152, 185899.189, steps_back=1),
    "sdscblue_1w_61845732.swf": Fate(2635, 1152, 241846.733, steps_back=1),
    "theta_walltime.swf": Fate(23387, 4392, 18100232.655, beyond=4647, steps_back=8056, long_rows=23387),
}


def convert(name: str, **options: Any) -> GeneratedWorkload:
    return workload_from_swf(FOLDER / name, SwfOptions(reference_speed_flops=1e9, **options))


def test_every_file_is_in_the_table() -> None:
    assert {path.name for path in FOLDER.iterdir() if not path.name.endswith(".machines")} == set(FATES)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FATES)
def test_fate(name: str) -> None:
    fate = FATES[name]
    made = convert(name, **fate.options)
    report = made.report
    dropped = {"run time 0": fate.zero, "no run time": fate.no_run}
    assert made.size == fate.kept
    assert report.rows == fate.kept + report.dropped_total
    assert report.dropped == {reason: count for reason, count in dropped.items() if count}
    assert made.nb_res == fate.hosts
    assert float(made.run_s @ made.hosts) / 3600 == pytest.approx(fate.host_hours, abs=0.001)
    assert made.beyond_walltime == fate.beyond
    assert any(f"({fate.steps_back} steps back)" in note for note in report.notes) == (fate.steps_back > 0)
    assert any(f"{fate.no_request} jobs have no requested" in note for note in report.notes) == (
        fate.no_request > 0
    )
    assert any(f"more than 18 fields in {fate.long_rows:,} rows" in text for text in report.warnings) == (
        fate.long_rows > 0
    )
    assert len(set(made.ids)) == made.size
    assert (np.diff(made.submit_s) >= 0).all()
    assert made.submit_s[0] == 0


def test_mira_without_the_option_is_warned_of() -> None:
    made = convert("mira_argonne.swf")
    assert made.walltime_s.tolist() == (2 * made.run_s).tolist()
    assert "no job has a requested time in field 9" in made.report.warnings[0]


def test_the_extracted_weeks_keep_their_warm_up_jobs() -> None:
    whole = convert("sdscblue_1w_16944036.swf")
    assert whole.submit_s[:2].tolist() == [0, 0]
    assert 0.1 in whole.submit_s.tolist()
    later = convert("sdscblue_1w_16944036.swf", start_s=1.0)
    warm_up = int((whole.submit_s < 1).sum())
    assert later.size == whole.size - warm_up
    assert later.report.dropped == {"outside the time window": warm_up}


def test_another_file_is_refused() -> None:
    with pytest.raises(InputError, match="not an SWF trace, no row can be read; line 1: 6 fields"):
        convert("alea_hpc2n_excerpt.swf.machines")


LARGEST = "RICC-2010-2.swf.gz"


@pytest.mark.parametrize(
    "name",
    ["alea_hpc2n_excerpt.swf", "curie_1w_46054648.swf", pytest.param(LARGEST, marks=pytest.mark.slow)],
)
def test_the_simulator_reads_it(name: str, tmp_path: Path) -> None:
    made = convert(name)
    made.write(tmp_path / "w.json")
    read = read_workload(tmp_path / "w.json")
    assert len(read.jobs) == made.size
    assert sum(job.res for job in read.jobs) == made.hosts.sum()
    assert len(read.profiles) == len(np.unique(made.run_s))
