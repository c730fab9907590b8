"""Plain English in docstrings, comments, messages and pages (rules: plain_english.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from project.plain_english import (
    CHECKED,
    DOCSTRINGS,
    EXCEPTIONS,
    HELP,
    NOT_YET,
    PHRASES,
    ROOT,
    Text,
    exception_of,
    files,
    findings,
    page_texts,
    python_texts,
    wrong_words,
)

NAMES = [
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "beasy_sched").glob("[!_]*"))),
    *(name for name in CHECKED if name != "beasy_sched"),
]
WRONG = {
    PHRASES: """
        The program tells the reason. | The page says so. | Servers that did not come. | It stands for a mean.
        It knows no grid. | The power is not known. | It is computed anew. | The run goes on. | It went wrong.
        a folder of its own | It is no bundle. | Jobs are left out. | The option is refused. | What is odd?
        over five noises | expected a text | a whole number | Draw a picture. | processor time | beside it
        sun and wind | for so long | what became of the jobs | It does, too. | the level less its target
        files that are there | reckoned | none at all | shown as it is. | the most to be had | without a word
        real time, s | the standard error | Expected are two numbers. | End. Then follow rows. | thereof
        It shall wait. | the neighbor | optimised
    """,
    DOCSTRINGS: "What a run writes. | How long it took. | Those that run.",
    HELP: "Whether to write it. | What to write.",
}
RIGHT = """
    The value comes from the file. | first come, first served | There is no plan. | It is no longer used.
    odd numbers | the connection is refused | a noise seed | with files of your own trace
    half a standard error | twice as fast as real time | It knows the plan.
    each noise realization | a whole number of steps | the standard error of the mean
    It is no reason to stop. | it comes later | 20 times real time
    Jobs too wide for it. | at all steps | a text file | It is less than the limit. | known in advance
"""


def sentences(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split("|")]


@pytest.mark.parametrize("name", NAMES)
def test_the_texts_are_plain(name: str) -> None:
    if any(Path(name).is_relative_to(each) for each in NOT_YET):
        pytest.skip("not yet revised")
    found = [
        each
        for each in wrong_words(ROOT / name)
        if not any(Path(each.path).is_relative_to(name) for name in NOT_YET)
    ]
    assert not found, "\n".join(map(str, found))


def test_names_and_exceptions_are_needed() -> None:
    assert all((ROOT / name).exists() for name in (*CHECKED, *NOT_YET))
    used = {
        exception_of(each)
        for path in sorted({ROOT / each.path for each in EXCEPTIONS})
        for each in findings(path)
    }
    assert {*EXCEPTIONS} <= used
    assert all(each.reason for each in EXCEPTIONS)


def test_each_rule_finds_its_words() -> None:
    for rules, text in WRONG.items():
        found = [[rule for rule in rules if rule.expression.search(each)] for each in sentences(text)]
        assert all(found)
        assert {rule for each in found for rule in each} == {*rules}


def test_right_words_are_not_found() -> None:
    for text in sentences(RIGHT):
        assert [rule.pattern for rule in (*PHRASES, *DOCSTRINGS) if rule.expression.search(text)] == []


def test_texts_of_python() -> None:
    source = '''"""Module."""
import click
LIMIT = 1  # a comment
# of two lines
"""A constant."""
@click.option("--x", help="Whether it is.")
def f(level: int) -> str:
    return f"level {level} of all"
'''
    found = [*python_texts(source)]
    assert Text(6, "Whether it is.", HELP) in found
    assert Text(5, "A constant.", DOCSTRINGS) in found
    assert Text(3, "a comment\nof two lines") in found
    assert {"Module.", "level ", " of all"} <= {each.text for each in found}
    assert "--x" not in {each.text for each in found}


def test_texts_of_pages() -> None:
    source = "# A `b`\n\n```sh\nrun tell # say it\n```\n\n    told\n\n[page](come.md)\n"
    (page,) = page_texts(source)
    assert page.text.split() == ["#", "A", "``", "say", "it", "[page]"]
    assert page.text.count("\n") == source.count("\n")


def test_words_are_found_over_the_end_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("project.plain_english.ROOT", tmp_path)
    (tmp_path / "page.md").write_text("# Page\n\nThis is left\nout here.\n")
    (found,) = findings(tmp_path / "page.md")
    assert (found.path, found.line, found.words) == ("page.md", 3, "left out")
    assert str(found).startswith("page.md:3: 'left out' in '")
    assert files(tmp_path) == [tmp_path / "page.md"]
