"""scripts/results puts the pages of studies where they belong; those pages say where they come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project.shell import ROOT, run

SCRIPT = ROOT / "scripts/results"
PAGES = sorted(path for path in (ROOT / "docs/results").glob("*.md") if path.stem != "index")


def test_a_run_that_is_there(tmp_path: Path):
    out, into = tmp_path / "out", tmp_path / "pages"
    (out / "figures").mkdir(parents=True)
    for name in ("a.png", "not-shown.png"):
        (out / "figures" / name).write_bytes(name.encode())
    (out / "tables.md").write_text("# T\n\n![a](figures/a.png)\n")
    (into / "figures/learning").mkdir(parents=True)
    (into / "figures/learning/old.png").write_bytes(b"old")
    done = run(SCRIPT, f"learning={out}", "--into", into)
    assert done.returncode == 0, done.stderr
    assert (into / "learning.md").read_text() == "# T\n\n![a](figures/learning/a.png)\n"
    assert [path.name for path in (into / "figures/learning").iterdir()] == ["a.png"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("study", "message"),
    [
        ("unknown", "expected one of"),
        ("learning=no-such-folder", "expected the folder of a run"),
        ("greenslot-files", "requires your own files"),
    ],
)
def test_mistakes_end_with_2(study: str, message: str, tmp_path: Path):
    done = run(SCRIPT, study, "--into", tmp_path / "pages")
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "pages").exists()


def test_every_page_has_its_study():
    studies = re.findall(r'^    "([\w-]+)": Study\(', SCRIPT.read_text("utf-8"), re.MULTILINE)
    assert {page.stem for page in PAGES} == {*studies, "conformance"}  # which scripts/conformance writes


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_page_is_stamped(page: Path):
    (stamp,) = re.findall(r"^- Written by `scripts/.*$", page.read_text("utf-8"), re.MULTILINE)
    assert re.search(r"` .*on 20\d\d-\d\d-\d\d; beasy-sched \S+ \([^)]+\)", stamp)
