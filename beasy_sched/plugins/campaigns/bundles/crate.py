"""A bundle's ``ro-crate-metadata.json``: RO-Crate 1.1 with the profile Process Run Crate 0.5."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from beasy_sched.extras import load_optional
from beasy_sched.plugins.campaigns.bundles import layout
from beasy_sched.plugins.campaigns.bundles.software import EXTRA

REPOSITORY: Final = "https://github.com/beasy-sched/beasy-sched"
NO_LICENCE: Final = "No licence stated: ask the authors."
_VERSION: Final = "1.1"
_PROFILE: Final = "https://w3id.org/ro/wfrun/process/0.5"
_TERMS: Final = "https://w3id.org/ro/terms/workflow-run/context"
_AUTHOR: Final = re.compile(r"(.*?)\s*<(?:https?://orcid\.org/)?([\d-]{18}[\dX])>")
_ENCODINGS: Final = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".py": "text/x-python",
    ".swf": "text/plain",
    ".toml": "application/toml",
    ".txt": "text/plain",
    ".whl": "application/zip",
}
_MEANINGS: Final = {
    layout.README: "Content of this folder, and how to check and rerun it",
    layout.DESCRIPTION: "Input of 'beasy-sched campaign rerun'",
    layout.SUMS: "SHA-256 of every other file",
    layout.TABLE: "Table of all runs",
    layout.TABLE_CSV: "Table of all runs, as CSV",
    layout.COLUMNS_CSV: "Columns of the table of runs: type, unit and meaning",
    layout.TIMINGS: "Duration of each run",
    layout.REQUIREMENTS: "Versions of the packages that the campaign used",
}
_FOLDERS: Final = {
    layout.INPUTS: "Input files of the runs: platforms, workloads, powers, sites and plans, named by hash",
    f"{layout.RESULTS}/traces": "Energy trace of each run",
    f"{layout.RESULTS}/runs": "All files of each run",
    layout.POLICIES: "Modules of policies that are not built in",
}
"""Folders that are described as a whole; for others, each file is described."""


@dataclass(frozen=True)
class BundleStory:
    """Content of the README and the metadata of a bundle."""

    title: str
    authors: tuple[str, ...]
    licence: str
    ended: datetime
    """Time at which the campaign's table was written."""
    scenarios: tuple[tuple[str, str], ...]
    """Name and comment of each scenario."""
    quick: bool
    description: layout.Description
    versions: Mapping[str, str]

    @property
    def commands(self) -> list[str]:
        """The commands that rerun the campaign, called in the bundle."""
        allow = "".join(f" --allow-policy {name}" for name in self.description.policies)
        keep = {"nothing": "", "trace": " --keep-traces", "everything": " --keep-runs"}[self.description.keep]
        install = f"pip install --no-deps -r {layout.REQUIREMENTS} {self.description.wheel}"
        run = f"beasy-sched campaign run {' '.join(self.description.scenarios)}{keep}{allow} -o ../again"
        return [install, run]


