"""``beasy-sched slurm`` with programs of a test's own in the place of Slurm's."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest
from command_line import exit_code

from beasy_sched.formats.simgrid_xml import read_simgrid_platform

Capture = pytest.CaptureFixture[str]
ANSWERS = Path(__file__).parent / "answers"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the programs, all that is on the PATH beside a shell's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    config = (ANSWERS / "config-22.05.txt").read_text()
    head, _, rest = config.partition("\n")
    assert head.startswith("Configuration data as of ")
    (tmp_path / "config.txt").write_text(f"Configuration data as of {time.time():.0f}\n{rest}")
    write(
        folder, "sinfo", f'[ "$1" = --version ] && echo slurm-wlm 22.05.8 || cat {ANSWERS}/sinfo-22.05.json'
    )
    write(folder, "squeue", f"cat {ANSWERS}/squeue-22.05.json")
    write(folder, "sacct", f'echo "$@" > {tmp_path}/asked; cat {ANSWERS}/sacct-22.05.json')
    write(folder, "scontrol", f'[ "$2" = config ] && cat {tmp_path}/config.txt || echo OverSubscribe=NO')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def write(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_import_asks_for_the_days(programs: Path, tmp_path: Path, capfd: Capture):
    out = tmp_path / "w.json"
    days = ["--from", "2026-11-01", "--to", "2026-12-01", "--partition", "main"]
    assert exit_code("slurm", "import", *days, "-o", str(out)) == 0
    asked = (tmp_path / "asked").read_text().split()
    assert asked == [
        "--json",
        "--allusers",
        "--starttime=2026-11-01",
        "--endtime=2026-12-01",
        "--partition=main",
    ]
    made = json.loads(out.read_text())
    assert made["nb_res"] == 4
    assert [job["id"] for job in made["jobs"]] == ["1", "2", "3_1", "3_5", "4", "5", "8", "12"]
    told = capfd.readouterr().err
    assert f"{out}: 8 jobs in " in told
    assert "reference speed: 25.57 Gflops (median P-state of gros)" in told
    assert "omitted: 4 of 12" in told
    assert "1 still running (job 13)" in told


def test_import_of_a_file_has_the_words_of_generate_workload(tmp_path: Path, capfd: Capture):
    call = ["slurm", "import", "--file", str(ANSWERS / "sacct-22.05.json"), "-o", "-"]
    assert exit_code(*call, "--reference-speed", "1Gf", "--profile-type", "delay", "-q") == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["profiles"]["p1"] == {"type": "delay", "delay": 2}
    assert err == ""
    assert exit_code(*call, "--reference-speed", "1Gf", "--platform-preset", "taurus") == 2
    assert exit_code(*call, "--from", "2026-11-26") == 2
    assert "no jobs left of 12: 12 submitted before the start" in capfd.readouterr().err


def test_import_of_jobs_without_a_limit_and_of_one_cluster(programs: Path, tmp_path: Path, capfd: Capture):
    call = ["slurm", "import", "--file", str(ANSWERS / "sacct-22.05.json"), "-o", "-", "-q"]
    assert exit_code(*call, "--missing-walltime", "drop") == 0
    jobs = json.loads(capfd.readouterr().out)["jobs"]
    assert jobs
    assert all("walltime" in job for job in jobs)
    assert exit_code(*call, "--missing-walltime", "1d") == 2
    assert "'1d' is not 'drop', 'none' or a multiple of the run time" in capfd.readouterr().err
    assert exit_code("slurm", "import", "--from", "2026-11-01", "--cluster", "nowhere", "-o", "-") == 2
    assert "--clusters=nowhere" in (tmp_path / "asked").read_text()
    assert "no job of cluster 'nowhere'" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["sacct.txt", "sacct-22.05.json"])
def test_import_of_a_file_in_any_wrapping_is_the_same(name: str, tmp_path: Path, capfd: Capture):
    if name == "sacct.txt":
        columns = "JobID|State|Submit|Start|End|NNodes|Timelimit"
        plain = f"{columns}\n1|COMPLETED|1767225600|1767225660|1767225960|2|01:00:00\n"
    else:
        plain = (ANSWERS / name).read_text("utf-8")
    made = []
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        for pack in (bytes, gzip.compress):
            path, out = tmp_path / name, tmp_path / "w.json"
            path.write_bytes(pack(plain.encode(encoding)))
            code = exit_code("slurm", "import", "--file", str(path), "-q", "-o", str(out))
            assert code == 0, capfd.readouterr().err
            made.append(out.read_bytes())
    assert len(made) == 6
    assert len({*made}) == 1


def test_import_needs_a_source(capfd: Capture):
    assert exit_code("slurm", "import", "-o", "-") == 2
    assert "Give --from DATE, to query Slurm, or --file FILE." in capfd.readouterr().err
    assert exit_code("slurm", "import", "--from", "2026-02-01", "--to", "2026-01-01", "-o", "-") == 2
    assert exit_code("slurm", "import", "--from", "last week", "-o", "-") == 2
    assert "'last week', expected a time such as 2026-01-01" in capfd.readouterr().err


def test_platform(programs: Path, tmp_path: Path, capfd: Capture):
    out = tmp_path / "p.xml"
    rules = ["--server", "n[1-2]=gros", "--server", "taurus"]
    assert exit_code("slurm", "platform", *rules, "-o", str(out)) == 0
    assert f"{out}: 4 hosts\n  ids 0-1: gros (computing P-states 0-12" in capfd.readouterr().err
    assert read_simgrid_platform(out, master="master_host").platform.names == ("n1", "n2", "n3", "n4")
    assert exit_code("slurm", "platform", "--server", "n1=gros", "-o", str(out)) == 2
    assert "no server is given for n[2-4]: add --server 'n[2-4]=gros'" in capfd.readouterr().err


def test_check_is_odd_for_a_node_out_of_service(
    programs: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("beasy_sched.plugins.slurm.cluster_check._user", lambda: "root")
    assert exit_code("slurm", "check", "--partition", "main") == 1
    table = capfd.readouterr().out
    assert "partition main      4: n[1-4]\n" in table
    assert "warning             1 node out of service: n4\n" in table
    assert table.endswith("\nverdict             warnings\n")
    assert exit_code("slurm", "check", "--json") == 1
    report = json.loads(capfd.readouterr().out)
    assert report["verdict"] == "warnings"
    assert report["figures"]["held on submission"] == "JobSubmitPlugins=lua"
    assert [finding["code"] for finding in report["findings"]] == ["slurm-nodes-out"]
    monkeypatch.setattr("beasy_sched.plugins.slurm.cluster_check._user", lambda: "ada")
    assert exit_code("slurm", "check", "-q") == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: this user may not change jobs and nodes")


def test_the_script(capfd: Capture):
    assert exit_code("slurm", "check", "-P", "night", "--script") == 0
    assert 'local held = "night"' in capfd.readouterr().out
    assert exit_code("slurm", "check", "--script") == 2


@pytest.mark.parametrize("command", ["import --from 2026-01-01 -o -", "platform --server gros -o -", "check"])
def test_without_slurm(command: str, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert exit_code("slurm", *command.split()) == 2
    told = capfd.readouterr().err
    assert (
        "cannot be started (No such file or directory): install Slurm's client commands, or run this on"
        in told
    )
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("command", ["import --from 2026-01-01 -o -", "platform --server gros -o -", "check"])
def test_a_controller_that_is_away(programs: Path, command: str, capfd: Capture):
    for name in ("sacct", "scontrol"):
        write(programs, name, "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1")
    away = ANSWERS / "squeue-22.05-away.json"
    nodes = away.read_text().replace('"jobs"', '"nodes"')
    (programs / "away").write_text(nodes)
    write(programs, "sinfo", f'[ "$1" = --version ] && echo slurm-wlm 22.05.8 || cat {programs}/away')
    assert exit_code("slurm", *command.split()) == 1
    told = capfd.readouterr().err
    assert "Unable to contact" in told or "Failed while looking" in told
    assert len(told.splitlines()) == 1
