"""The page of examples is true: its commands run, their outputs are what it shows and lists."""

import json
import re
from pathlib import Path

import pytest
from project.played import EXAMPLES, blocks, make_place, play
from project.shell import ROOT

NOT_RUN = {
    "scripts/reproduce_critical --quick\nscripts/reproduce_average --quick\n": "test_reproduce.py runs them",
    ". .venv/bin/activate      # or: pip install '.[plan,plot]'\n": "the tests have an environment",
}
"""Commands that are not run here, and why."""
SHORTER = {
    "scripts/run_year --quick\n": "scripts/run_year --quick --policy beasy\n",
    "beasy-sched campaign run best-begin worst-begin --quick -o out/campaign\n": (
        "beasy-sched campaign run best-begin --quick -o out/campaign\n"
    ),
}
"""Commands that run with fewer policies or scenarios; `test_as_the_page_has_it` gives them as they are."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_place(tmp_path_factory.mktemp("user"))


@pytest.fixture(scope="module")
def played(place: Path) -> Path:
    """The folder after all commands: tests that need it may run in another process than the first."""
    known = [block for block in blocks(EXAMPLES, "bash") if block not in NOT_RUN]
    assert len(blocks(EXAMPLES, "bash")) == len(known) + len(NOT_RUN)
    assert {*SHORTER} <= {*known}
    for block in known:
        play(place, SHORTER.get(block, block))
    return place


@pytest.mark.slow
def test_every_command_runs(played: Path):
    for name in ("month", "easy", "greenslot", "year/beasy/run"):
        for written in ("jobs.csv", "energy_trace.csv", "decisions.jsonl", "summary.json"):
            assert (played / f"out/{name}_{written}").stat().st_size > 100


@pytest.mark.slow
def test_greenslot_prints_what_the_page_shows(played: Path):
    """The figures may differ in their last digits: another processor may round another way."""
    shown = (
        EXAMPLES.partition("## Grid, prices and deadlines")[2].partition("```text\n")[2].partition("```")[0]
    )
    labels = {"energy imported": "import_kwh", "  cost": "cost", "green energy used": "green_kwh"}
    for column, policy in enumerate(("conventional", "greenslot")):
        summary = json.loads((played / f"out/{policy}_summary.json").read_text("utf-8"))
        assert summary["deadlines"]["jobs_met"] == summary["jobs"]["finished"] == 352
        assert shown.count("352 of 352") == 2
        for label, field in labels.items():
            (line,) = re.findall(rf"^{label} .*", shown, re.MULTILINE)
            printed = re.findall(r"(\d+\.\d+) (?:kWh|USD)", line)
            assert float(printed[column]) == pytest.approx(summary["grid"][field], rel=0.02)


@pytest.mark.slow
def test_all_outputs_are_listed(played: Path):
    table = r"\w+\.(?:csv|jsonl?)"
    page = (ROOT / "docs/reference/files.md").read_text("utf-8").partition("## Output files of a run")[2]
    named = set(re.findall(f"`PREFIX_({table})`", page.partition("\n## ")[0]))
    paths = [path for run in ("easy", "greenslot", "year/beasy/run") for path in played.glob(f"out/{run}_*")]
    written = {name for path in paths if re.fullmatch(table, name := path.name.partition("_")[2])}
    assert named == written | {"foresee.jsonl"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "written"),
    [*zip(SHORTER, ("year/bid-price/run_summary.json", "campaign/runs.parquet"), strict=True)],
)
def test_as_the_page_has_it(tmp_path: Path, command: str, written: str):
    place = make_place(tmp_path)
    play(place, command)
    assert (place / "out" / written).stat().st_size > 100
