"""Held jobs have their expected start in their comment, after what their user wrote there."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.slurm.fake_slurm import FakeSlurm
from plugins.slurm.live_cases import Beside, platform_of, submit

from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.forecast_news import ForecastNews
from beasy_sched.plugins.slurm.live import LiveRun
from beasy_sched.plugins.slurm.live_settings import LiveSettings
from beasy_sched.plugins.slurm.slurm_commands import Slurm
from beasy_sched.plugins.slurm.told_starts import ToldStarts, comment_of, own_comment
from beasy_sched.run.settings import RunSettings

NOON_S = datetime(2027, 1, 15, 12, 0).timestamp()
HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("own", "low_h", "high_h", "comment"),
    [
        ("", 2, 3.5, "start expected 14:00 to 15:30"),
        ("mine; and more", 2, 3.5, "mine; and more; start expected 14:00 to 15:30"),
        ("", 11, 26, "start expected 23:00 to 16 Jan 14:00"),
    ],
)
def test_a_comment_keeps_what_its_user_wrote(own: str, low_h: float, high_h: float, comment: str) -> None:
    written = comment_of(own, NOON_S + low_h * HOUR_S, NOON_S + high_h * HOUR_S, NOON_S)
    assert written == comment
    assert own_comment(written) == own
    assert own_comment(own) == own


def test_a_users_own_words_about_starts_are_kept() -> None:
    for own in ("start expected soon", "start expected 14:00 to 15:30, I hope", "see start expected x to y"):
        assert own_comment(own) == own


def _beside(nodes: int = 2) -> tuple[FakeSlurm, Beside, ToldStarts]:
    slurm = FakeSlurm(nodes, now_s=NOON_S)
    beside = Beside(slurm)
    told = beside.bridge.told_starts = ToldStarts(beside.bridge.epoch_s)
    return slurm, beside, told


def _news(now_s: float, **starts_h: tuple[float, float]) -> ForecastNews:
    """``j2=(1, 2)``: job 2 is expected to start in one to two hours."""
    starts_s = {
        f"slurm!{name[1:]}": (now_s + low * HOUR_S, now_s + high * HOUR_S)
        for name, (low, high) in starts_h.items()
    }
    return ForecastNews(now_s, starts_s, 1, 0)


def _comments(slurm: FakeSlurm) -> int:
    return sum(part.startswith("Comment=") for command in slurm.commands for part in command)


def test_a_comment_changes_only_if_the_start_moves_by_ten_minutes() -> None:
    slurm, beside, told = _beside()
    submit(slurm, nodes=2, run_s=5000)
    held = submit(slurm, nodes=2, comment="for the paper")
    beside.go(5)
    assert slurm.jobs[held].comment == "for the paper"
    told.take(_news(5.0, j2=(1.0, 2.0)))
    beside.go(5)
    first = slurm.jobs[held].comment
    assert first == "for the paper; start expected 13:00 to 14:00"
    told.take(_news(5.0, j2=(1.1, 2.1)))  # 6 minutes
    beside.go(5)
    assert (slurm.jobs[held].comment, _comments(slurm)) == (first, 1)
    told.take(_news(5.0, j2=(1.0, 2.5)))
    beside.go(5)
    assert slurm.jobs[held].comment == "for the paper; start expected 13:00 to 14:30"
    assert _comments(slurm) == 2


def test_small_moves_add_up() -> None:
    slurm, beside, told = _beside()
    submit(slurm, nodes=2, run_s=5000)
    held = submit(slurm, nodes=2)
    for step in range(4):
        told.take(_news(5.0, j2=(1.0 + 0.1 * step, 2.0)))
        beside.go(5)
    assert slurm.jobs[held].comment == "start expected 13:12 to 14:00"
    assert _comments(slurm) == 2


def test_a_job_that_starts_has_its_users_comment_again() -> None:
    slurm, beside, told = _beside()
    submit(slurm, nodes=2, run_s=100)
    held, bare = submit(slurm, nodes=2, run_s=100, comment="mine"), submit(slurm, nodes=2, run_s=100)
    beside.go(5)
    told.take(_news(5.0, j2=(0.1, 0.2), j3=(0.2, 0.3)))
    beside.go(5)
    assert slurm.jobs[held].comment.startswith("mine; start expected ")
    assert slurm.jobs[bare].comment.startswith("start expected ")
    beside.until(lambda: slurm.jobs[held].state == "RUNNING")
    beside.go(5)
    assert slurm.jobs[held].comment == "mine"
    beside.until(lambda: slurm.jobs[bare].state == "RUNNING")
    beside.go(5)
    assert slurm.jobs[bare].comment == ""


def test_a_few_comments_are_written_after_each_look() -> None:
    slurm, beside, told = _beside()
    submit(slurm, nodes=2, run_s=5000)
    jobs = [submit(slurm, nodes=2) for _ in range(12)]
    beside.go(5)
    told.take(_news(5.0, **{f"j{number}": (number, number + 1.0) for number in range(2, 14)}))
    counts = []
    for _ in range(4):
        beside.go(1)
        counts.append(_comments(slurm))
    assert counts == [5, 10, 12, 12]
    assert all(slurm.jobs[job].comment for job in jobs)


def test_tasks_of_an_array_share_a_comment() -> None:
    slurm, beside, told = _beside()
    submit(slurm, nodes=2, run_s=5000)
    submit(slurm, nodes=2, tasks=(1, 2, 3))
    beside.go(5)
    told.take(_news(5.0, j2_1=(1.0, 2.0), j2_2=(2.0, 3.0), j2_3=(3.0, 4.0)))
    beside.go(5)
    assert _comments(slurm) == 1
    assert {slurm.jobs[f"2_{task}"].comment for task in (1, 2, 3)} == {"start expected 13:00 to 16:00"}


# --- with forecasts ---------------------------------------------------------------------------------------


def _live(slurm: FakeSlurm, prefix: Path, *, patient: bool = True, **given: object):
    """Run beside the fake with forecasts, each of which is waited for."""
    live = pytest.importorskip("beasy_sched.plugins.foresee.live")
    settings, said = RunSettings(policy="easy"), list[str]()
    follower = live.LiveForecaster(60.0, continuations=8, warn=said.append)

    def sleep(seconds: float) -> None:
        if patient and follower._batch is not None:
            os.waitid(os.P_PID, follower._batch.pid, os.WEXITED | os.WNOWAIT)
        slurm.advance(seconds)

    with RunFiles(str(prefix), settings) as files:
        run = LiveRun(
            platform_of(len(slurm.nodes)),
            settings,
            LiveSettings(partition="main", act=True, tell_users=True, **given),
            files,
            slurm=Slurm(slurm),
            followers=[follower],
            say=said.append,
            user="root",
            clock=lambda: slurm.now_s,
            sleep=sleep,
        )
        run.go()
    return follower, said


@pytest.mark.plugins("foresee")
def test_held_jobs_are_told_when_they_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("batch", "children"):
        monkeypatch.setattr(f"beasy_sched.plugins.foresee.{name}._NICENESS", 0)
    slurm = FakeSlurm(2, now_s=NOON_S)
    submit(slurm, nodes=2, run_s=3000, limit_s=3600)
    held = submit(slurm, nodes=2, run_s=3000, limit_s=3600, comment="mine")
    follower, said = _live(slurm, tmp_path / "r", for_s=300.0)
    assert said == []
    assert (follower.made, follower.dropped) == (5, 0)
    comment = slurm.jobs[held].comment
    found = re.fullmatch(r"mine; start expected (\d\d):(\d\d) to (\d\d):(\d\d)", comment)
    assert found, comment
    low_h, low_min, high_h, high_min = map(int, found.groups())
    assert 12 * 60 <= 60 * low_h + low_min <= 60 * high_h + high_min <= 13 * 60 + 5
    assert len((tmp_path / "r_foresee.jsonl").read_text().splitlines()) == 5


@pytest.mark.plugins("foresee")
def test_a_slow_forecast_does_not_keep_jobs_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same commands at the same times as without forecasts, though none is ever complete."""
    from beasy_sched.plugins.foresee.live import LiveForecaster

    monkeypatch.setattr(LiveForecaster, "_work", lambda self, time_s: os.kill(os.getpid(), 19) or b"")
    commands = []
    for follows in (True, False):
        slurm = FakeSlurm(2, now_s=NOON_S)
        for _ in range(3):
            submit(slurm, nodes=2, run_s=50)
        if follows:
            follower, _ = _live(slurm, tmp_path / "r", for_s=200.0, patient=False)
            assert (follower.made, follower.dropped) == (0, 4)
        else:
            beside = Beside(slurm)
            beside.go(200.0)
        changes = [command for command in slurm.commands if command[:2] == ("scontrol", "update")]
        commands.append(changes)
    assert commands[0] == commands[1]
    assert commands[0]


@pytest.mark.plugins("foresee")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--act", "--tell-users"], "--tell-users requires --foresee TIME"),
        (["--foresee", "5m", "--tell-users"], "--tell-users requires --act and --mode jobs"),
        (["--act", "--foresee", "5m", "-s", "tcp://127.0.0.1:1"], "omit -s/--socket-endpoint"),
        (
            ["--act", "--mode", "nodes-only", "--foresee", "5m", "--site", "default", "--power", "p.csv"],
            "--foresee requires --mode jobs: with nodes-only, Slurm starts the jobs",
        ),
    ],
)
def test_options_that_need_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    command = ["slurm", "run", "-P", "main", "-p", str(tmp_path / "nodes.xml"), "--policy", "easy"]
    assert exit_code(*command, *options) == 2
    assert text in capfd.readouterr().err
