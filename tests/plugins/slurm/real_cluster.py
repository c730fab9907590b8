"""A real Slurm of Debian's packages for tests: controller, node daemons, munge; on loopback, no systemd.

A node's "power off" ends its daemon, its "power on" starts it again, so that the controller sees what it sees
with real nodes. It needs root and the packages slurmctld, slurmd, slurm-client and munge.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from beasy_sched.plugins.slurm.cluster_check import hold_script
from beasy_sched.plugins.slurm.slurm_commands import Slurm, run_program

PROGRAMS = ("slurmctld", "slurmd", "munged", "sinfo", "sbatch", "scontrol")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE_S = 300.0
"""How long something may take that takes a few seconds on an idle machine."""
LONG = (pytest.mark.long, pytest.mark.timeout(1800))
"""Marks of tests beside a real Slurm, which mostly wait."""


def why_not() -> str:
    """Why no real Slurm can be started here; empty if it can."""
    path = f"{os.environ.get('PATH', '')}:{_PATH}"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"no real Slurm here: {', '.join(missing)} missing (apt-get install slurmctld slurmd munge)"
    if os.geteuid():
        return "no real Slurm here: it needs root"
    return ""


def free_ports(count: int) -> int:
    """The first of ``count`` ports in a row that nobody uses."""
    for first in range(21_000 + os.getpid() % 500 * 20, 60_000, count + 1):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for port, one in enumerate(sockets, first):
                one.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise RuntimeError("no free ports")


class RealCluster:
    """A cluster in a folder; a context manager that starts and stops it."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        *,
        held: Sequence[str] = ("main",),
        settings: Iterable[str] = (),
        partitions: Iterable[str] = ("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",),
        resume_timeout_s: int = 45,
        inside: Sequence[str] = (),
        memory_mb: Sequence[int] | None = None,
        shared: bool = False,
    ) -> None:
        """``shared``: nodes of four CPUs that jobs share, backfill, and a SuspendTime of 15 s.

        ``held``: partitions whose jobs are held on submission; ``settings``: more lines of slurm.conf.

        ``memory_mb``: memory of each node, as Slurm is told; None: 100 MB.

        ``inside``: the command, with its arguments, that the first node daemons are started with.
        """
        self.folder = folder
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.conf = folder / "slurm.conf"
        self.noting = folder / "bin"
        """Folder of programs that note in the file $NOTED how they are called, and are then Slurm's."""
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": _PATH}
        self.held = held
        self._lines = [*settings, *partitions]
        self._inside, self._shared = inside, shared
        self._memory_mb = memory_mb or [100] * nodes
        self._resume_timeout_s = resume_timeout_s

    # --- starting and stopping ----------------------------------------------------------------------------

    def __enter__(self) -> RealCluster:
        self._write()
        try:
            self._munge()
            self.start_controller()
            for name in self.names:
                self._run(*self._inside, "slurmd", "-N", name, "-f", str(self.conf))
            self.wait_for(lambda: self.count("idle") == len(self.names), "idle nodes")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write(self) -> None:
        folder = self.folder
        for name in ("state", "spool", "log"):
            (folder / name).mkdir(parents=True)
        host, port = socket.gethostname().partition(".")[0], free_ports(len(self.names) + 1)
        more = ""
        placing, cpus, suspend_s = "SchedulerType=sched/builtin\nSelectType=select/linear", 1, 8640000
        if self._shared:
            placing = "SchedulerType=sched/backfill\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU"
            more = ",bf_interval=2,bf_resolution=1\nSlurmdParameters=config_overrides"
            cpus, suspend_s = 4, 15
        nodes = "".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + at} CPUs={cpus}"
            f" RealMemory={memory_mb} State=UNKNOWN\n"
            for at, (name, memory_mb) in enumerate(zip(self.names, self._memory_mb, strict=True), 1)
        )
        self.conf.write_text(
            f"""\
ClusterName=green
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/log/ctld.log
SlurmdLogFile={folder}/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
{placing}
SchedulerParameters=batch_sched_delay=0,sched_interval=1{more}
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
SuspendProgram={folder}/suspend
ResumeProgram={folder}/resume
SuspendTime={suspend_s}
SuspendTimeout=3
ResumeTimeout={self._resume_timeout_s}
DebugFlags=NO_CONF_HASH
{"JobSubmitPlugins=lua" if self.held else ""}
{nodes}"""
            + "\n".join(self._lines)
            + "\n"
        )
        if self.held:
            (folder / "job_submit.lua").write_text(hold_script(self.held[0]))
        # The controller runs both with an empty environment, and with SIGTERM blocked, as is then a daemon
        # that is started by the second one.
        self._program(
            "suspend",
            f'for node in $(scontrol show hostnames "$1"); do\n'
            f'  kill -KILL "$(cat {folder}/$node.pid)" 2>/dev/null\n  rm -f {folder}/$node.pid\ndone\n',
        )
        self._program(
            "resume",
            # Slurm counts whole seconds, and takes a boot that is too fast for one before its request.
            f'sleep 1\nfor node in $(scontrol show hostnames "$1"); do\n'
            f"  [ -e {folder}/broken-$node ] && continue  # a test's: this node does not come\n"
            f'  setsid slurmd -N "$node" -f {self.conf} -b </dev/null >/dev/null 2>&1\ndone\n',
        )
        self.noting.mkdir()
        for name in ("squeue", "sinfo", "scontrol", "scancel", "sbatch", "sacct", "sstat"):
            path = self.noting / name
            note = f'echo "{name} $*" >> "$NOTED"'
            path.write_text(f'#!/bin/sh\n{note}\nPATH={_PATH} exec {name} "$@"\n')
            path.chmod(0o755)
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o400)

    def _program(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/bash\nexport SLURM_CONF={self.conf} PATH={_PATH}\n{body}")
        path.chmod(0o755)

    def _munge(self) -> None:
        self._run(
            "munged", "--force", f"--key-file={self.folder}/munge.key", f"--socket={self.folder}/munge.sock",
            f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/log/munged.log",
            f"--seed-file={self.folder}/munge.seed",
        )  # fmt: skip

    def start_controller(self) -> None:
        """Start the controller; after `stop_controller`, it goes on from its saved state."""
        self._run("slurmctld", "-f", str(self.conf))

    def stop_controller(self) -> None:
        """Take the controller away, as a machine does that fails."""
        pid = self._pid("ctld")
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            self.wait_for(lambda: not _alive(pid), "end of the controller")

    def stop(self) -> None:
        """Stop everything: jobs, then nodes, since those without a controller may ignore the first signal."""
        with contextlib.suppress(RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            self._run("scancel", "--user=root")
            self.wait_for(lambda: not self._own("/spool/"), "the end of jobs", 15)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._own():
                _kill(pid, number)
            end = time.monotonic() + 3
            while self._own() and time.monotonic() < end:
                time.sleep(0.1)

    def _own(self, part: str = "/") -> list[int]:
        """Processes of this cluster: those that name its folder, and ``part`` of it."""
        found, named = [], f"{self.folder}{part}".encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # of one that has ended meanwhile
                if named in path.read_bytes() and path.parent.name != str(os.getpid()):
                    found.append(int(path.parent.name))
        return found

    def _pid(self, name: str) -> int | None:
        try:
            return int((self.folder / f"{name}.pid").read_text())
        except (OSError, ValueError):
            return None

    # --- what a test does -----------------------------------------------------------------------------

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=self.folder,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def slurm(self) -> Slurm:
        """The cluster's commands; ``SLURM_CONF`` has to be its own (see the fixture)."""
        return Slurm(run_program)

    def submit(self, run_s: float, *options: str) -> str:
        """Submit a job that sleeps; return its id."""
        script = f"--wrap=sleep {run_s:g}"
        return self._run("sbatch", "--parsable", "--output=/dev/null", *options, script).strip()

    def submit_until(self, happened: Path, *options: str) -> str:
        """Submit a job that runs until a file is there; return its id."""
        script = f"--wrap=while [ ! -e {happened} ]; do sleep 0.2; done"
        return self._run("sbatch", "--parsable", "--output=/dev/null", *options, script).strip()

    def command(self, *words: str) -> str:
        """Run another command, such as ``scontrol``; return what it prints."""
        return self._run(*words)

    def count(self, state: str) -> int:
        """Number of nodes in a state, as sinfo counts them."""
        done = subprocess.run(
            ["sinfo", "--noheader", "-t", state, "-o", "%D"],
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        return sum(map(int, done.stdout.split()))

    def clean(self) -> None:
        """End all jobs, and have all nodes idle again."""
        self._run("scancel", "--user=root")
        for path in self.folder.glob("broken-*"):
            path.unlink()

        moving = {"POWER_UP", "POWER_DOWN", "POWERING_UP", "POWERING_DOWN", "COMPLETING"}
        self.wait_for(lambda: not any(node.flags & moving for node in self.slurm().nodes()), "nodes at rest")
        for node in self.slurm().nodes():  # once each: a second request starts a second daemon
            if node.flags or node.state == "DOWN":
                state = "POWER_UP" if "POWERED_DOWN" in node.flags else "RESUME"
                self._run("scontrol", "update", f"NodeName={node.name}", f"State={state}")

        def ready() -> bool:
            return all(node.state == "IDLE" and not node.flags for node in self.slurm().nodes())

        self.wait_for(ready, "idle nodes")

    def wait_for(self, reached: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until ``reached()``. Raises TimeoutError that names ``what``."""
        end = time.monotonic() + timeout_s
        while not reached():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {timeout_s:g} s for {what}; logs are in {self.folder}/log")
            time.sleep(0.2)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
