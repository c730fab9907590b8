"""Plan files, and plans for other programs: JSON with everything, CSV with one row per step.

A plan file is MessagePack with compressed arrays and a checksum, so that a damaged one never loads.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.reading import read_bytes
from beasy_sched.limits import MOST_UNPACKED_BYTES, shortened
from beasy_sched.model.hosts import read_only
from beasy_sched.plan.plan import Plan, PlannedServers, PlanStore

FORMAT = "beasy-sched plan"
FORMAT_VERSION = 1

_DTYPES = {"f8": np.float64, "i8": np.int64, "i1": np.int8}


class _Array(msgspec.Struct, array_like=True):
    """An array as stored in the file: little-endian, compressed."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class _PlanFile(msgspec.Struct):
    format: str
    version: int
    program: str = ""
    sha256: bytes = b""
    windows: bytes = b""


def write_plans(path: PathLike, plans: PlanStore) -> None:
    """Write all windows to ``path``, whole or not at all. Raises InputError."""
    windows = msgspec.msgpack.encode(list(plans), enc_hook=encode_array)
    digest = hashlib.sha256(windows).digest()
    file = _PlanFile(FORMAT, FORMAT_VERSION, f"beasy-sched {__version__}", digest, windows)
    write_atomic(path, msgspec.msgpack.encode(file))


def read_plans(path: PathLike) -> PlanStore:
    """Read and check a plan file. Raises InputError: not a plan, damaged, too new, or inconsistent."""
    file = _opened(path, read_bytes(path))
    if hashlib.sha256(file.windows).digest() != file.sha256:
        raise InputError(path, "is damaged: its checksum is wrong; make the plan again")
    try:
        plans = msgspec.msgpack.decode(file.windows, type=list[Plan], dec_hook=array_decoder())
        return PlanStore(plans)
    except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError) as error:
        raise InputError(path, shortened(str(error))) from None
    except RecursionError:
        raise InputError(path, "is nested too deeply for a plan") from None


def _opened(path: PathLike, content: bytes) -> _PlanFile:
    """The outer part of a file, of a format and version that this program reads."""
    try:
        raw = msgspec.msgpack.decode(content)
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise InputError(path, "is not a beasy-sched plan")
        version = raw.get("version")
        if version != FORMAT_VERSION:
            raise InputError(
                path,
                f"has format version {version}, written by {raw.get('program') or 'an unknown program'}; "
                f"this is beasy-sched {__version__}, which reads version {FORMAT_VERSION}: "
                "use the program that wrote it, or make the plan again",
            )
        return msgspec.convert(raw, _PlanFile)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        ours = FORMAT.encode() in content[:64]
        message = "is damaged or cut off: make the plan again" if ours else "is not a beasy-sched plan"
        raise InputError(path, message) from None


def encode_array(value: Any) -> _Array:
    """Encode an array, for msgspec's ``enc_hook``: compressed, as in a plan file."""
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(type(value))
    code = value.dtype.newbyteorder("<").str[1:]
    data = np.ascontiguousarray(value, dtype=f"<{code}")
    if code == "i1":
        data = np.ascontiguousarray(data.T)  # A server's states side by side compress better.
    return _Array(code, value.shape, zlib.compress(data.tobytes(), 6))


def array_decoder() -> Callable[[Any, Any], Any]:
    """Return what unpacks the arrays of a file or message (``dec_hook``), up to a cap on their total size."""
    left_bytes = MOST_UNPACKED_BYTES

    def unpacked(kind: Any, value: Any) -> Any:
        """Unpack one array. Raises ValueError, which msgspec gives its place."""
        nonlocal left_bytes
        array = msgspec.convert(value, _Array)
        dtype = _DTYPES.get(array.dtype)
        if dtype is None:
            raise ValueError(f"an array of unknown type {array.dtype!r}")
        if not array.shape or not all(0 <= length <= MOST_UNPACKED_BYTES for length in array.shape):
            raise ValueError(f"an array of impossible shape {array.shape}")
        size = math.prod(array.shape) * np.dtype(dtype).itemsize
        if size > left_bytes:
            raise ValueError(f"arrays of more than {MOST_UNPACKED_BYTES >> 20} MiB in total")
        left_bytes -= size
        try:
            data = zlib.decompressobj().decompress(array.data, size + 1)
        except zlib.error as error:
            raise ValueError(f"an array that cannot be unpacked ({error})") from None
        if len(data) != size:
            raise ValueError(f"an array of {len(data)} bytes instead of {size}")
        values = np.frombuffer(data, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)
        if array.dtype == "i1":
            return read_only(np.ascontiguousarray(values.reshape(array.shape[::-1]).T))
        return read_only(values.reshape(array.shape))

    return unpacked


def csv_lines(plans: PlanStore) -> Iterator[str]:
    """The header, then one line per step, window by window; numbers read back as the same doubles.

    Levels are those at the end of the step; the last two columns are empty where no servers are planned.
    """
    for window, plan in enumerate(plans):
        power, servers = plan.power, plan.servers
        nothing = np.full(plan.steps, "")
        columns: dict[str, npt.NDArray[Any]] = {
            "window": np.full(plan.steps, window),
            "step": np.arange(plan.steps),
            "time_s": plan.start_s + plan.step_s * np.arange(plan.steps),
            "load_w": power.load_w,
            "load_uncertainty": plan.load_uncertainty,
            "renew_w": power.renew_w,
            "renew_uncertainty": plan.renew_uncertainty,
            "charge_w": power.charge_w,
            "discharge_w": power.discharge_w,
            "electrolyzer_w": power.electrolyzer_w,
            "fuel_cell_w": power.fuel_cell_w,
            "curtailed_w": power.curtailed_w,
            "envelope_w": power.envelope_w,
            **({} if power.import_w is UNSET else {"import_w": power.import_w}),
            "soc_pct": plan.soc_pct[1:] if plan.storage.battery.exists else nothing,
            "hydrogen_kg": power.hydrogen_kg[1:],
            "servers_on": servers.on_count if servers else nothing,
            "server_energy_j": servers.energy_j if servers else nothing,
        }
        if window == 0:
            yield ",".join(columns) + "\n"
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield ",".join(map(str, row)) + "\n"


def json_text(plans: PlanStore) -> bytes:
    """All windows as one JSON object; server states as changes: ``[step, P-state]`` pairs per server."""
    windows = [
        {
            "start_s": plan.start_s,
            "step_s": plan.step_s,
            "steps": plan.steps,
            "relax_factor": plan.power.relax_factor,
            "storage": plan.storage,
            "power": plan.power,
            "envelope_w": plan.power.envelope_w,
            "soc_pct": plan.soc_pct,
            "load_uncertainty": plan.load_uncertainty,
            "renew_uncertainty": plan.renew_uncertainty,
            "servers": _servers(plan.servers) if plan.servers else None,
            "provenance": plan.provenance,
        }
        for plan in plans
    ]
    return msgspec.json.encode({"windows": windows}, enc_hook=np.ndarray.tolist) + b"\n"


def _servers(servers: PlannedServers) -> dict[str, Any]:
    changed = np.diff(servers.states, axis=0) != 0
    runs = []
    for states, changes in zip(servers.states.T, changed.T, strict=True):
        steps = np.concatenate(([0], np.flatnonzero(changes) + 1))
        runs.append(np.stack((steps, states[steps]), axis=1))
    return {
        "kinds": servers.kinds,
        "kind_of": servers.kind_of,
        "state_changes": runs,
        "energy_j": servers.energy_j,
    }
