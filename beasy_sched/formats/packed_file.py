"""Files of plans: MessagePack with compressed arrays and a checksum, so that a damaged one never loads."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np

from beasy_sched._version import __version__
from beasy_sched.arrays import read_only
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.decoding import Malformed, decode_msgpack
from beasy_sched.formats.reading import read_bytes
from beasy_sched.limits import MOST_UNPACKED_BYTES, shortened

T = TypeVar("T")

_DTYPES = {"f8": np.float64, "i8": np.int64, "i1": np.int8}


class _PackedArray(msgspec.Struct, array_like=True):
    """An array as stored in the file: little-endian, compressed."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class _PackedFile(msgspec.Struct):
    format: str
    version: int
    program: str = ""
    sha256: bytes = b""
    windows: bytes = b""


@dataclass(frozen=True)
class PackedFormat:
    """A kind of file: its name and version, and what messages call its contents."""

    name: str
    version: int
    what: str

    def packed(self, contents: Any) -> bytes:
        """Return a file of this kind."""
        packed = msgspec.msgpack.encode(contents, enc_hook=encode_array)
        digest = hashlib.sha256(packed).digest()
        file = _PackedFile(self.name, self.version, f"beasy-sched {__version__}", digest, packed)
        return msgspec.msgpack.encode(file)

    def write(self, path: PathLike, contents: Any) -> None:
        """Write to ``path`` atomically. Raises InputError."""
        write_atomic(path, self.packed(contents))

    def read(self, path: PathLike, kind: type[T]) -> T:
        """Read a file of this kind. Raises InputError: another kind, damaged, too new, or other contents."""
        file = self._opened(path, read_bytes(path))
        if hashlib.sha256(file.windows).digest() != file.sha256:
            raise InputError(path, f"is damaged: its checksum is wrong; regenerate the {self.what}")
        try:
            return decode_msgpack(file.windows, kind, array_decoder())
        except (Malformed, ConfigError) as error:
            raise InputError(path, shortened(str(error))) from None

    def describes(self, path: PathLike) -> bool:
        """Whether a file begins as files of this kind do. Raises InputError where it cannot be read."""
        return self._begins(read_bytes(path))

    def _begins(self, content: bytes) -> bool:
        return self.name.encode() + b"\xa7version" in content[:64]

    def _opened(self, path: PathLike, content: bytes) -> _PackedFile:
        """The outer part of a file, of a format and version that this program reads."""
        try:
            raw = decode_msgpack(content, object)
            if not isinstance(raw, dict) or raw.get("format") != self.name:
                raise InputError(path, f"is not a {self.name}")
            version = raw.get("version")
            if version != self.version:
                raise InputError(
                    path,
                    f"has format version {version}, written by {raw.get('program') or 'an unknown program'}; "
                    f"this is beasy-sched {__version__}, which reads version {self.version}: "
                    f"use the program that wrote it, or regenerate the {self.what}",
                )
            return msgspec.convert(raw, _PackedFile)
        except (Malformed, msgspec.ValidationError):
            ours = self._begins(content)
            message = (
                f"is corrupt or truncated: regenerate the {self.what}" if ours else f"is not a {self.name}"
            )
            raise InputError(path, message) from None


def encode_array(value: Any) -> _PackedArray:
    """Encode an array, for msgspec's ``enc_hook``: compressed, as in a file."""
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(type(value))
    code = value.dtype.newbyteorder("<").str[1:]
    data = np.ascontiguousarray(value, dtype=f"<{code}")
    if code == "i1":
        data = np.ascontiguousarray(data.T)  # A server's states side by side compress better.
    return _PackedArray(code, value.shape, zlib.compress(data.tobytes(), 6))


def array_decoder() -> Callable[[Any, Any], Any]:
    """Return what unpacks the arrays of a file or message (``dec_hook``), up to a cap on their total size."""
    left_bytes = MOST_UNPACKED_BYTES

    def unpacked(kind: Any, value: Any) -> Any:
        """Unpack one array. Raises ValueError, which msgspec gives its place."""
        nonlocal left_bytes
        array = msgspec.convert(value, _PackedArray)
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
