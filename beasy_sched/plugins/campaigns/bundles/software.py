"""The software of a campaign: this program as a wheel, versions of its packages, modules of policies."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from beasy_sched import _version
from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError
from beasy_sched.extras import load_optional, source_of
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.campaigns.bundles.layout import POLICIES, SOFTWARE
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.policies.registry import ENTRY_POINTS, built_in

EXTRA: Final = "beasy-sched[bundle]"
PROGRAM: Final = "beasy-sched"
_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: beasy-sched\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)


def extras_of(scenarios: Iterable[Scenario]) -> set[str]:
    """Return the extras of this program that a campaign of these scenarios requires."""
    extras = {"data"}
    for scenario in scenarios:
        extras |= {"plan"} if scenario.plan.make else set()
        extras |= {"life"} if "life" in scenario.site.get("battery", {}) else set()
    return extras


def versions_of(extras: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """Return the installed version of each package that this program requires with ``extras``, by name.

    ``others`` are further distributions, with their requirements. Raises ConfigError for a missing one.
    """
    parsing: Any = load_optional("packaging.requirements", EXTRA, "a bundle")
    versions: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    left = [*((PROGRAM, extra) for extra in ("", *sorted(extras))), *((name, "") for name in others)]
    while left:
        name, extra = left.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if (key, extra) in seen:
            continue
        seen.add((key, extra))
        distribution = _distribution(name)
        versions[key] = distribution.version
        for line in distribution.requires or ():
            needed = parsing.Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                left += [(needed.name, each) for each in ("", *needed.extras)]
    del versions[PROGRAM]
    return dict(sorted(versions.items()))


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise ConfigError(
            f"the campaign requires {name}, which is not installed: pip install {name}"
        ) from None


def policy_files(scenarios: Iterable[Scenario]) -> tuple[dict[str, bytes], set[str]]:
    """Return modules of external policies, by path in a bundle, and distributions with such.

    Modules installed from a package index are not copied; no module is imported. Raises ConfigError for a
    module that cannot be found.
    """
    files: dict[str, bytes] = {}
    distributions = set()
    for name in {policy.name for scenario in scenarios for policy in scenario.policies} - built_in().keys():
        points = [*metadata.entry_points(group=ENTRY_POINTS, name=name)]
        package = (points[0].value if points else name).partition(":")[0].partition(".")[0]
        owners = metadata.packages_distributions().get(package, [])
        indexed = [each for each in owners if _distribution(each).read_text("direct_url.json") is None]
        if indexed:
            distributions.add(indexed[0])
        else:
            files |= _source(package, name)
    return files, distributions


def _source(package: str, policy: str) -> dict[str, bytes]:
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # as for the import of policies
    origin = source_of(package)
    if origin is None:
        raise ConfigError(f"policy {policy!r}: module {package!r} not found: run this command in its folder")
    if origin.name != "__init__.py":
        return {f"{POLICIES}/{origin.name}": read_bytes(origin)}
    paths = sorted(origin.parent.rglob("*.py"))
    return {
        f"{POLICIES}/{path.relative_to(origin.parents[1]).as_posix()}": read_bytes(path) for path in paths
    }


def wheel() -> tuple[str, bytes]:
    """Return the path in a bundle and the content of a wheel of this program, as installed.

    The same program gives the same bytes. Raises ConfigError if it is not installed.
    """
    root = Path(_version.__file__).parent
    distribution = _distribution(PROGRAM)
    stem = f"beasy_sched-{__version__}"
    files = {
        f"{root.name}/{path.relative_to(root).as_posix()}": read_bytes(path)
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    about = distribution.read_text("METADATA") or ""
    about = re.sub(r"^Version: .*$", f"Version: {__version__}", about, count=1, flags=re.MULTILINE)
    points = distribution.read_text("entry_points.txt") or ""
    licence = distribution.read_text("licenses/LICENSE") or ""
    for name, text in {
        "METADATA": about, "WHEEL": _WHEEL, "entry_points.txt": points, "licenses/LICENSE": licence
    }.items():  # fmt: skip
        files[f"{stem}.dist-info/{name}"] = text.encode()
    return f"{SOFTWARE}/{stem}-py3-none-any.whl", _zipped(files, f"{stem}.dist-info/RECORD")


def _zipped(files: Mapping[str, bytes], record: str) -> bytes:
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    everything = {**files, record: "".join([*lines, f"{record},,\n"]).encode()}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in everything.items():
            entry = zipfile.ZipInfo(name, _NO_DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)
    return made.getvalue()
