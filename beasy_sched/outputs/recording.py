"""Recordings: every message of a run, both ways, as a MessagePack stream; and their replay.

Forecasts that can be renewed during the run are in the stream before the first message for which they are
in use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import msgpack
import msgspec

from beasy_sched.engine import Session
from beasy_sched.engine.observed import ObservedSession, Observer
from beasy_sched.engine.run_findings import unknown_speeds
from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.forecast.outlook import FileForecast
from beasy_sched.formats.atomic import PartFile
from beasy_sched.formats.decoding import Malformed, convert_json
from beasy_sched.formats.reading import open_file, reading
from beasy_sched.formats.recorded_forecast import RecordedForecast
from beasy_sched.limits import shortened
from beasy_sched.model.decisions import Decision, Reply
from beasy_sched.model.events import Message
from beasy_sched.model.platform import Platform
from beasy_sched.planner.replanner import replanned
from beasy_sched.policies.registry import check_named_in_data
from beasy_sched.protocol.batsim4 import encode_message, encode_reply
from beasy_sched.protocol.detection import Talk, meet
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.structs import check_numbers

FORMAT = "beasy-sched recording"
FORMAT_VERSION = 1


_FORECAST = "forecast"
_LIMITS = {"max_buffer_size": 1 << 31, "max_array_len": 1 << 16, "max_map_len": 1 << 16}


class RecordingWriter(PartFile):
    """Writes a header, pairs of raw messages, forecasts, and the number of pairs.

    The first message identifies the Batsim version. The file gets its name when closed.
    """

    def __init__(self, path: Path, settings: RunSettings) -> None:
        """Begin to write a temporary file next to ``path``."""
        super().__init__(path)
        self._exchanges = 0
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "settings": msgspec.to_builtins(settings),
        }
        self.write(msgpack.packb(header))

    def add(self, message: bytes, reply: bytes) -> None:
        """Add a message of the simulator and its reply."""
        self.write(msgpack.packb((message, reply)))
        self._exchanges += 1

    def add_forecast(self, forecast: RecordedForecast) -> None:
        """Add a forecast that is in use from the next message on."""
        self.write(msgpack.packb({_FORECAST: forecast.fields()}))

    def observer(self) -> Observer:
        """Return an observer that records each message and reply, encoded as Batsim 4 does."""
        return _Recorder(self)

    def complete(self) -> None:
        """Flush the file to the operating system, with the number. Raises InputError."""
        self.write(msgpack.packb({"exchanges": self._exchanges}))
        super().complete()


class _Recorder(Observer):
    """Records a run whose messages are not encoded otherwise."""

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        """Record a message and its reply."""
        self._writer.add(encode_message(message), encode_reply(reply))


@dataclass(frozen=True)
class Recording:
    """Open recording: its settings, and its messages in order."""

    path: Path
    settings: RunSettings
    _unpacker: Any

    def exchanges(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield (message, reply). Raises InputError for a damaged or truncated file."""
        return (item for item in self.items() if not isinstance(item, RecordedForecast))

    def items(self) -> Iterator[tuple[bytes, bytes] | RecordedForecast]:
        """Yield (message, reply), and each forecast before the first message for which it is in use.

        Raises InputError for a damaged or truncated file.
        """
        number = 0
        while True:
            try:
                with reading(self.path):
                    item = self._unpacker.unpack()
            except msgpack.OutOfData:
                raise InputError(self.path, f"the recording is truncated after exchange {number}") from None
            except (ValueError, msgpack.UnpackException) as error:
                raise InputError(self.path, f"exchange {number + 1} is damaged: {error}") from None
            if item == {"exchanges": number}:
                return
            if isinstance(item, dict) and [*item] == [_FORECAST]:
                yield self._forecast(item[_FORECAST], number)
                continue
            number += 1
            if not (
                isinstance(item, list | tuple) and len(item) == 2 and all(isinstance(x, bytes) for x in item)
            ):
                raise InputError(self.path, f"exchange {number} is damaged: expected a message and a reply")
            yield item[0], item[1]

    def _forecast(self, fields: Any, number: int) -> RecordedForecast:
        try:
            return convert_json(fields, RecordedForecast)
        except Malformed as error:
            raise InputError(self.path, f"the forecast after exchange {number} is damaged: {error}") from None


@contextlib.contextmanager
def open_recording(path: Path) -> Iterator[Recording]:
    """Open a recording for a block. Raises InputError for a file that is not a recording."""
    with open_file(path) as file:
        unpacker = msgpack.Unpacker(file, **_LIMITS)
        yield Recording(path, _settings(path, unpacker), unpacker)