def metadata_json(story: BundleStory, folder: Path, sums: Mapping[str, str]) -> str:
    """Return the metadata of the bundle in ``folder``; ``sums`` are its files' hashes, by path.

    Raises ConfigError without the package rocrate.
    """
    library: Any = load_optional("rocrate.rocrate", EXTRA, "a bundle")
    crate = library.ROCrate(version=_VERSION)
    crate.metadata.extra_contexts.append(_TERMS)
    root = crate.root_dataset
    root["name"], root["description"] = story.title, _description(story)
    root["datePublished"] = story.ended.date().isoformat()
    root["license"] = _licence(crate, story.licence)
    root["conformsTo"] = _entity(
        crate, _PROFILE, {"@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    )
    authors = [_author(crate, text) for text in story.authors]
    if authors:
        root["author"] = _one_or_all(authors)
    files = {place: _file(crate, folder, place, sums.get(place)) for place in _told_alone(sums)}
    files |= {
        place: crate.add_dataset(dest_path=f"{place}/", properties={"name": place, "description": meaning})
        for place, meaning in _FOLDERS.items()
        if any(each.startswith(f"{place}/") for each in sums)
    }
    _add_action(crate, story, files, authors)
    return json.dumps(crate.metadata.generate(), indent=2, ensure_ascii=False) + "\n"


def _told_alone(sums: Mapping[str, str]) -> list[str]:
    folders = tuple(f"{place}/" for place in _FOLDERS)
    return sorted(place for place in [*sums, layout.SUMS] if not place.startswith(folders))


def _description(story: BundleStory) -> str:
    scenarios = "; ".join(f"{name}: {comment}" if comment else name for name, comment in story.scenarios)
    runs = f"{story.description.runs} runs of beasy-sched {story.description.version}"
    return f"{runs} with all inputs, results, versions and hashes. Scenarios: {scenarios}"


def _entity(crate: Any, name: str, properties: Mapping[str, Any]) -> Any:
    library: Any = load_optional("rocrate.model.contextentity", EXTRA, "a bundle")
    return crate.add(library.ContextEntity(crate, name, properties=dict(properties)))


def _one_or_all(entities: list[Any]) -> Any:
    """Return a single entity without a list, as in RO-Crate's compacted form."""
    return entities[0] if len(entities) == 1 else entities


def _licence(crate: Any, given: str) -> Any:
    if not given.startswith(("http://", "https://")):
        return given or NO_LICENCE
    about = {"@type": "CreativeWork", "name": given, "description": "Licence of this bundle"}
    return _entity(crate, given, about)


def _author(crate: Any, text: str) -> Any:
    match = _AUTHOR.fullmatch(text.strip())
    name = match[1] if match else text.strip()
    identity = (
        f"https://orcid.org/{match[2]}" if match else "#" + re.sub(r"\W+", "-", name.lower()).strip("-")
    )
    return _entity(crate, identity, {"@type": "Person", "name": name})


def _file(crate: Any, folder: Path, place: str, digest: str | None) -> Any:
    about: dict[str, Any] = {"name": place}
    meaning = _MEANINGS.get(place)
    if place.startswith(f"{layout.SCENARIOS}/"):
        meaning = "A scenario, with all defaults filled in"
    elif place.startswith(f"{layout.FILES}/"):
        meaning = "A file named in a scenario"
    elif place.endswith(".whl"):
        meaning = "The program that made the campaign"
    if meaning is not None:
        about["description"] = meaning
    about["encodingFormat"] = _ENCODINGS.get(Path(place).suffix, "text/plain")
    if digest is not None:  # the file of the hashes has none yet
        about["sha256"] = digest
        about["contentSize"] = str((folder / place).stat().st_size)
    return crate.add_file(dest_path=place, properties=about)


def _add_action(crate: Any, story: BundleStory, files: Mapping[str, Any], authors: list[Any]) -> None:
    """Add the action: the program with its packages, inputs and outputs."""
    packages = [
        _entity(
            crate,
            f"https://pypi.org/project/{name}/{version}/",
            {"@type": "SoftwareApplication", "name": name, "softwareVersion": version,
             "url": f"https://pypi.org/project/{name}/{version}/"},
        )
        for name, version in story.versions.items()
    ]  # fmt: skip
    language = {
        "@type": "ComputerLanguage",
        "name": "Python",
        "version": story.description.python,
        "url": "https://www.python.org/",
    }
    program = _entity(crate, REPOSITORY, {
        "@type": "SoftwareApplication", "name": "beasy-sched", "url": REPOSITORY,
        "softwareVersion": story.description.version,
    })  # fmt: skip
    program["softwareRequirements"] = packages
    program["programmingLanguage"] = _entity(crate, "https://www.python.org/", language)
    read = (layout.SCENARIOS, layout.FILES, layout.INPUTS, layout.POLICIES)
    action = _entity(crate, "#campaign", {
        "@type": "CreateAction",
        "name": f"Campaign of {story.description.runs} runs",
        "description": f"{' && '.join(story.commands)} (on {story.description.system})",
        "endTime": story.ended.isoformat(),
    })  # fmt: skip
    action["actionStatus"] = "http://schema.org/CompletedActionStatus"
    action["instrument"] = program
    action["object"] = _one_or_all([entity for place, entity in files.items() if place.startswith(read)])
    action["result"] = [entity for place, entity in files.items() if place.startswith(layout.RESULTS)]
    if authors:
        action["agent"] = _one_or_all(authors)
    crate.root_dataset["mentions"] = action
