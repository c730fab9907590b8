"""Creation of a bundle from a finished campaign, atomically."""

from __future__ import annotations

import csv
import io
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.extras import load_optional
from beasy_sched.formats.atomic import write_inside
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.campaigns.bundles import layout
from beasy_sched.plugins.campaigns.bundles.bundled_scenarios import write_scenarios
from beasy_sched.plugins.campaigns.bundles.crate import BundleStory, metadata_json
from beasy_sched.plugins.campaigns.bundles.readme import readme_text
from beasy_sched.plugins.campaigns.bundles.software import EXTRA, extras_of, policy_files, versions_of, wheel
from beasy_sched.plugins.campaigns.campaign_table import Campaign, read_campaign, result_lines
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.policies.registry import built_in


@dataclass(frozen=True)
class Credits:
    """Title, authors and licence of a bundle."""

    title: str = ""
    """Title of the bundle; empty: the scenarios' names."""
    authors: Sequence[str] = ()
    """Names, each optionally with an ORCID in angle brackets."""
    licence: str = ""
    """URL or name of the licence of the data; empty: not stated."""


def write_bundle(campaign_folder: Path, target: Path, credits: Credits) -> layout.Bundle:
    """Create a bundle of a campaign in the new folder ``target``, and return it.

    Raises ConfigError and InputError if the campaign is not finished, was made by other versions than the
    installed ones, or cannot be bundled completely.
    """
    load_optional("rocrate.rocrate", EXTRA, "a bundle")
    campaign = read_campaign(campaign_folder)
    _check_ended(campaign)
    scenarios = campaign.manifest.parsed()
    own, distributions = policy_files(scenarios)
    versions = versions_of(extras_of(scenarios), distributions)
    _check_versions(campaign, versions)
    with _whole(target) as folder:
        places = write_scenarios(folder, scenarios, campaign.manifest.files)
        _copy_campaign(campaign, folder)
        wheel_place, program = wheel()
        contents: dict[str, str | bytes] = {
            **own,
            wheel_place: program,
            layout.REQUIREMENTS: _requirements(versions),
            layout.TABLE_CSV: table_csv(campaign),
            layout.COLUMNS_CSV: _columns_csv(campaign),
        }
        for place, content in contents.items():
            write_inside(folder, place, content)
        description = layout.Description(
            version=__version__,
            python=platform.python_version(),
            system=platform.platform(),
            wheel=wheel_place,
            keep=campaign.manifest.keep,
            scenarios=places,
            policies=tuple(_policies_of_code(scenarios)),
            runs=len(campaign.runs),
            failed=int((campaign.runs["status"] == "failed").sum()),
        )
        described = msgspec.json.format(msgspec.json.encode(description), indent=1) + b"\n"
        write_inside(folder, layout.DESCRIPTION, described)
        _tell(campaign, folder, description, versions, credits)
    return layout.read_bundle(target)


def _check_ended(campaign: Campaign) -> None:
    folder, left = campaign.folder, len(campaign.specs) - len(campaign.runs)
    if folder.running_since_s() is not None:
        raise ConfigError(f"{folder.path}: the campaign is still running: wait until it is finished")
    if left or not folder.table.exists():
        what = (
            f"{left} of {len(campaign.specs)} runs are not finished" if left else "its table is not written"
        )
        raise ConfigError(
            f"{folder.path}: {what}: finish the campaign with 'beasy-sched campaign resume {folder.path}'"
        )


def _check_versions(campaign: Campaign, versions: Mapping[str, str]) -> None:
    """Raise ConfigError if a campaign was made by other versions than the installed ones."""
    versions_used = [("beasy-sched", campaign.manifest.version, __version__)]
    versions_used += [
        ("numpy", str(each), versions["numpy"]) for each in campaign.runs["numpy_version"].unique()
    ]
    for path in sorted((campaign.folder.path / layout.INPUTS).glob("plan-*")):
        solver, _, version = read_plans(path)[0].provenance.solver.partition(" ")
        if solver == "HiGHS" and "highspy" in versions:
            versions_used.append(("highspy", version, versions["highspy"]))
    for name, made_by, here in versions_used:
        if made_by != here:
            raise ConfigError(
                f"{campaign.folder.path}: was made with {name} {made_by}, but {here} is installed: create "
                "the bundle in the environment that made the campaign"
            )


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """Create a folder that is renamed to ``target`` after the block, or removed if the block fails."""
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise ConfigError(f"{target} already exists: choose another name with -o, or remove it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    except OSError as error:
        raise InputError(target, f"cannot be written: {error.strerror or error}") from error
    try:
        yield part
        part.chmod(0o777 & ~_umask())
        os.replace(part, target)
    except OSError as error:
        raise InputError(target, f"cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _copy_campaign(campaign: Campaign, folder: Path) -> None:
    source = campaign.folder.path
    places = {name: f"{layout.RESULTS}/{name}" for name in ("runs.parquet", "timings.parquet")}
    kept = ("inputs", *(name for name in ("traces", "runs") if campaign.manifest.keep != "nothing"))
    for name in kept:
        target = name if name == layout.INPUTS else f"{layout.RESULTS}/{name}"
        if (source / name).is_dir():
            places |= {f"{name}/{place}": f"{target}/{place}" for place in layout.places_in(source / name)}
    for name, place in places.items():
        write_inside(folder, place, read_bytes(source / name))


def table_csv(campaign: Campaign) -> bytes:
    """Return the table of runs as CSV; the same runs give the same bytes with one version of pandas."""
    content: str = campaign.runs.to_csv(index=False, lineterminator="\n")
    return content.encode()


def _columns_csv(campaign: Campaign) -> str:
    made = io.StringIO()
    rows = csv.writer(made, lineterminator="\n")
    rows.writerow(("column", "type", "unit", "meaning"))
    rows.writerows((each.name, each.kind, each.unit, each.meaning) for each in campaign.columns)
    return made.getvalue()


def _requirements(versions: Mapping[str, str]) -> str:
    head = "# The packages that the campaign used, in addition to the wheel in this folder.\n"
    return head + "".join(f"{name}=={version}\n" for name, version in versions.items())


def _policies_of_code(scenarios: Iterable[Scenario]) -> list[str]:
    names = {policy.name for scenario in scenarios for policy in scenario.policies}
    return sorted(name for name in names - built_in().keys() if ":" in name)


def _tell(
    campaign: Campaign,
    folder: Path,
    description: layout.Description,
    versions: Mapping[str, str],
    credits: Credits,
) -> None:
    """Write the README, the metadata and the hashes of all files."""
    scenarios = campaign.manifest.parsed()
    ended = datetime.fromtimestamp(campaign.folder.table.stat().st_mtime, timezone.utc)
    names = ", ".join(scenario.name for scenario in scenarios)
    story = BundleStory(
        title=credits.title or f"A beasy-sched campaign: {names}",
        authors=tuple(credits.authors),
        licence=credits.licence,
        ended=ended.replace(microsecond=0),
        scenarios=tuple((each.name, each.comment) for each in scenarios),
        quick=campaign.manifest.quick,
        description=description,
        versions=versions,
    )
    write_inside(folder, layout.README, readme_text(story, scenarios, [*result_lines(campaign.folder.path)]))
    sums = {place: layout.sha256(read_bytes(folder / place)) for place in layout.places_in(folder)}
    write_inside(folder, layout.METADATA, metadata_json(story, folder, sums))
    sums[layout.METADATA] = layout.sha256(read_bytes(folder / layout.METADATA))
    write_inside(folder, layout.SUMS, layout.sums_text(sums))
