"""Every reader, with damaged files: a result, or one message that names the file, at once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_files import WRONG, Sample, campaign_samples, json_text, make_samples, mutations
from small_campaign import run_campaign

from beasy_sched import limits
from beasy_sched.errors import BeasyError, ConfigError, InputError

KINDS = (
    "platform", "network", "workload", "events", "powers", "site", "trace", "server", "weather",
    "predictions", "history", "scenario", "model", "plan", "recording", "summary", "decisions", "jobs",
    "energy trace", "P-states", "states",
)  # fmt: skip
OF_RUNS = KINDS[KINDS.index("summary") :]
"""Files of a run, which is read as a whole: that takes some twenty times as long as another file."""
OF_CAMPAIGNS = ("row", "campaign.json")
LATIN = ("trace", "weather", "predictions", "history", "model", "plan", "recording")
"""Kinds whose texts may be Latin-1, or that are no texts."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    found = make_samples(tmp_path_factory.mktemp("valid"))
    folder = tmp_path_factory.mktemp("campaign") / "out"
    run_campaign(folder)
    found |= campaign_samples(folder)
    assert set(found) == {*KINDS, *OF_CAMPAIGNS}
    return found


@contextlib.contextmanager
def damaged(sample: Sample, content: bytes) -> Iterator[None]:
    """The file with other contents, as long as the block runs."""
    valid = sample.path.read_bytes()
    sample.path.write_bytes(content)
    try:
        yield
    finally:
        sample.path.write_bytes(valid)


