"""scripts/reproduce puts the pages of studies where they belong; those pages say where they come from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import reproduce_pages as script
from project.shell import ROOT, run

from beasy_sched import __version__

SCRIPT = ROOT / "scripts/reproduce"
PAGES = sorted(path for path in (ROOT / "docs/results").glob("*.md") if path.stem != "index")
BY_STUDIES = [page for page in PAGES if page.stem not in ("conformance", "performance")]
"""Those that scripts/reproduce makes."""


def stamp_of(page: Path) -> str:
    (stamp,) = re.findall(r"^- Written by `scripts/.*$", page.read_text("utf-8"), re.MULTILINE)
    return stamp


def test_a_run_that_is_there(tmp_path: Path):
    out, into = tmp_path / "out", tmp_path / "pages"
    (out / "figures").mkdir(parents=True)
    for name in ("a.png", "not-shown.png"):
        (out / "figures" / name).write_bytes(name.encode())
    (out / "tables.md").write_text("# T\n\n- Written by `x`; 1.0.\n\n![a](figures/a.png)\n")
    (into / "figures/learning").mkdir(parents=True)
    (into / "figures/learning/old.png").write_bytes(b"old")
    done = run(SCRIPT, f"learning={out}", "--into", into)
    assert done.returncode == 0, done.stderr
    page = into / "learning.md"
    text = f"# T\n\n- Written by `x`; 1.0; digest {script.digest(page)}.\n\n![a](figures/learning/a.png)\n"
    assert page.read_text() == text
    assert [path.name for path in (into / "figures/learning").iterdir()] == ["a.png"]
    before = script.digest(page)
    (into / "figures/learning/a.png").write_bytes(b"another")
    assert script.digest(page) != before


@pytest.mark.slow
def test_what_is_made_with_this_commit_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(script, "commit", lambda: "abc")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    command = "import pathlib; pathlib.Path('out/{{}}').mkdir(parents=True); print(1, file=open('made', 'a'))"
    monkeypatch.setattr(
        script.Study,
        "command",
        lambda self, folder, data, *, quick: ["python3", "-c", command.format(folder.name)],
    )
    chosen = type("Chosen", (), {"data": {}, "quick": True})
    folder = tmp_path / "out/results-quick/risk"
    for _ in range(2):
        assert script.run("risk", folder, chosen) == 0
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tables.md").write_text("# T\n")
    assert (tmp_path / "made").read_text() == "1\n"
    note = json.loads((folder / "made-risk.json").read_text())
    assert note["commit"] == "abc"
    assert note["seconds"] > 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["unknown"], "expected all or one of"),
        (["learning=no-such-folder"], "expected the folder of a run"),
        (["greenslot-files"], "give their folder with --data"),
        (["risk", "--data", str(ROOT / "docker")], "7 of its files, such as nottingham2019_ninja_pv"),
        (["all", "--data", "no-such-folder"], "is not a folder"),
    ],
)
def test_mistakes_end_with_2(arguments: list[str], message: str, tmp_path: Path):
    done = run(SCRIPT, *arguments, "--into", tmp_path / "pages")
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "pages").exists()


def test_all_without_files_and_how_long_they_took():
    done = run(SCRIPT, "all", "--list")
    assert done.returncode == 0, done.stderr
    assert "comparison" in done.stdout
    assert "energy-budget" not in done.stdout
    assert re.search(r"together +[\d.]+ h", done.stdout)


def test_every_page_has_its_study():
    assert {page.stem for page in BY_STUDIES} == {*script.STUDIES}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_page_is_stamped(page: Path):
    assert re.search(r"` .*on 20\d\d-\d\d-\d\d; beasy-sched \S+ \([^)]+\)", stamp_of(page))


@pytest.mark.parametrize("page", BY_STUDIES, ids=lambda path: path.name)
def test_tables_and_figures_are_those_that_the_stamp_is_of(page: Path):
    """A page that was changed by hand, or whose figures are another run's, has another digest."""
    assert stamp_of(page).endswith(f"; digest {script.digest(page)}.")


def test_pages_of_earlier_versions_are_listed():
    """The index names each page that was not made by the present version, and no other."""
    index = (ROOT / "docs/results/index.md").read_text("utf-8")
    older = {page.stem for page in PAGES if f"; beasy-sched {__version__} (" not in stamp_of(page)}
    listed = index.partition("Made by an earlier version")[2].partition("\n\n")[0]
    assert {*re.findall(r"\[([\w-]+)\]", listed)} == older
