"""Layout of a bundle, and verification of its checksums.

README.md               description for readers of this folder alone
ro-crate-metadata.json  the same in machine-readable form (RO-Crate 1.1, Process Run Crate)
bundle.json             input of `campaign rerun` (`Description`)
SHA256SUMS              the hash of every other file, for ``sha256sum -c``
scenarios/, files/      the scenarios, and the files named in them
inputs/                 input files of the runs, as in the campaign's folder
results/                the tables, and the files kept of each run
software/               this program as a wheel, the versions of all packages, the user's own policies
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from beasy_sched.errors import InputError
from beasy_sched.formats.decoding import read_json
from beasy_sched.formats.reading import read_bytes, read_text
from beasy_sched.plugins.campaigns.folder import check_format
from beasy_sched.plugins.campaigns.tasks import Keep

README: Final = "README.md"
METADATA: Final = "ro-crate-metadata.json"
DESCRIPTION: Final = "bundle.json"
SUMS: Final = "SHA256SUMS"
SCENARIOS: Final = "scenarios"
FILES: Final = "files"
INPUTS: Final = "inputs"
RESULTS: Final = "results"
SOFTWARE: Final = "software"
REQUIREMENTS: Final = f"{SOFTWARE}/requirements.txt"
POLICIES: Final = f"{SOFTWARE}/policies"
TABLE: Final = f"{RESULTS}/runs.parquet"
TABLE_CSV: Final = f"{RESULTS}/runs.csv"
COLUMNS_CSV: Final = f"{RESULTS}/columns.csv"
TIMINGS: Final = f"{RESULTS}/timings.parquet"

FORMAT: Final = "beasy-sched bundle"
FORMAT_VERSION: Final = 1


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of ``bundle.json``."""

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    version: str
    """Version of beasy-sched."""
    python: str
    """Version of Python."""
    system: str
    """Operating system and processor on which the bundle was made."""
    wheel: str
    """File of the program."""
    keep: Keep
    """Files of each run that the campaign kept."""
    scenarios: tuple[str, ...]
    """Scenario files, in the order of the tables."""
    policies: tuple[str, ...] = ()
    """Policies ``package.module:Class`` named in the scenarios."""
    runs: int
    failed: int

    @property
    def python_minor(self) -> str:
        """Version of Python without its last number, such as ``3.12``."""
        return ".".join(self.python.split(".")[:2])


@dataclass(frozen=True)
class Bundle:
    """A bundle whose checksums have been verified."""

    path: Path
    description: Description
    sums: Mapping[str, str]
    """SHA-256 of each file, by its path in the bundle."""

    @property
    def scenarios(self) -> list[Path]:
        """Paths of the scenario files."""
        return [self.path / place for place in self.description.scenarios]

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that the campaign used, by name."""
        lines = read_text(self.path / REQUIREMENTS).splitlines()
        pairs = [line.split("==") for line in lines if not line.startswith("#") and "==" in line]
        return {name.strip(): version.strip() for name, version in pairs}

    def within(self, folder: str) -> list[str]:
        """Return the paths of the files in a folder of the bundle, in order."""
        return sorted(place for place in self.sums if place.startswith(f"{folder}/"))


def sha256(content: bytes) -> str:
    """Return the SHA-256 of ``content``, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def places_in(folder: Path) -> Iterator[str]:
    """Yield the paths of all files in a folder, in order, without hidden ones."""
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if (path.is_symlink() or not path.is_dir()) and not any(part.startswith(".") for part in place.parts):
            yield place.as_posix()


def sums_text(sums: Mapping[str, str]) -> str:
    """Return the content of ``SHA256SUMS``."""
    return "".join(f"{digest}  {place}\n" for place, digest in sorted(sums.items()))


def read_bundle(path: Path) -> Bundle:
    """Open a bundle. Raises InputError if it is not a bundle, or any of its files has changed."""
    if not (path / DESCRIPTION).is_file():
        raise InputError(
            path, f"is not a bundle: it has no {DESCRIPTION}; 'beasy-sched campaign bundle' writes one"
        )
    sums = _read_sums(path / SUMS)
    _check_sums(path, sums)
    description = read_json(path / DESCRIPTION, Description)
    made = description.format, description.format_version
    check_format(path / DESCRIPTION, made, (FORMAT, FORMAT_VERSION))
    for place in (*description.scenarios, description.wheel, REQUIREMENTS, TABLE):
        if place not in sums:
            raise InputError(path, f"has no {place}, which is named in {DESCRIPTION}")
    return Bundle(path, description, sums)


def _read_sums(path: Path) -> dict[str, str]:
    sums = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        digest, gap, place = line.partition("  ")
        if not gap or len(digest) != 64 or not place:
            raise InputError(path, "expected a SHA-256, two spaces and a file name", line=number)
        sums[place] = digest
    return sums


def _check_sums(path: Path, sums: Mapping[str, str]) -> None:
    """Raise InputError for a file that has changed, is missing, or was added."""
    advice = "download the bundle again"
    there = set(places_in(path)) - {SUMS}
    for place, digest in sums.items():
        if place not in there:
            raise InputError(path / place, f"is missing, but listed in {SUMS}: {advice}")
        actual = sha256(read_bytes(path / place))
        if actual != digest:
            hashes = f"its SHA-256 is {actual}, {SUMS} has {digest}"
            raise InputError(path / place, f"was changed after the bundle was created ({hashes}): {advice}")
    for place in sorted(there - sums.keys()):
        raise InputError(
            path / place, f"is not part of the bundle, since it is not listed in {SUMS}: remove it"
        )
