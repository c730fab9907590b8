"""Recordings: written whole, read back as they were, and refused by name when they are not."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest
from command_line import exit_code
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recording_files import exchanges_in
from small_site import small_site

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import InputError
from beasy_sched.outputs.recording import RecordingWriter, open_recording
from beasy_sched.run.settings import RunSettings

SETTINGS = RunSettings(
    policy="power-reactive",
    options={"priority": "slowdown", "deep": [1, 2.5, None, {"ä": True}]},
    site="[battery]\n",
    windows=3,
    energy=EnergySource.MODEL,
    power_actions=False,
)
EXCHANGES = [(b'{"now":0}', b'{"now":0.0}'), (b"", b"\x00\xff"), (b"x" * 300, b"")]
Exchanges = list[tuple[bytes, bytes]]


def write(path: Path, exchanges: Exchanges) -> bytes:
    writer = RecordingWriter(path, SETTINGS)
    for message, reply in exchanges:
        writer.add(message, reply)
    assert not path.exists()
    assert writer.finish() == path
    return path.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))
@given(exchanges=st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), max_size=5))
def test_round_trip(tmp_path: Path, exchanges: Exchanges) -> None:
    path = tmp_path / "a.rec"
    path.unlink(missing_ok=True)
    write(path, exchanges)
    with open_recording(path) as opened:
        assert opened.settings == SETTINGS
        assert list(opened.exchanges()) == exchanges


def test_a_message_of_many_megabytes(tmp_path: Path) -> None:
    exchanges = [(b"m" * 20_000_000, b"r")] * 2
    write(tmp_path / "a.rec", exchanges)
    assert exchanges_in(tmp_path / "a.rec") == exchanges


def test_cut_off_anywhere(tmp_path: Path) -> None:
    """Also exactly between two exchanges: the number of exchanges ends the file."""
    path = tmp_path / "a.rec"
    whole = write(path, EXCHANGES)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(
            InputError, match=r"is not a beasy-sched recording|is truncated after exchange [0-3]"
        ) as caught:
            exchanges_in(path)
        assert str(path) in str(caught.value)
    path.write_bytes(whole)
    assert exchanges_in(path) == EXCHANGES


@pytest.mark.slow
def test_damaged_anywhere(tmp_path: Path) -> None:
    """One byte off: read or refused by name, and nothing else."""
    path = tmp_path / "a.rec"
    whole = write(path, EXCHANGES)
    for at in range(len(whole)):
        if whole[at - 1 : at + 2] == b"xxx":  # one byte amid hundreds alike is as good as another
            continue
        for value in (0x00, 0x80, 0xC1, 0xC7, 0xD4, 0xDD, 0xDF, 0xFF):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                exchanges_in(path)
            except InputError as error:
                found = str(error)
            else:
                continue
            assert found.startswith(f"{path}: ")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\xc1", b"\x93\x01\x02", msgpack.packb({"format": "other"}), b"\xdd\x7f\xff\xff\xff"],
)
def test_not_a_recording(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.rec: is not a beasy-sched recording"):
        exchanges_in(path)


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_another_version(tmp_path: Path, version: object) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(msgpack.packb({"format": "beasy-sched recording", "version": version}))
    with pytest.raises(InputError, match=f"found format version {version}, expected 1: use the version"):
        exchanges_in(path)


def test_settings_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    header = {"format": "beasy-sched recording", "version": 1, "settings": {"windows": "three"}}
    path.write_bytes(msgpack.packb(header))
    with pytest.raises(
        InputError, match="its settings cannot be read: windows: found 'three', expected an integer"
    ):
        exchanges_in(path)


@pytest.mark.parametrize(("name", "text"), [("nothing.rec", "No such file"), ("", "Is a directory")])
def test_what_cannot_be_opened(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InputError, match=f"cannot be read: {text}"):
        exchanges_in(tmp_path / name)


def test_discarded(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a.rec", SETTINGS)
    writer.add(b"a", b"b")
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_discarding_what_is_finished_keeps_it(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a.rec", SETTINGS)
    writer.finish()
    writer.discard()
    assert exchanges_in(tmp_path / "a.rec") == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk() -> None:
    writer = RecordingWriter(Path("/dev/full"), SETTINGS)
    with pytest.raises(InputError, match="/dev/full: cannot be written: No space left on device"):
        writer.add(b"x" * 1_000_000, b"y")
    writer.discard()


def test_a_recording_alone_has_no_code_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recorded.py").write_text("from beasy_sched.policies.easy import Easy\nprint('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    writer = RecordingWriter(
        tmp_path / "a.rec", RunSettings(policy="recorded:Easy", options={"backfill": "smallest"})
    )
    writer.finish()
    assert exit_code("replay", str(tmp_path / "a.rec")) == 2
    said = capsys.readouterr()
    assert "imported" not in said.out
    assert "a.rec: policy 'recorded:Easy' comes from a data file" in said.err
    assert "name it with --policy recorded:Easy" in said.err
    assert exit_code("replay", str(tmp_path / "a.rec"), "--policy", "recorded:Easy") == 0
    assert "imported" in capsys.readouterr().out


def test_a_recorded_reply_that_is_no_reply(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = small_site(tmp_path, jobs=2)
    given = ("-p", str(files.platform), "-w", str(files.workload), "-o", str(tmp_path / "run"), "-q")
    path = tmp_path / "a.rec"
    assert exit_code("simulate", *given, "--record", str(path)) == 0
    settings, exchanges = RunSettings(policy="easy"), exchanges_in(path)
    writer = RecordingWriter(path, settings)
    for number, (message, reply) in enumerate(exchanges):
        writer.add(message, b'{"now":0.0,\x92' if number == 1 else reply)
    writer.finish()
    capfd.readouterr()
    assert exit_code("replay", str(path)) == 2
    assert f"{path}: exchange 2 is damaged: malformed message" in capfd.readouterr().err
