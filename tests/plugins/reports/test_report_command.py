"""`beasy-sched report` on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.reports.by_hand import JOBS, write_run
from project.shell import ROOT

pytest.importorskip("pyarrow", reason="reports need pyarrow")

CAMPAIGNS = pytest.mark.plugins("campaigns")
DAYS = ROOT / "beasy_sched/plugins/campaigns/comparisons/sites/days.toml"
pytest.importorskip("plotly", reason="reports need plotly")


@pytest.mark.slow
def test_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert exit_code("report", write_run(tmp_path / "a"), "-o", str(out)) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"wrote {out} (")
    text = out.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.endswith("</html>\n")
    assert [path.name for path in tmp_path.glob("*.html*")] == ["report.html"]


@pytest.mark.slow
@CAMPAIGNS
def test_a_run_with_battery_and_hydrogen(tmp_path: Path) -> None:
    files = ("-p", ROOT / "platforms/example-mixed.xml", "-w", ROOT / "workloads/synthetic-12.json")
    run, out = tmp_path / "run", tmp_path / "report.html"
    assert (
        exit_code(
            "simulate",
            *map(
                str,
                (
                    *files,
                    "--site",
                    DAYS,
                    "-e",
                    run,
                    "-q",
                ),
            ),
        )
        == 0
    )
    assert '"hydrogen_hold"' in Path(f"{run}_summary.json").read_text("utf-8")
    assert exit_code("report", str(run), "-o", str(out), "-q") == 0
    assert "ydrogen" in out.read_text("utf-8")


@pytest.mark.slow
def test_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("report", write_run(tmp_path / "a"), "-o", str(tmp_path / "r.html"), "-q") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing: is not a run"),
        (["bad"], "bad_jobs.csv: final_state: found 'EATEN'"),
        (["a", "--plan", "a_jobs.csv"], "a_jobs.csv: is not a beasy-sched plan"),
        pytest.param(["a", "campaign"], "campaign is a campaign, which cannot be combined", marks=CAMPAIGNS),
        pytest.param(["campaign", "--plan", "p"], "a plan applies only to single runs", marks=CAMPAIGNS),
        pytest.param(["campaign"], "campaign.json", marks=CAMPAIGNS),
    ],
)
def test_errors_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str],
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "a")
    write_run(tmp_path / "bad", jobs=JOBS.replace("REJECTED", "EATEN"))
    (tmp_path / "campaign").mkdir()
    (tmp_path / "campaign" / "campaign.json").write_text("{")
    assert exit_code("report", *arguments, "-o", "r.html") == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "r.html").exists()


def test_no_folder_to_write_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("report", write_run(tmp_path / "a"), "-o", str(tmp_path / "no" / "r.html")) == 2
    assert "its folder does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["pyarrow", "plotly"])
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    prefix = write_run(tmp_path / "a")
    monkeypatch.setitem(sys.modules, name, None)
    assert exit_code("report", prefix, "-o", str(tmp_path / "r.html")) == 2
    assert f"reports need {name}: pip install '.[report]'" in capsys.readouterr().err


def test_the_terminal_is_no_place_for_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code("report", write_run(tmp_path / "a"), "-o", "-") == 2
    assert "a report must be written to a file" in capsys.readouterr().err
    assert not Path("-").exists()


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("report", "--help") == 0
    assert "beasy-sched report out/easy out/beasy --plan plan.msgpack -o both.html" in capsys.readouterr().out
