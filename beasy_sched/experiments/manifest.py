"""What a campaign's folder is for: its scenarios, frozen, so that nothing else is mixed in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.experiments.execute import Keep
from beasy_sched.experiments.scenario import FileProduction, Scenario, SwfWorkload
from beasy_sched.experiments.scenario_file import scenario_of
from beasy_sched.formats.atomic import write_atomic

FORMAT = "beasy-sched campaign"
FORMAT_VERSION = 1
_MOST_DIFFERENCES = 5


class Manifest(msgspec.Struct, frozen=True):
    """The contents of ``campaign.json``."""

    version: str
    """Version of beasy-sched."""
    quick: bool
    keep: Keep
    """What is kept of each run; see `execute`."""
    scenarios: list[dict[str, Any]]
    files: dict[str, str]
    """SHA-256 of every file that the scenarios name."""
    format: str = FORMAT
    format_version: int = FORMAT_VERSION

    def parsed(self) -> list[Scenario]:
        """Return the scenarios, made small already where ``quick`` says so."""
        return [scenario_of(values) for values in self.scenarios]


def manifest_of(scenarios: Sequence[Scenario], *, quick: bool, keep: Keep) -> Manifest:
    """Freeze scenarios. Raises InputError for a file that cannot be read."""
    values = [plain_values(scenario) for scenario in scenarios]
    return Manifest(__version__, quick, keep, values, _file_hashes(scenarios))


def plain_values(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as JSON has it."""
    built = msgspec.json.decode(msgspec.json.encode(scenario))
    assert isinstance(built, dict)
    return built


def scenario_hash(scenario: Scenario) -> str:
    """Return the SHA-256 of all that shapes a scenario's results."""
    values = {key: value for key, value in plain_values(scenario).items() if key != "comment"}
    text = json.dumps([values, _file_hashes([scenario])], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write ``campaign.json``. Raises InputError."""
    write_atomic(path, json.dumps(msgspec.to_builtins(manifest), indent=1) + "\n")


def read_manifest(path: Path) -> Manifest:
    """Read ``campaign.json``. Raises InputError."""
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except OSError as error:
        raise InputError(
            path, f"cannot be read ({error.strerror or error}): is this the folder of a campaign?"
        ) from None
    except msgspec.MsgspecError as error:
        raise InputError(path, f"is not the description of a campaign: {error}") from None
    if manifest.format != FORMAT or manifest.format_version != FORMAT_VERSION:
        raise InputError(
            path, f"is {manifest.format!r} {manifest.format_version}, expected {FORMAT!r} {FORMAT_VERSION}"
        )
    return manifest


def check_same(folder: Path, old: Manifest, new: Manifest) -> None:
    """Raise ConfigError, saying what differs, where new runs would not go with those of the folder."""
    found = [*_differences_of_manifests(old, new)]
    if not found:
        return
    shown = found[:_MOST_DIFFERENCES]
    if len(found) > len(shown):
        shown.append(f"and {len(found) - len(shown)} more")
    raise ConfigError(
        f"{folder} holds another campaign:\n  " + "\n  ".join(shown) + "\nChoose another folder with -o, or "
        "'beasy-sched campaign resume' to go on with what is there"
    )


def _differences_of_manifests(old: Manifest, new: Manifest) -> Iterator[str]:
    if old.version != new.version:
        yield f"it was made by beasy-sched {old.version}, this is {new.version}"
    if old.quick != new.quick:
        yield "it was made " + ("with" if old.quick else "without") + " --quick"
    before, now = ({str(v["name"]): v for v in m.scenarios} for m in (old, new))
    if list(before) != list(now):
        yield f"its scenarios are {', '.join(before)}; now they are {', '.join(now)}"
    for name in before.keys() & now.keys():
        for place, was, is_now in differences(before[name], now[name]):
            if place != "comment" and old.quick == new.quick:
                yield f"scenario {name}: {place} was {was!r:.60}, is now {is_now!r:.60}"
    for path in old.files.keys() & new.files.keys():
        if old.files[path] != new.files[path]:
            yield f"the file {path} has changed"


def differences(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the place, the old and the new value of whatever differs between two JSON values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), f"{place}.{key}" if place else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (was, is_now) in enumerate(zip(old, new, strict=True)):
            yield from differences(was, is_now, f"{place}[{index}]")
    elif old != new:
        yield place, old, new


def _file_hashes(scenarios: Sequence[Scenario]) -> dict[str, str]:
    hashes = {}
    for path in sorted({path for scenario in scenarios for path in _files(scenario)}):
        try:
            hashes[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        except OSError as error:
            raise InputError(path, f"cannot be read: {error.strerror or error}") from None
    return hashes


def _files(scenario: Scenario) -> Iterator[str]:
    """Every file that a scenario names: server files, traces, weather."""
    names = [*scenario.platform.servers, scenario.platform.reference or ""]
    yield from (name for name in names if name.endswith(".toml"))
    for part in scenario.tuples:
        if isinstance(part.workload, SwfWorkload):
            yield part.workload.file
        if isinstance(part.production, FileProduction):
            yield from (name for name in (part.production.pv, part.production.wind) if name is not None)
