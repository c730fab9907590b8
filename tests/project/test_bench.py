"""What `scripts/bench` compares this version with: the last release, from a wheel or from the clone."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from bench.release import (
    ROOT,
    NoRelease,
    calls_a_message,
    last_release,
    release_package,
    run_package,
    user_s,
)
from project.shell import run

UNRELEASED = "# Changelog\n\n## [Unreleased]\n\n- New.\n"
HEADING = "## [0.9.1] - 2025-02-03"


def git(clone: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", clone, *who, *arguments], check=True, capture_output=True)


def commit(clone: Path, changelog: str, version: str) -> None:
    (clone / "CHANGELOG.md").write_text(changelog)
    (clone / "beasy_sched").mkdir(exist_ok=True)
    (clone / "beasy_sched" / "__init__.py").write_text(f"version = {version!r}\n")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "A change")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a version, its release, and a change after it."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, UNRELEASED, "before")
    commit(folder, f"{UNRELEASED}\n{HEADING}\n\n- Old.\n", "released")
    commit(folder, f"{UNRELEASED}- Newer.\n\n{HEADING}\n\n- Old.\n", "after")
    return folder


def test_the_last_dated_version_is_the_release() -> None:
    older = "\n## [0.9.0] - 2024-12-31\n"
    assert last_release(f"{UNRELEASED}\n{HEADING}\n{older}") == ("0.9.1", HEADING)
    with pytest.raises(NoRelease, match="dates no version"):
        last_release(UNRELEASED)


def test_a_version_is_compared_with_the_one_before() -> None:
    older = "\n## [0.9.0] - 2024-12-31"
    assert last_release(f"{HEADING}\n{older}\n") == ("0.9.0", older.strip())
    with pytest.raises(NoRelease, match="only the present one"):
        last_release(HEADING)


def test_a_release_comes_from_the_commit_that_dated_it(clone: Path, tmp_path: Path) -> None:
    assert release_package(None, tmp_path, clone) == "0.9.1"
    assert "released" in (tmp_path / "beasy_sched" / "__init__.py").read_text()


def test_a_tag_comes_before_that_commit(clone: Path, tmp_path: Path) -> None:
    git(clone, "tag", "v0.9.1")
    assert release_package(None, tmp_path, clone) == "0.9.1"
    assert "after" in (tmp_path / "beasy_sched" / "__init__.py").read_text()


def test_a_release_comes_from_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "beasy_sched-0.8.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("beasy_sched/__init__.py", "place = __file__\n")
    folder = tmp_path / "folder"
    assert release_package(wheel, folder) == "0.8.2"
    printed = run_package(folder, "import beasy_sched; print(beasy_sched.place)", cwd=ROOT.parent)
    assert Path(printed.strip()) == folder / "beasy_sched" / "__init__.py"


def test_without_either_the_reason_is_stated(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(f"{UNRELEASED}\n{HEADING}\n")
    with pytest.raises(NoRelease, match=r"neither the tag v0\.9\.1 nor the commit that dated 0\.9\.1"):
        release_package(None, tmp_path, tmp_path)
    broken = tmp_path / "beasy_sched-0.8.2-py3-none-any.whl"
    broken.write_text("no zip")
    with pytest.raises(NoRelease, match="is not a wheel"):
        release_package(broken, tmp_path)


@pytest.mark.slow
def test_time_and_calls_of_a_run(tmp_path: Path) -> None:
    """Twice the messages take twice the calls; only what a run does once is left out of the count."""

    def a_message(jobs: int) -> float:
        shape = ["--jobs", jobs, "--hosts", 4, "--run-median", 60]
        user_s(ROOT, "generate", "workload", "--synthetic", *shape, "-o", "workload.json", cwd=tmp_path)
        return calls_a_message(ROOT, "simulate", *files, "--policy", "easy", "-q", cwd=tmp_path)

    files = ["-p", "platform.xml", "-w", "workload.json"]
    assert user_s(ROOT, "generate", "platform", "-n", "gros:4", "-o", "platform.xml", cwd=tmp_path) > 0.0
    few, many = a_message(1000), a_message(2000)
    assert 50.0 < many < few < 2.0 * many


def test_bench_refuses_a_wheel_that_is_missing() -> None:
    ended = run(ROOT / "scripts" / "bench", "--release", "nowhere.whl")
    assert ended.returncode != 0
    assert "there is no file nowhere.whl" in ended.stderr
