"""Server files: what one kind of server draws and computes, as people write it (TOML).

The shipped presets (``servers/*.toml``) and a user's own file have the same fields: see `ServerSpec`.
"""

from __future__ import annotations

import itertools
import os
import re
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.model.platform import ServerKind, SleepState

SLEEP_SPEED_FLOPS: Final = 1e-3
"""Speed written for the sleep state: Batsim's own platforms use 1e-9 Mflop/s, since 0 is refused."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*")


class PState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One computing P-state."""

    speed_gflops: float
    """Speed, in 10^9 flops/s."""
    full_w: float
    """Power with all processors busy, W."""
    idle_w: float | None = None
    """Power when idle in this P-state, W (default: the server's ``idle_w``)."""


class Sleep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sleep state and the two transitions."""

    sleep_w: float
    off_s: float
    """Time from on to asleep, s."""
    off_w: float
    on_s: float
    """Time from asleep to on, s."""
    on_w: float


class ServerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of server: the fields of a server file."""

    name: str
    """Letters and digits, parted by single ``-`` or ``_``; the hosts are called ``NAME-1``, ``NAME-2`` ..."""
    idle_w: float
    pstates: tuple[PState, ...]
    """From the fastest to the slowest."""
    sleep: Sleep | None = None
    """Left out for servers that cannot sleep."""

    def problem(self) -> str | None:
        """Tell what is wrong with the figures, or None."""
        powers = {f"pstates[{i}].full_w": p.full_w for i, p in enumerate(self.pstates)}
        powers["idle_w"] = self.idle_w
        powers |= {
            f"pstates[{i}].idle_w": p.idle_w for i, p in enumerate(self.pstates) if p.idle_w is not None
        }
        durations = {}
        if self.sleep is not None:
            powers |= {f"sleep.{key}": getattr(self.sleep, key) for key in ("sleep_w", "off_w", "on_w")}
            durations = {f"sleep.{key}": getattr(self.sleep, key) for key in ("off_s", "on_s")}
        speeds = [p.speed_gflops for p in self.pstates]
        if not _NAME.fullmatch(self.name):
            return (
                f"name: {self.name!r} must start with a letter and be letters and digits, "
                "parted by single '-' or '_'"
            )
        if not speeds:
            return "pstates: at least one is needed"
        for key, watts in powers.items():
            if not 0 <= watts < float("inf"):
                return f"{key}: {watts!r} is not a power in watts (0 or more)"
        for key, seconds in durations.items():
            if not 0 < seconds < float("inf"):
                return f"{key}: {seconds!r} is not a duration in seconds (above 0)"
            if not 0 < 1 / seconds < float("inf"):
                return f"{key}: {seconds!r} is too short, or too long, for a platform file"
        if not 0 < min(speeds) <= gflops_to_flops(max(speeds)) < float("inf"):
            return "pstates: speed_gflops must be above 0"
        if any(slow >= fast for fast, slow in itertools.pairwise(speeds)):
            return "pstates: list them from the fastest to the slowest, each speed once"
        return None

    def fastest_only(self) -> ServerSpec:
        """Return the same server with its fastest P-state alone (and its sleep state)."""
        return msgspec.structs.replace(self, pstates=self.pstates[:1])

    def kind(self) -> ServerKind:
        """Number the P-states: the computing ones from 0, then sleep, switching off, switching on."""
        speeds = [gflops_to_flops(p.speed_gflops) for p in self.pstates]
        idle = [self.idle_w if p.idle_w is None else p.idle_w for p in self.pstates]
        full = [p.full_w for p in self.pstates]
        sleeps: tuple[SleepState, ...] = ()
        if self.sleep is not None:
            first = len(speeds)
            sleeps = (SleepState(first, first + 1, first + 2),)
            speeds += [SLEEP_SPEED_FLOPS, 1 / self.sleep.off_s, 1 / self.sleep.on_s]
            fixed = [self.sleep.sleep_w, self.sleep.off_w, self.sleep.on_w]
            idle, full = idle + fixed, full + fixed
        return ServerKind(self.name, tuple(speeds), tuple(idle), tuple(idle), tuple(full), sleeps)


def gflops_to_flops(speed_gflops: float) -> float:
    """Shift the decimal point, so that 33.59 gives 33590000000.0 and not 33590000000.000004."""
    text = repr(float(speed_gflops))
    return float(f"{text}e9") if "e" not in text else speed_gflops * 1e9


def preset_names() -> list[str]:
    """Names of the shipped server presets, sorted."""
    folder = resources.files(__package__) / "servers"
    return sorted(entry.name[: -len(".toml")] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_server(source: str | os.PathLike[str]) -> ServerSpec:
    """Load a preset by its name (``gros``) or a server file by its path (``my.toml``).

    Raises ConfigError for an unknown preset, InputError for a file that cannot be read or is wrong.
    """
    text = os.fspath(source)
    if not text.endswith(".toml") and os.sep not in text:
        if text not in preset_names():
            raise ConfigError(
                f"unknown server {text!r}: the presets are {', '.join(preset_names())}; "
                "a file of your own must end in .toml"
            )
        data = (resources.files(__package__) / "servers" / f"{text}.toml").read_bytes()
        return _decode(f"{text}.toml", data)
    try:
        data = Path(text).read_bytes()
    except OSError as error:
        raise InputError(text, f"cannot be read: {error.strerror}") from error
    return _decode(text, data)


def _decode(path: str, data: bytes) -> ServerSpec:
    try:
        spec = msgspec.toml.decode(data, type=ServerSpec)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(path, f"not a server file: {error}") from None
    problem = spec.problem()
    if problem:
        raise InputError(path, problem)
    return spec
