"""Bundles of campaigns: what is in them, what is refused, and that a campaign run from one gives the same."""

from __future__ import annotations

import csv
import hashlib
import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command_line import exit_code
from small_campaign import SMALL, Here

from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.plugins.campaigns.bundles import comparing, layout, software
from beasy_sched.plugins.campaigns.bundles.bundled_scenarios import scenario_toml
from beasy_sched.plugins.campaigns.bundles.comparing import compare, verdict_lines
from beasy_sched.plugins.campaigns.bundles.rerun import run_again
from beasy_sched.plugins.campaigns.bundles.writing import Credits, write_bundle
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.plugins.campaigns.folder import scenario_hash
from beasy_sched.plugins.campaigns.scenario import NAMES
from beasy_sched.plugins.campaigns.scenario_file import find_scenario, parse_scenario, scenario_as_written

pytest.importorskip("rocrate")
pytest.importorskip("pandas")
Capture = pytest.CaptureFixture[str]

FEW = SMALL.replace("seeds = [1, 2]", "seeds = [1]").replace(', "workload-reactive"', "")
OWN_FILES = """
name = "own"
comment = "files of one's own: \\"quoted\\", and \\u00e9"
seeds = [3]
policies = [{ name = "conventional" }, { name = "greenslot", options = { prices = "flat" } }]
[platform]
servers = { "servers/ours.toml" = 4 }
[workload]
source = "swf"
file = "data/trace.swf"
cores_per_host = 1
[production]
source = "files"
pv = "data/sun_pv.csv"
pv_kw = 1
start = "2024-10-01 09:00"
[site]
battery = "none"
[site.time]
window_h = 3
start = 2024-10-01T09:00:00+00:00
[plan]
make = false
[grid]
price = { file = "data/prices.csv", known = "all" }
"""


def campaign_of(folder: Path, text: str, *, keep: str = "nothing", allowed: tuple[str, ...] = ()) -> Path:
    """Run a campaign in this process."""
    scenario = parse_scenario(text, folder / "scenario.toml", allowed=allowed)
    begin([scenario], folder / "campaign", keep=keep)
    go_on(folder / "campaign", Here(), allowed=allowed)
    return folder / "campaign"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that has ended; not to be changed."""
    return campaign_of(tmp_path_factory.mktemp("ended"), FEW, keep="everything")


@pytest.fixture(scope="module")
def made(ended: Path) -> Path:
    """A bundle of it; not to be changed."""
    credits = Credits("A title", ("Ada Byron <0000-0002-1825-0097>", "B. Nym"), "https://example.org/licence")
    return write_bundle(ended, ended.with_name("bundle"), credits).path


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """The bundle, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "bundle"))


def sum_up(bundle: Path) -> None:
    """Make the hashes of a bundle those of its files."""
    sums = {place: layout.sha256((bundle / place).read_bytes()) for place in layout.places_in(bundle)}
    del sums[layout.SUMS]
    (bundle / layout.SUMS).write_text(layout.sums_text(sums))


