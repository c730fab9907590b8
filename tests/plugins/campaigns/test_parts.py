"""Parts of a campaign: tasks of a job array that share its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import exit_code
from hypothesis import given
from hypothesis import strategies as st
from small_campaign import SMALL, Here, scenario

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.folder import Folder
from beasy_sched.plugins.campaigns.parts import CampaignPart
from beasy_sched.plugins.campaigns.status import status_of

pytest.importorskip("pyarrow", reason="tables need pyarrow")


@given(st.lists(st.integers()), st.integers(1, 40))
def test_parts_are_all_runs_each_once_and_alike_in_size(runs: Sequence[int], count: int) -> None:
    parts = [CampaignPart(number, count).take(runs) for number in range(1, count + 1)]
    assert [run for part in parts for run in part] == runs
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", ""])
def test_what_is_no_part(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a part such as 3/10"):
        CampaignPart.of(text)


@pytest.mark.slow
def test_parts_come_to_the_bytes_of_the_whole(tmp_path: Path) -> None:
    begin([scenario()], tmp_path / "whole")
    go_on(tmp_path / "whole", Here())
    folder = tmp_path / "parts"
    left = []
    for number in (3, 1, 2):
        begin([scenario()], folder)
        assert not Folder(folder).table.exists()
        outcome = go_on(folder, Here(), part=CampaignPart(number, 3))
        assert (outcome.runs, outcome.executed, outcome.failed) == (12, 4, 0)
        left.append(outcome.left)
    assert left == [8, 4, 0]
    assert Folder(folder).table.read_bytes() == Folder(tmp_path / "whole").table.read_bytes()


def test_a_part_that_was_lost_is_made_up_for(tmp_path: Path) -> None:
    begin([scenario()], tmp_path)
    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path, Here(most=3), part=CampaignPart(1, 2))  # a plan, where it has to be made, and runs
    lost = 6 - len(list((tmp_path / "rows").glob("*.json")))
    assert lost in (3, 4)
    assert go_on(tmp_path, Here(), part=CampaignPart(2, 2)).left == lost
    assert not Folder(tmp_path).table.exists()
    outcome = go_on(tmp_path, Here())
    assert (outcome.executed, outcome.left) == (lost, 0)
    assert Folder(tmp_path).table.exists()


def test_parts_run_side_by_side_but_not_beside_the_whole(tmp_path: Path) -> None:
    begin([scenario()], tmp_path)
    place = Folder(tmp_path)
    with place.locked(shared=True):
        with place.locked(shared=True):
            assert status_of(tmp_path).running_for_s is not None
        with pytest.raises(ConfigError, match="a part of this one, is running"), place.locked():
            pass
    with place.locked():
        with pytest.raises(ConfigError, match="another campaign"), place.locked(shared=True):
            pass
        assert status_of(tmp_path).running_for_s is not None
    assert status_of(tmp_path).running_for_s is None


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    command = ("campaign", "run", str(tmp_path / "small.toml"), "-o", str(tmp_path / "out"), "-j", "1")
    assert exit_code(*command, "--part", "2/2") == 0
    told = capfd.readouterr()
    assert told.err.endswith("6 runs; 6 runs are left to other parts\n")
    assert told.out == ""
    assert exit_code("campaign", "resume", str(tmp_path / "out"), "-j", "1", "--part", "1/2") == 0
    assert "runs.parquet" in capfd.readouterr().err
    assert exit_code(*command, "--part", "3/2") == 2
    assert "expected a part such as 3/10" in capfd.readouterr().err