def outcome(sample: Sample) -> BeasyError | None:
    """Read a file; return the error, which is one message about it, or None. Warnings are failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            sample.read(sample.path)
        except InputError as error:
            found = error
        except ConfigError as error:
            raise AssertionError(f"does not name the file: {error}") from error
        else:
            return None
    assert found.path is not None or sample.path.name in str(found)
    assert len(found.message) <= limits.LONGEST_ERROR + len("...")
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [*KINDS, *OF_CAMPAIGNS])
def test_valid_files_are_read(samples: dict[str, Sample], kind: str) -> None:
    assert outcome(samples[kind]) is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte that is no UTF-8": lambda data: (
        data.replace(b'"', b'"\xff', 1) if b'"' in data else b"\xff" + data
    ),
    "null bytes": lambda data: data[: len(data) // 2] + b"\0\0\0" + data[len(data) // 2 :],
    "nothing": lambda data: b"",
    "cut": lambda data: data[: len(data) * 2 // 3],
    "deep": lambda data: b"[" * 100_000,
    "deep objects": lambda data: b'{"a":' * 100_000,
    "deep TOML": lambda data: b"a = " + b"[" * 100_000,
    "huge": lambda data: re.sub(rb"\d+", b"9" * 400, data, count=3),
    "many digits": lambda data: re.sub(rb"\d+", b"9" * 5000, data, count=3),
    "not a number": lambda data: re.sub(rb"([=:,] ?)[0-9.]+", rb"\1NaN", data, count=3),
    "nan": lambda data: re.sub(rb"([=:,] ?)[0-9.]+", rb"\1nan", data),
    "infinite": lambda data: re.sub(rb"([=:,] ?)[0-9.]+", rb"\1inf", data),
    "1e308": lambda data: re.sub(rb"([=:,] ?)[0-9.]+", rb"\g<1>1e308", data),
    "2**63": lambda data: re.sub(rb"([=:,] ?)[0-9.]+", rb"\g<1>9223372036854775808", data),
    "10**30": lambda data: re.sub(rb"([=:,] ?)[0-9.]+", rb"\g<1>1000000000000000000000000000000", data),
    "true": lambda data: re.sub(rb"([=:] ?)[0-9.]+", rb"\1true", data),
    "text": lambda data: re.sub(rb"([=:] ?)[0-9.]+", rb'\1"x"', data),
    "another file": lambda data: b"\x7fELF" + bytes(range(256)) * 20,
    "gzip that is none": lambda data: b"\x1f\x8b" + data,
}


@pytest.mark.sampled
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", [*KINDS, *OF_CAMPAIGNS])
def test_one_message_about_damage(samples: dict[str, Sample], kind: str, damage: str) -> None:
    sample = samples[kind]
    with damaged(sample, DAMAGES[damage](sample.path.read_bytes())):
        error = outcome(sample)
    if damage.startswith("deep") or (damage == "a byte that is no UTF-8" and kind not in LATIN):
        assert error is not None


@pytest.mark.parametrize("kind", [*KINDS, *OF_CAMPAIGNS])
def test_folders_and_pipes_are_no_files(
    samples: dict[str, Sample], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SILENT_PIPE_S", 0.05)
    sample = samples[kind]
    kept = sample.path.with_name("kept")
    sample.path.rename(kept)
    try:
        sample.path.mkdir()
        folder = outcome(sample)
        sample.path.rmdir()
        if hasattr(os, "mkfifo"):
            os.mkfifo(sample.path)
            pipe = outcome(sample)
            sample.path.unlink()
    finally:
        if sample.path.is_dir():
            shutil.rmtree(sample.path)
        kept.replace(sample.path)
    if kind not in OF_RUNS:  # of a run, what is no file is not there
        assert folder is not None
        assert pipe is not None
        assert sample.path.name in str(pipe)


FEW_WRONG = ("x", True, 10**400)
"""For a run or a campaign, which takes longer to read."""


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["workload", "summary", "row", "campaign.json"])
def test_wrong_values_in_each_place_of_json(samples: dict[str, Sample], kind: str) -> None:
    sample = samples[kind]
    valid = json.loads(sample.path.read_bytes())
    if kind == "workload":
        used = {valid["jobs"][0]["profile"]}
        valid["jobs"] = [{**valid["jobs"][0], "deadline_s": 1e9, "own": [1, {"a": 2}]}]
        valid["profiles"] = {name: valid["profiles"][name] for name in used}
    refused = 0
    for value in mutations(valid, WRONG if kind == "workload" else FEW_WRONG):
        with damaged(sample, json_text(value)):
            refused += outcome(sample) is not None
    assert refused > 20


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["events", "decisions"])
def test_wrong_values_in_each_place_of_lines(samples: dict[str, Sample], kind: str) -> None:
    sample = samples[kind]
    first, *rest = sample.path.read_bytes().splitlines()
    refused = 0
    for value in mutations(json.loads(first), FEW_WRONG if kind in OF_RUNS else WRONG):
        with damaged(sample, b"\n".join([json_text(value), *rest, b""])):
            refused += outcome(sample) is not None
    assert refused > 5


WRONG_TOML = ("nan", "inf", "-inf", "true", '"x"', "[]", "{}", "-1", "1e308", "9223372036854775808",
              "9" * 400, "2024-01-01", "[[1]]")  # fmt: skip


@pytest.mark.parametrize("kind", ["site", "server", "scenario"])
def test_wrong_values_in_each_place_of_toml(samples: dict[str, Sample], kind: str) -> None:
    sample = samples[kind]
    text = sample.path.read_text()
    places = [match.span(1) for match in re.finditer(r"= (\"[^\"]*\"|[0-9.]+|\[[^\n]*\]|\{[^\n]*\})", text)]
    assert len(places) > 4
    for begin, end in places:
        for wrong in WRONG_TOML:
            with damaged(sample, (text[:begin] + wrong + text[end:]).encode()):
                outcome(sample)


def scrambled(data: bytes, luck: random.Random) -> bytes:
    """Contents with a few bytes changed, put in, taken out, or moved."""
    result = bytearray(data)
    for _ in range(luck.randint(1, 6)):
        at = luck.randrange(len(result) + 1)
        size = luck.choice((1, 1, 1, 2, 8, 64))
        match luck.randrange(5):
            case 0:
                result[at : at + size] = luck.randbytes(size)
            case 1:
                del result[at : at + size]
            case 2:
                result[at:at] = result[: size * 4]
            case 3:
                result[at:at] = luck.choice(
                    (b"9" * 30, b"-", b"e308", b"nan", b'"', b"\0", b"\xff", b"\n", b",")
                )
            case _:
                result = result[: max(at, 1)]
    return bytes(result)


def fuzz(sample: Sample, seed: str, count: int) -> None:
    valid, luck = sample.path.read_bytes(), random.Random(seed)
    for number in range(count):
        content = scrambled(valid, luck)
        try:
            with damaged(sample, content):
                outcome(sample)
        except Exception as error:
            raise AssertionError(f"case {number} of {seed}: {error!r}") from error


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [*KINDS, *OF_CAMPAIGNS])
def test_random_damage(samples: dict[str, Sample], kind: str) -> None:
    fuzz(samples[kind], f"{kind} 1", 25)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [*KINDS, *OF_CAMPAIGNS])
def test_random_damage_for_long(samples: dict[str, Sample], kind: str) -> None:
    for seed in range(2, 5):
        fuzz(samples[kind], f"{kind} {seed}", 100 if kind in OF_RUNS else 300)


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_a_pipe_that_is_written_to_is_read(samples: dict[str, Sample], tmp_path: Path) -> None:
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content: Any = samples["workload"].path.read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    samples["workload"].read(pipe)
    writer.join()