def write_own_files(folder: Path) -> None:
    for name in ("servers", "data"):
        (folder / name).mkdir(parents=True)
    preset = Path(software.__file__).parents[3] / "generate/servers/gros.toml"
    (folder / "servers/ours.toml").write_bytes(preset.read_bytes())
    jobs = [f"{n} {n * 300} 5 {300 + n} 1 -1 -1 1 900 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 30)]
    (folder / "data/trace.swf").write_text("; MaxProcs: 4\n" + "\n".join(jobs) + "\n")
    hours = [f"2024-10-01 {hour:02}:00" for hour in range(24)]
    ninja = ("--start", "2024-09-30", "--days", "3", "--write-ninja", str(folder / "data/sun"))
    power = ("generate", "power", "--synthetic", "--pv-kw", "1", *ninja)
    assert exit_code(*power, "-o", str(folder / "data/power.txt"), "-q") == 0
    (folder / "data/prices.csv").write_text(
        "time,price_per_kwh\n" + "".join(f"{hour},{0.1 + n / 100:g}\n" for n, hour in enumerate(hours))
    )


@pytest.mark.slow
def test_everything_lies_where_the_readme_says(ended: Path, made: Path):
    places = set(layout.places_in(made))
    assert {p for p in places if p.startswith("inputs/")} == {
        f"inputs/{path.name}" for path in (ended / "inputs").iterdir()
    }
    for place in ("runs.parquet", "timings.parquet"):
        assert (made / "results" / place).read_bytes() == (ended / place).read_bytes()
    assert sum(place.endswith("_summary.json") for place in places) == 4
    readme = (made / layout.README).read_text()
    assert "# A title" in readme
    assert "4 simulated runs" in readme
    for place in (layout.TABLE, layout.TABLE_CSV, layout.COLUMNS_CSV, layout.TIMINGS, layout.REQUIREMENTS):
        assert place in places
        assert place in readme
    rows = [*csv.DictReader((made / layout.TABLE_CSV).open())]
    columns = [row["column"] for row in csv.DictReader((made / layout.COLUMNS_CSV).open())]
    assert columns == [*rows[0]]
    assert [row["policy"] for row in rows] == ["easy", "follow-plan"] * 2


def test_the_hashes_are_those_that_sha256sum_reads(made: Path):
    done = subprocess.run(
        ["sha256sum", "--strict", "-c", layout.SUMS], cwd=made, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert set(layout.read_bundle(made).sums) == set(layout.places_in(made)) - {layout.SUMS}


def test_the_metadata_is_an_ro_crate_of_these_files(made: Path):
    from rocrate.rocrate import ROCrate

    crate = ROCrate(made)  # reads context, descriptor and root, or raises
    graph = json.loads((made / layout.METADATA).read_text())["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert len(entities) == len(graph)
    assert entities[layout.METADATA]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    root = entities["./"]
    assert {"name", "description", "datePublished", "license"} <= root.keys()
    assert crate.root_dataset["name"] == "A title"
    assert [entities[each["@id"]]["name"] for each in root["author"]] == ["Ada Byron", "B. Nym"]
    parts = {each["@id"] for each in root["hasPart"]}
    sums = layout.read_bundle(made).sums
    for place in parts:
        assert (made / place).exists()
        assert entities[place]["@type"] == ("Dataset" if place.endswith("/") else "File")
        if "sha256" in entities[place]:
            assert entities[place]["sha256"] == sums[place]
    folders = tuple(place for place in parts if place.endswith("/"))
    for place in sums.keys() - {layout.METADATA}:
        assert place in parts or place.startswith(folders), place
    action = entities[root["mentions"]["@id"]]
    assert action["@type"] == "CreateAction"
    assert (
        entities[action["instrument"]["@id"]]["softwareVersion"]
        == layout.read_bundle(made).description.version
    )
    assert {"@id": layout.TABLE} in action["result"]

    def refers(value: object) -> None:
        if isinstance(value, list):
            for each in value:
                refers(each)
        elif isinstance(value, dict):
            assert value["@id"] in entities or value["@id"].startswith("https://w3id.org/ro/"), value

    for entity in graph:
        for name, value in entity.items():
            if not name.startswith("@"):
                refers(value)


def test_the_same_campaign_gives_the_same_bundle(ended: Path, made: Path, tmp_path: Path):
    credits = Credits("A title", ("Ada Byron <0000-0002-1825-0097>", "B. Nym"), "https://example.org/licence")
    again = write_bundle(ended, tmp_path / "again", credits)
    assert (again.path / layout.SUMS).read_bytes() == (made / layout.SUMS).read_bytes()


@pytest.mark.slow
def test_a_campaign_that_runs_again_is_the_same(made: Path, tmp_path: Path):
    bundle = layout.read_bundle(made)
    verdict = run_again(bundle, tmp_path / "again", Here())
    assert verdict.reproduced
    assert {layout.TABLE, layout.TABLE_CSV, *bundle.within(layout.INPUTS)} <= {*verdict.same}
    told = [*verdict_lines(verdict)]
    assert [line for line in told if line.startswith("not compared")] == [
        f"not compared: {layout.TIMINGS}: run times differ each time",
        "not compared: results/runs/*/*_schedule.csv, scheduling_time and simulation_time: "
        "durations of runs and plans",
    ]


@pytest.mark.slow
def test_plans_that_are_made_during_the_runs(tmp_path: Path):
    pytest.importorskip("highspy")
    text = FEW.replace("seeds = [1]", "seeds = [1]\nwindows = 2") + '\n[plan]\nreplan = "window"\n'
    bundle = write_bundle(campaign_of(tmp_path, text, keep="everything"), tmp_path / "bundle", Credits())
    assert any(place.endswith("_plans.csv") for place in bundle.sums)
    verdict = run_again(bundle, tmp_path / "again", Here())
    assert verdict.reproduced
    assert "results/runs/*/*_plans.csv, solver_s" in verdict.left_out


def test_what_differs_is_found(made: Path, bundle: Path, tmp_path: Path):
    """A result, an input and a kept file are others than those that the campaign gives."""
    import pandas as pd

    shutil.copytree(made.with_name("campaign"), tmp_path / "again")
    table = pd.read_parquet(bundle / layout.TABLE)
    table.loc[2, "soc_final_pct"] += 1.0
    table.to_parquet(bundle / layout.TABLE, index=False)
    (power,) = bundle.glob("inputs/power-*")
    power.write_text(power.read_text() + "\n")
    kept = sorted(bundle.glob("results/runs/*/run_energy_trace.csv"))[0]
    kept.write_text(kept.read_text().replace("1", "2", 1))
    gone = sorted(bundle.glob("results/runs/*/run_jobs.csv"))[0]
    gone.unlink()
    sum_up(bundle)
    scenario = find_scenario(str(bundle / "scenarios/small.toml"))
    verdict = compare(layout.read_bundle(bundle), tmp_path / "again", [scenario])
    assert {str(bundle / place) for place in verdict.different} == {
        str(bundle / layout.TABLE), str(power), str(kept), str(gone)
    }  # fmt: skip
    assert (
        "column soc_final_pct in 1 of 4 runs, first in small.t0.s1.shed+veto.easy"
        in verdict.different[layout.TABLE]
    )
    assert not verdict.reproduced


def test_the_seconds_of_a_schedule_do_not_count_and_the_rest_does(made: Path, bundle: Path):
    scenario = find_scenario(str(bundle / "scenarios/small.toml"))
    place = sorted(bundle.glob("results/runs/*/run_schedule.csv"))[0]
    names, values = [*csv.reader(place.open())]

    def verdict_with(name: str) -> comparing.Verdict:
        changed = ["9.75" if each == name else value for each, value in zip(names, values, strict=True)]
        place.write_text(",".join(names) + "\n" + ",".join(changed) + "\n")
        sum_up(bundle)
        return compare(layout.read_bundle(bundle), made.with_name("campaign"), [scenario])

    assert verdict_with("simulation_time").reproduced
    assert [*verdict_with("makespan").different] == [place.relative_to(bundle).as_posix()]


def test_other_versions_are_left_out_and_told(bundle: Path, made: Path, monkeypatch: pytest.MonkeyPatch):
    """With another NumPy and pandas, the table's values count without the column that names the version."""
    import pandas as pd

    table = pd.read_parquet(bundle / layout.TABLE)
    table["numpy_version"] = "1.24.0"
    table.to_parquet(bundle / layout.TABLE, index=False)
    text = (bundle / layout.REQUIREMENTS).read_text()
    here = layout.read_bundle(made).versions
    text = text.replace(f"numpy=={here['numpy']}", "numpy==1.24.0").replace(
        f"pyarrow=={here['pyarrow']}", "pyarrow==1"
    )
    (bundle / layout.REQUIREMENTS).write_text(text)
    sum_up(bundle)
    found = layout.read_bundle(bundle)
    assert comparing.other_versions(found) == {
        "numpy": ("1.24.0", here["numpy"]), "pyarrow": ("1", here["pyarrow"])
    }  # fmt: skip
    verdict = compare(
        found, made.with_name("campaign"), [find_scenario(str(bundle / "scenarios/small.toml"))]
    )
    assert verdict.reproduced
    assert "1.24.0 in the bundle" in verdict.left_out[f"{layout.TABLE}, column numpy_version"]
    assert "pyarrow" in verdict.left_out[f"{layout.TABLE}, bytes"]


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_written_as_a_file_is_the_same(name: str):
    scenario = find_scenario(name)
    assert scenario_as_written(scenario_toml(scenario, {}), "x.toml") == scenario


@pytest.mark.slow
@pytest.mark.plugins("greenslot")
def test_a_campaign_with_files_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The bundle does not need the files where they were, and names no folder of its author's."""
    home = tmp_path / "private" / "home"
    write_own_files(home)
    folder = campaign_of(home, OWN_FILES)
    assert {*read_campaign(folder).runs["error"]} == {""}
    bundle = write_bundle(folder, tmp_path / "bundle", Credits())
    moved = (tmp_path / "private").rename(tmp_path / "elsewhere")
    assert {place for place in bundle.sums if place.startswith("files/")} == {
        "files/servers/ours.toml", "files/data/trace.swf", "files/data/sun_pv.csv", "files/data/prices.csv"
    }  # fmt: skip
    for place in bundle.sums:
        if not place.startswith("inputs/site-"):  # as the runs read it
            assert b"private" not in (bundle.path / place).read_bytes(), place
    verdict = run_again(bundle, tmp_path / "again", Here())
    assert verdict.reproduced
    assert "prices" in verdict.left_out["inputs/site-*"]
    assert f"{layout.TABLE}, column scenario_sha256" not in verdict.left_out
    shutil.rmtree(moved)


@pytest.mark.plugins("greenslot")
def test_the_hash_of_a_scenario_is_that_of_its_files_content(tmp_path: Path):
    for name in ("one", "two"):
        write_own_files(tmp_path / name)
    one, two = (parse_scenario(OWN_FILES, tmp_path / name / "scenario.toml") for name in ("one", "two"))
    assert one != two
    assert scenario_hash(one) == scenario_hash(two)
    (tmp_path / "two/data/prices.csv").write_text(
        "time,price_per_kwh\n2024-10-01 00:00,1\n2024-10-02 00:00,2\n"
    )
    assert scenario_hash(one) != scenario_hash(two)


POLICY = """
from beasy_sched.policies.easy import Easy

class Own(Easy):
    name = "own"
"""


@pytest.mark.slow
def test_a_policy_of_ones_own_comes_along_and_must_be_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = "my_bundled_policy:Own"
    monkeypatch.syspath_prepend(tmp_path / "modules")
    (tmp_path / "modules").mkdir()
    module = tmp_path / "modules/my_bundled_policy.py"
    module.write_text(POLICY)
    folder = campaign_of(tmp_path, FEW.replace('"follow-plan"', f'"{name}"'), allowed=(name,))
    bundle = write_bundle(folder, tmp_path / "bundle", Credits())
    assert (bundle.path / layout.POLICIES / module.name).read_text() == POLICY
    assert bundle.description.policies == (name,)
    assert f"--allow-policy {name}" in (bundle.path / layout.README).read_text()
    with pytest.raises(BeasyError, match="--allow-policy my_bundled_policy:Own"):
        run_again(bundle, tmp_path / "again", Here())
    before = [*sys.path]
    module.unlink()
    sys.modules.pop("my_bundled_policy")
    try:
        assert run_again(bundle, tmp_path / "again", Here(), allowed=(name,)).reproduced
        assert Path(sys.modules["my_bundled_policy"].__file__).parent == bundle.path / layout.POLICIES
    finally:
        sys.modules.pop("my_bundled_policy", None)
        sys.path[:] = before


def test_the_wheel_has_the_program_and_a_true_record(made: Path):
    (wheel,) = made.glob("software/*.whl")
    root = Path(software.__file__).parents[3]
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        for path in root.rglob("*.py"):
            assert f"beasy_sched/{path.relative_to(root).as_posix()}" in names
        assert not [name for name in names if name.endswith(".pyc")]
        (record,) = [name for name in names if name.endswith("RECORD")]
        rows = {row[0]: row[1:] for row in csv.reader(packed.read(record).decode().splitlines())}
        assert rows.keys() == names
        for name, (digest, size) in rows.items():
            if name != record:
                content = packed.read(name)
                assert int(size) == len(content)
                raw = hashlib.sha256(content).digest()
                assert digest == "sha256=" + software.base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_the_versions_are_those_that_are_needed_and_no_others(made: Path):
    versions = layout.read_bundle(made).versions
    assert {"numpy", "msgspec", "pandas", "pyarrow", "highspy"} <= versions.keys()
    assert not {"rocrate", "pytest", "matplotlib", "beasy-sched"} & versions.keys()
    assert not {"highspy"} & software.versions_of({"data"}).keys()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda b: (b / layout.TABLE_CSV).write_text("x"), "was changed after the bundle was created"),
        (lambda b: (b / "scenarios/small.toml").unlink(), "small.toml: is missing"),
        (lambda b: (b / "software/os.py").touch(), "is not part of the bundle"),
        (lambda b: (b / layout.SUMS).write_text("nonsense\n"), "SHA256SUMS:1: expected a SHA-256"),
        (lambda b: (b / layout.DESCRIPTION).unlink(), "is not a bundle: it has no bundle.json"),
        (lambda b: (b / layout.DESCRIPTION).write_text('{"format": 1}') and sum_up(b), "format: found 1"),
        (
            lambda b: (b / layout.DESCRIPTION).write_text(
                (b / layout.DESCRIPTION).read_text().replace('"format_version": 1', '"format_version": 2')
            ) and sum_up(b),
            "'beasy-sched bundle' 2, expected 'beasy-sched bundle' 1",
        ),
        (lambda b: (b / layout.REQUIREMENTS).unlink() or sum_up(b), "has no software/requirements.txt"),
    ],
)  # fmt: skip
def test_a_bundle_that_was_changed_is_refused(bundle: Path, change, told: str, capfd: Capture):
    change(bundle)
    assert exit_code("campaign", "rerun", str(bundle), "--environment", "present") == 2
    captured = capfd.readouterr()
    assert told in captured.err
    assert "Traceback" not in captured.err
    assert not captured.out


