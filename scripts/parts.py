"""Parts of the program for scripts/test: the core and each plug-in, and which of them a change concerns.

``parts.py apart [PYTEST ARGUMENTS]`` runs the tests of the core in a copy without plug-ins, and those of each
plug-in in a copy with only what it needs. ``parts.py changed COMMIT`` prints the tests of what has changed
since a commit; nothing if only files have changed that no test concerns.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from beasy_sched.plugin import own_plugins  # noqa: E402

CORE = "core"
WHOLE = ("api", "bench", "containers", "plugins", "project", "real_batsim", "studies", "whole")
"""Folders of tests that concern the whole program, or no part of it."""
OF_WHOLE = ("api", "project", "studies", "whole")
"""Folders of tests that are run after any change."""


def needs() -> dict[str, set[str]]:
    """Return all plug-ins that each plug-in needs, directly or not."""
    direct = {plugin.name: plugin.needs for plugin in own_plugins()}

    def of(name: str) -> Iterator[str]:
        for needed in direct[name]:
            yield needed
            yield from of(needed)

    return {name: set(of(name)) for name in direct}


def run_apart(arguments: list[str]) -> int:
    """Run the tests of all parts, each in a separate copy; return the exit code."""
    failed = []
    for name, needed in {CORE: set[str](), **needs()}.items():
        kept = needed | {name} if name != CORE else needed
        print(f"==> {name}: with {', '.join(sorted(kept)) or 'no plug-ins'}", flush=True)
        if run_tests(name, kept, arguments):
            failed.append(name)
    print(f"parts that FAILED: {', '.join(failed)}" if failed else "all parts passed")
    return 1 if failed else 0


def run_tests(name: str, kept: Collection[str], arguments: list[str]) -> int:
    """Run the tests of a part in a copy that has only the ``kept`` plug-ins; return pytest's exit code."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "main"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache")
        )
        if (ROOT.parent / "shared").exists():
            (copy.parent / "shared").symlink_to((ROOT.parent / "shared").resolve())
        plugins = copy / "beasy_sched/plugins"
        for folder in plugins.iterdir():
            if folder.is_dir() and folder.name not in kept:
                shutil.rmtree(folder)
        if not kept:
            shutil.rmtree(plugins)
        tests = [f"tests/plugins/{name}"] if kept else core_tests(copy)
        tests = [test for test in tests if (copy / test).exists()]
        command = [sys.executable, "-m", "pytest", *tests, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


def core_tests(root: Path) -> list[str]:
    """Return the folders and files of the core's tests."""
    places = sorted((root / "tests").iterdir())
    folders = [place for place in places if place.is_dir() and place.name not in (*WHOLE, "__pycache__")]
    alone = [place for place in places if place.name.startswith("test_")]
    return [f"tests/{place.name}" for place in (*folders, *alone)]


def changed_since(commit: str) -> list[str]:
    """Return the files that have changed since a commit, or that git does not have."""
    commands = (["git", "diff", "--name-only", commit], ["git", "ls-files", "--others", "--exclude-standard"])
    answers = [
        subprocess.run(each, cwd=ROOT, capture_output=True, text=True, check=True) for each in commands
    ]
    return [name for answer in answers for name in answer.stdout.splitlines()]


def tests_of(changed: Iterable[str], needed: Mapping[str, Collection[str]]) -> list[str]:
    """Return the tests that changed files concern: all if the core has changed.

    A plug-in concerns its own tests, those of the plug-ins that need it, and those of the whole.
    """
    parts = {part_of(name, needed) for name in changed} - {None}
    if CORE in parts:
        return ["tests"]
    concerned = [name for name in needed if parts & {name, *needed[name]}]
    whole = OF_WHOLE if parts else ()
    return [*(f"tests/plugins/{name}" for name in concerned), *(f"tests/{name}" for name in whole)]


def part_of(name: str, plugins: Collection[str]) -> str | None:
    """Return the part to which a file belongs: a plug-in, ``whole``, the core, or None if none tests it."""
    for plugin in plugins:
        if name.startswith((f"beasy_sched/plugins/{plugin}/", f"tests/plugins/{plugin}/")):
            return plugin
    of_whole = (*(f"tests/{folder}/" for folder in OF_WHOLE), "docs/", "scripts/", "docker/")
    if name.startswith(of_whole) or name.endswith(".md"):
        return "whole"
    of_core = ("beasy_sched/", "tests/", "pyproject.toml", "platforms/", "workloads/")
    return CORE if name.startswith(of_core) else None


if __name__ == "__main__":
    if sys.argv[1] == "apart":
        sys.exit(run_apart(sys.argv[2:]))
    print(*tests_of(changed_since(sys.argv[2]), needs()))
