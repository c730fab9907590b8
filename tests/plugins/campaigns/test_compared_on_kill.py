"""`compare` with policies whose killed jobs come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code
from small_site import small_site

from beasy_sched.model.choices import OnKill
from beasy_sched.plugins.campaigns.comparisons.compared_policy import ComparedPolicy


def test_it_is_not_an_option_of_the_policy() -> None:
    policy = ComparedPolicy.of("greenslot on_kill=checkpoint prices=flat")
    assert policy.arguments == ("--option", "prices=flat")
    assert policy.on_kill is OnKill.CHECKPOINT
    assert ComparedPolicy.of("easy").on_kill is None
    with pytest.raises(
        ValueError, match="on_kill: found 'forget', expected one of drop, requeue, checkpoint"
    ):
        ComparedPolicy.of("easy on_kill=forget")


@pytest.mark.sampled
@pytest.mark.parametrize("wire", [(), ("--wire",)])
def test_each_treatment_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wire: tuple[str, ...]
) -> None:
    site = small_site(tmp_path, jobs=20)
    given = ["-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site]
    policies = [f"easy{setting}" for setting in ("", " on_kill=drop", " on_kill=requeue")]
    asked = [part for policy in policies for part in ("--policy", policy)]
    out = tmp_path / "out"
    assert exit_code("compare", *map(str, given), *asked, *wire, "-o", str(out), "--no-report", "-q") == 0
    assert "easy on_kill=requeue" in capsys.readouterr().out
    summaries = [
        json.loads((out / folder / "run_summary.json").read_text())
        for folder in ("easy", "easy_on_kill_drop", "easy_on_kill_requeue")
    ]
    assert [each["settings"].get("on_kill") for each in summaries] == [None, "drop", "requeue"]
    assert "restarts" in summaries[2]
    assert summaries[0]["jobs"] == summaries[1]["jobs"]
