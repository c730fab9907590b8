"""podman in the place of Docker, a real Batsim in an image, and the project's own image.

They are made by a script beside the project, which installs podman; it needs root. The images stay.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from project.shell import ROOT

MAKER = ROOT.parent / "shared/batsim/containers"
BATSIM = "localhost/batsim:4.2.1"
PATIENCE_S = 600.0
"""How long a run or a build may take that takes less than a minute on an idle machine."""

_DOCKER = """#!/bin/sh
# The commands of the guide, for podman. The image is there already: its build needs more than podman alone.
case $1 in
  build)
    [ "$*" = "build -f docker/Dockerfile -t beasy-sched ." ] || { echo "unexpected: $*" >&2; exit 2; }
    exec podman image exists beasy-sched ;;
  compose)
    shift
    for word; do shift; [ "$word" = --build ] || set -- "$@" "$word"; done
    exec podman-compose -p PROJECT "$@" ;;
  *) exec podman "$@" ;;
esac
"""


def skip(reason: str) -> None:
    """Skip a test, and say so where it is seen."""
    warnings.warn(f"NO CONTAINERS TESTED: {reason}", stacklevel=2)
    pytest.skip(reason)


def make_images(lock: Path) -> None:
    """Make the images once for all processes of the tests."""
    if not MAKER.exists():
        skip("no script that makes an image of Batsim beside the project")
    if os.geteuid() or not shutil.which("apt-get"):
        skip("podman and images take root and apt-get")
    with lock.open("a+") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)
        if lock.stat().st_size:
            return
        for step in ("base", "batsim"):
            made = subprocess.run([MAKER, step], capture_output=True, text=True, timeout=900, check=False)
            if made.returncode:
                skip(f"podman or the image of Batsim cannot be made here: {made.stderr[-500:]}")
        built = subprocess.run(
            [MAKER, "build", "docker/Dockerfile", ".", "beasy-sched"],
            cwd=ROOT,
            env={**os.environ, "BUILDAH_FORMAT": "docker"},  # the other format has no health checks
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert built.returncode == 0, built.stderr[-2000:]
        shared.write("made\n")


class Containers:
    """A copy of what the guide's commands read, and the commands themselves, for one test."""

    def __init__(self, place: Path, project: str) -> None:
        self.place, self.project = place, project
        for name in ("docker", "scripts"):
            shutil.copytree(ROOT / name, place / name)
        self.bin = place / "bin"
        self.bin.mkdir()
        self._write("docker", _DOCKER.replace("PROJECT", project))
        batsim = subprocess.run(
            [MAKER.with_name("build")], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        ).stdout.strip()
        self._write("batsim", f'#!/bin/sh\nexec "{batsim}" "$@"\n')

    def _write(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def compose(self, *words: str, **variables: object) -> subprocess.Popen[str]:
        """Start compose; what it says goes to a file."""
        given = {"BATSIM_IMAGE": BATSIM, **{name: str(value) for name, value in variables.items()}}
        return subprocess.Popen(
            [self.bin / "docker", "compose", "-f", "docker/compose.yaml", *words],
            cwd=self.place,
            env={**os.environ, **given},
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("a"),
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def log(self) -> Path:
        return self.place / "compose.log"

    def name(self, service: str) -> str:
        return f"{self.project}_{service}_1"

    def left(self) -> list[str]:
        """Containers, pods and volumes of this project, running or not."""
        found = []
        for kind in (["ps", "--all"], ["pod", "ps"], ["volume", "ls"]):
            names = podman(*kind, "--format", "{{.Name}}" if kind[0] != "ps" else "{{.Names}}").split()
            found += [name for name in names if self.project in name]
        return found

    def remove(self) -> None:
        """Remove everything, whatever the test has left."""
        for service in ("batsim", "scheduler"):
            podman("rm", "--force", "--time", "0", self.name(service), check=False)
        podman("network", "rm", "--force", f"{self.project}_default", check=False)


def podman(*words: str, check: bool = True) -> str:
    done = subprocess.run(
        ["podman", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout


def state(name: str) -> dict[str, object]:
    """What podman says of a container's state."""
    (found,) = json.loads(podman("inspect", name))
    return dict(found["State"])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"in vain: {what}"
        time.sleep(0.1)
