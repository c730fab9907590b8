"""Numbers of things in what is printed: one is not several."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import exit_code

from beasy_sched.outputs.reasons import in_words
from beasy_sched.plugins.reports.explain_job import _later
from beasy_sched.units import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (2000, "2,000 rows")]
)
def test_one_is_not_several(count: int, text: str) -> None:
    assert counted(count, "row") == text


def test_a_site_of_one_host(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("generate", "platform", "-n", "gros:1", "-o", str(tmp_path / "p.xml")) == 0
    assert "p.xml: 1 host\n" in capfd.readouterr().err
    (tmp_path / "t.swf").write_text("1 600 5 300 1 -1 -1 1 900 -1 1 1 1 -1 1 -1 -1 -1\n")
    made = ("--swf", str(tmp_path / "t.swf"), "-o", str(tmp_path / "w.json"))
    assert exit_code("generate", "workload", *made) == 0
    assert " for 1 host" in (err := capfd.readouterr().err)
    assert "1 hosts" not in err


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (None, "all hosts of the platform"),
        (1, "the 1 host of the platform"),
        (1200, "the 1,200 hosts of the platform"),
    ],
)
def test_hosts_in_a_reason(hosts: int | None, text: str) -> None:
    assert in_words("rejected", "asks for more hosts than there are", hosts).endswith(text)


@pytest.mark.parametrize(
    ("later", "others", "text"),
    [
        (None, 3, ""),
        (0, 1, "; it was not submitted later"),
        (1, 1, "; it was submitted later"),
        (0, 4, "; none of them were submitted later"),
        (1, 4, "; 1 of them was submitted later"),
        (4, 4, "; all of them were submitted later"),
    ],
)
def test_jobs_that_started_before(later: int | None, others: int, text: str) -> None:
    assert _later(later, others) == text
