"""P-states of nodes that are on: a program of the site changes them, because Slurm cannot."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable

from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.slurm.cluster_actions import SetFrequency
from beasy_sched.plugins.slurm.slurm_commands import TIMEOUT_S, CommandFailed, error_output


def frequency_setter(
    command: str, platform: Platform, timeout_s: float = TIMEOUT_S
) -> Callable[[SetFrequency], None]:
    """Return a function that runs ``command`` for each node of an action.

    ``{node}``, ``{pstate}`` and ``{mhz}`` are filled in. Raises ConfigError for an invalid command; the
    function raises CommandFailed for a program that does not exist, fails, or exceeds ``timeout_s``.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--pstate-command: {error}") from None
    if not words:
        raise ConfigError("--pstate-command: found an empty string, expected a program")
    kind_of = dict(zip(platform.names, platform.kind_of.tolist(), strict=True))

    def set_frequency(action: SetFrequency) -> None:
        for node in action.nodes:
            speeds = platform.kinds[kind_of[node]].speeds_flops
            mhz = round(speeds[action.pstate] / 1e6) if speeds else 0
            parts = {"node": node, "pstate": str(action.pstate), "mhz": str(mhz)}
            _run([_filled(word, parts) for word in words], timeout_s)

    return set_frequency


def _run(command: list[str], timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=timeout_s
        )
    except OSError as error:
        raise CommandFailed(command, f"cannot be started ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        raise CommandFailed(command, f"has not ended within {timeout_s:g} s") from None
    if done.returncode:
        raise CommandFailed(command, error_output(done))


def _filled(word: str, parts: dict[str, str]) -> str:
    for name, value in parts.items():
        word = word.replace(f"{{{name}}}", value)
    return word
