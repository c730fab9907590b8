"""scripts/reproduce_critical and scripts/reproduce_average, with all their real parts."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from project.shell import ROOT, run
from small_campaign import SMALL
from studies.beasy.command import parse_arguments
from studies.beasy.study import Size

CRITICAL = ROOT / "scripts" / "reproduce_critical"
AVERAGE = ROOT / "scripts" / "reproduce_average"


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        ("critical", Size(2, 1, 0)),
        ("average", Size(10, 1, 0)),
        ("critical --quick", Size(1, 1, 0, small=True)),
        ("critical --seeds 3 --ablation-seeds 1", Size(3, 1, 1)),
        ("critical --seeds 4 --shed-seeds 9 --ablation-seeds 0", Size(4, 4, 0)),
        ("average --scenario a.toml --shed-seeds 0", Size(10, 0, 0)),
        ("critical --scenario a.toml", Size(2, 1, 0)),
    ],
)
def test_sizes(arguments, size):
    assert parse_arguments(arguments.split()).size == size


def test_quick_results_do_not_mix_with_others():
    assert parse_arguments(["critical"]).out != parse_arguments(["critical", "--quick"]).out


@pytest.mark.parametrize(
    "arguments",
    ["critical --seeds 0", "average --ablation-seeds 1", "critical --jobs x", "average --scenario"],
)
def test_mistakes_end_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        parse_arguments(arguments.split())
    assert stop.value.code == 2
    assert f"scripts/reproduce_{arguments.split()[0]}" in capsys.readouterr().err


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.mark.slow
def test_a_scenario_of_ones_own_and_once_more(tmp_path: Path, small: Path):
    command = (CRITICAL, "--scenario", small, "--out", "out", "--seeds", "2", "--shed-seeds", "1")
    done = run(*map(str, command), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "critical: 6 runs, 6 in" in done.stderr
    assert "critical-shed: 3 runs, 3 in" in done.stderr
    assert {"Table I: ranks", "Means and 95 % intervals"} <= {
        line.strip() for line in done.stdout.splitlines()
    }
    assert "| small | Finished jobs |" in (tmp_path / "out/tables-critical.md").read_text()
    assert (tmp_path / "out/figures/small.pdf").exists()
    again = run(*map(str, command), cwd=tmp_path)
    assert "critical: 6 runs, all done before" in again.stderr
    tables, _, origin = done.stdout.partition("6 runs: small; noise seeds 1 to 2")
    assert origin
    assert again.stdout.startswith(tables)


@pytest.mark.slow
def test_another_campaign_in_the_folder_is_refused(tmp_path: Path, small: Path):
    (tmp_path / "out" / "critical").mkdir(parents=True)
    (tmp_path / "out" / "critical" / "notes.txt").write_text("mine")
    done = run(str(CRITICAL), "--scenario", str(small), "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().startswith(
        "reproduce_critical: out/critical is not empty and does not contain a campaign"
    )


@pytest.mark.slow
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, small: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    done = run(str(CRITICAL), "--scenario", str(small), "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "reproduce_critical: out is not empty and does not contain an earlier reproduction:"
        " choose another folder"
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "figures"),
    [
        (CRITICAL, {"fig03_predictions", "fig04_nine_curves", "fig07_power", "fig09_best-begin", "fig10_soc",
                    "fig11_best-end", "fig12_worst-begin", "fig13_worst-end"}),
        (AVERAGE, {"fig08_power", "fig14_average", "fig15_soc", "average_outcomes"}),
    ],
    ids=["critical", "average"],
)  # fmt: skip
def test_quick(tmp_path: Path, script: Path, figures: set[str]):
    done = run(str(script), "--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for title in ("Table I: ranks", "Printed numbers", "Claims:", "Guard: kill-all"):
        assert title in done.stdout
    drawn = {path.stem for path in (tmp_path / "out/reproduction-quick/figures").glob("*.pdf")}
    assert figures <= drawn
    page = tmp_path / f"out/reproduction-quick/tables-{script.name.removeprefix('reproduce_')}.md"
    assert "Too few executions" in page.read_text()
    assert f"- Written by `scripts/{script.name} --quick` on 20" in page.read_text()


@pytest.mark.slow
def test_stops_cleanly_and_goes_on(tmp_path: Path):
    command = [str(AVERAGE), "--quick", "--shed-seeds", "0"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    rows = tmp_path / "out/reproduction-quick/average/rows"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (rows.is_dir() and any(rows.iterdir())):
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=600)
    assert process.returncode == 130
    assert told.strip().endswith("the same command continues")
    assert "Traceback" not in told
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"average: 16 runs, (\d+) in", done.stderr)