def _settings(path: Path, unpacker: Any) -> RunSettings:
    """Read the header of a recording. Raises InputError."""
    try:
        with reading(path):
            header = unpacker.unpack()
    except (msgpack.UnpackException, ValueError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(path, "is not a beasy-sched recording")
    if header.get("version") != FORMAT_VERSION:
        raise InputError(
            path,
            f"found format version {header.get('version')}, expected {FORMAT_VERSION}:"
            " use the version that wrote it, or a newer one",
        )
    try:
        check_numbers(header.get("settings"))
        return convert_json(header.get("settings"), RunSettings)
    except (ConfigError, Malformed) as error:
        raise InputError(path, f"its settings cannot be read: {error}") from None


def replay(
    recording: Recording, *, policy: str | None = None, platform: Platform | None = None
) -> tuple[int, str | None]:
    """Return the number of messages with equal replies, and the first difference (None: none).

    ``policy`` replaces the recorded one or, if it is the same, allows its code to be imported. Raises
    InputError for a damaged recording, and for one of a ``package.module:Class`` that ``policy`` does not
    name.
    """
    settings = recording.settings
    if policy is None:
        name = settings.policy
        try:
            check_named_in_data(name, (), f"name it with --policy {shortened(name)}")
        except ConfigError as error:
            raise InputError(recording.path, str(error)) from None
    elif policy != settings.policy:
        settings = msgspec.structs.replace(settings, policy=policy, options={})
    forecasts, items = _ReplayedForecasts(recording.path), recording.items()
    rest = forecasts.take_first(items)
    planning = replanned(
        settings,
        lambda: platform,
        forecast=forecasts.forecast,
        production=forecasts.production,
        hashes={} if forecasts.production is None else {"production": "recorded"},
    )
    with planning as replanner:
        session = build_session(
            settings,
            platform=platform,
            replan=replanner.rule,
            plans=replanner.plans,
            forecast=forecasts.forecast,
        )
        step, count = ObservedSession(session, replanner.observers).step, 0
        talk: Talk | None = None
        for item in rest:
            if isinstance(item, RecordedForecast):
                forecasts.take(item)
                continue
            message, recorded = item
            try:
                talk = talk or meet(message)
                greets = count == 0 and talk.greeting is not None
                # a greeting contains the program version, which may differ
                reply = recorded if greets else talk.encode(step(talk.decode(message)))
            except BeasyError as error:
                return count, f"message {count + 1}: now fails: {error}"
            if reply != recorded:
                try:
                    old = talk.decode_reply(recorded)
                except BeasyError as error:
                    raise InputError(recording.path, f"exchange {count + 1} is damaged: {error}") from None
                new = talk.decode_reply(reply)
                if old != new:
                    return count, _difference(count + 1, old, new) + _lacking(session)
            count += 1
    return count, None


class _ReplayedForecasts:
    """The forecasts of a recording, each in use from its place among the messages on."""

    def __init__(self, path: Path) -> None:
        """``path``: that of the recording, for errors."""
        self._path = path
        self._sources: dict[str, FileForecast] = {}

    @property
    def forecast(self) -> FileForecast | None:
        """Forecast of ``--forecast``; None unless it is in the recording."""
        return self._sources.get("--forecast")

    @property
    def production(self) -> FileForecast | None:
        """Forecast of ``--replan-production``; None unless it is in the recording."""
        return self._sources.get("--replan-production")

    def take_first(
        self, items: Iterator[tuple[bytes, bytes] | RecordedForecast]
    ) -> Iterator[tuple[bytes, bytes] | RecordedForecast]:
        """Put the forecasts before the first message into use; return the other items."""
        for item in items:
            if not isinstance(item, RecordedForecast):
                return chain((item,), items)
            self.take(item)
        return iter(())

    def take(self, recorded: RecordedForecast) -> None:
        """Put a forecast into use. Raises InputError for one that does not fit together."""
        try:
            table, start, source = recorded.table(), recorded.start_date(), self._sources.get(recorded.option)
            if source is None:
                source = self._sources[recorded.option] = FileForecast(table, start)
            else:
                source.renew(table)
        except ValueError as error:
            raise InputError(self._path, f"a forecast of {recorded.option} is damaged: {error}") from None
        if recorded.is_watched:
            source.follow()


def _lacking(session: Session) -> str:
    """Return advice if decisions may differ because the run's platform file is missing, or ""."""
    if session.options.platform is not None or not unknown_speeds(session.cluster.platform):
        return ""
    return (
        "\n  the recording contains no host speeds: if the run had them from a platform file, pass it with -p"
    )


def _difference(number: int, recorded: Reply, replayed: Reply) -> str:
    now = replayed.now
    pairs = zip_longest(recorded.decisions, replayed.decisions)
    for index, (old, new) in enumerate(pairs, 1):
        if old != new:
            return (
                f"message {number} at {now:.6f} s, decision {index}:\n"
                f"  recorded  {_words(old)}\n  now       {_words(new)}"
            )
    return f"message {number} at {now:.6f} s: the replies' times differ: {recorded.now} and {replayed.now}"


def _words(decision: Decision | None) -> str:
    if decision is None:
        return "nothing more"
    fields = msgspec.structs.asdict(decision)
    fields.pop("timestamp")
    values = ", ".join(f"{name}={value}" for name, value in fields.items() if value not in (None, ""))
    return f"{type(decision).__name__} {values}".rstrip()