def test_a_campaign_that_has_not_ended_is_refused(tmp_path: Path, capfd: Capture):
    begin([parse_scenario(FEW)], tmp_path / "campaign")
    with pytest.raises(KeyboardInterrupt):
        go_on(tmp_path / "campaign", Here(most=3))
    assert exit_code("campaign", "bundle", str(tmp_path / "campaign")) == 2
    assert (
        "2 of 4 runs are not finished: finish the campaign with 'beasy-sched campaign resume"
        in capfd.readouterr().err
    )
    assert [path.name for path in tmp_path.iterdir() if path.name != ".beasy-plans"] == ["campaign"]
    assert exit_code("campaign", "bundle", str(tmp_path / "nowhere")) == 2


def test_a_folder_that_is_there_is_kept(ended: Path, tmp_path: Path, capfd: Capture):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/mine").touch()
    assert exit_code("campaign", "bundle", str(ended), "-o", str(tmp_path / "bundle")) == 2
    assert "already exists" in capfd.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["bundle", "mine"]


def test_nothing_is_left_of_a_bundle_that_fails(ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> str:
        raise InputError("x", "no space left")

    monkeypatch.setattr("beasy_sched.plugins.campaigns.bundles.writing.readme_text", full)
    with pytest.raises(InputError, match="no space left"):
        write_bundle(ended, tmp_path / "bundle", Credits())
    assert not [*tmp_path.iterdir()]


def test_other_versions_than_those_of_the_campaign_are_refused(ended: Path, tmp_path: Path, monkeypatch):
    others = software.versions_of({"data", "plan"})
    for name in ("numpy", "highspy"):
        monkeypatch.setattr(
            "beasy_sched.plugins.campaigns.bundles.writing.versions_of",
            lambda *_, n=name: {**others, n: "9.9"},
        )
        with pytest.raises(ConfigError, match=f"was made with {name} .*, but 9.9 is installed"):
            write_bundle(ended, tmp_path / "bundle", Credits())
    assert not [*tmp_path.iterdir()]


def test_a_missing_extra_is_named(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
):
    for name in [name for name in sys.modules if name.partition(".")[0] == "rocrate"]:
        monkeypatch.delitem(sys.modules, name)
    found = importlib.machinery.PathFinder.find_spec
    monkeypatch.setattr(
        importlib.machinery.PathFinder,
        "find_spec",
        lambda name, *rest: None if name == "rocrate" else found(name, *rest),
    )
    assert exit_code("campaign", "bundle", str(ended), "-o", str(tmp_path / "bundle")) == 2
    assert "a bundle needs rocrate: pip install '.[bundle]' in a clone" in capfd.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.plugins("greenslot")
def test_a_file_in_a_policys_option_is_refused(tmp_path: Path):
    model = Path(software.__file__).parents[3] / "plugins/learned/models/bandit.msgpack"
    policies = f'[{{ name = "bandit", options = {{ model = "{model}" }} }}]'
    folder = campaign_of(tmp_path, FEW.replace('["easy", "follow-plan"]', policies))
    with pytest.raises(ConfigError, match=r"policies\[0\].options.model refers to the file"):
        write_bundle(folder, tmp_path / "bundle", Credits())


@pytest.mark.slow
def test_the_command_line(ended: Path, tmp_path: Path, capfd: Capture):
    bundle, out = tmp_path / "paper", tmp_path / "again"
    assert exit_code("campaign", "bundle", str(ended), "-o", str(bundle)) == 0
    assert f"to verify it: beasy-sched campaign rerun {bundle}" in capfd.readouterr().out
    present = ("--environment", "present", "-j", "2")
    assert exit_code("campaign", "rerun", str(bundle), *present, "-o", str(out)) == 0
    captured = capfd.readouterr()
    assert "same: results/runs.parquet" in captured.out
    assert "the campaign is reproduced: 4 runs" in captured.err
    assert (out / "campaign/runs.parquet").read_bytes() == (ended / "runs.parquet").read_bytes()
    (bundle / layout.TABLE_CSV).write_text("other\n")
    sum_up(bundle)
    assert exit_code("campaign", "rerun", str(bundle), *present, "-q") == 1
    assert "not reproduced" in capfd.readouterr().err
    assert exit_code("campaign", "rerun", str(bundle), *present, "--python", "python3") == 2


@pytest.mark.slow
def test_a_python_or_a_version_that_cannot_be_had(bundle: Path, capfd: Capture, tmp_path: Path):
    assert exit_code("campaign", "rerun", str(bundle), "--python", "no-such-python") == 2
    told = capfd.readouterr().err
    assert "no-such-python is not that version: name one with --python, or use --environment present" in told
    (bundle / layout.REQUIREMENTS).write_text("numpy==1.24.99\n")
    sum_up(bundle)
    os.environ["PIP_NO_INDEX"] = "1"
    try:
        assert exit_code("campaign", "rerun", str(bundle), "-q") == 2
    finally:
        del os.environ["PIP_NO_INDEX"]
    told = capfd.readouterr().err
    assert (
        "the versions of the bundle cannot be installed: No matching distribution found for numpy==1.24.99"
        in told
    )
    assert "--environment present" in told
    assert len(told.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_in_a_fresh_environment(made: Path, tmp_path: Path):
    """With the program and the versions of the bundle, and nothing of this environment. Needs pip's index."""
    command = [sys.executable, "-m", "beasy_sched", "campaign", "rerun", made, "-o", tmp_path / "again"]
    variables = {**os.environ, "PIP_COMPILE": "0"}  # most of what is installed is never imported
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same: results/runs.parquet" in done.stdout
    assert "the campaign is reproduced: 4 runs" in done.stderr
    assert "warning" not in done.stderr  # no version is another one
