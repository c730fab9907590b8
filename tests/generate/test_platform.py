from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from beasy_sched.cli.generate import platform as command
from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.generate.platform_file import (
    PState,
    ServerSpec,
    Sleep,
    build_platform,
    load_server,
    platform_xml,
    preset_platform,
    write_platform,
)
from beasy_sched.generate.server_presets import preset_names
from beasy_sched.model.platform import SPEEDS_PROPERTY, Platform, ServerKind

MY_SERVER = """
name = "my"
idle_w = 50
pstates = [{ speed_gflops = 2.5, full_w = 100 }, { speed_gflops = 1.1, full_w = 70.5, idle_w = 40 }]
[sleep]
sleep_w = 5
off_s = 2
off_w = 60
on_s = 8
on_w = 90
"""


def hosts_of(platform: Platform) -> dict[str, tuple[str, dict[str, str]]]:
    root = ET.fromstring("".join(platform_xml(platform)))
    return {
        host.attrib["id"]: (
            host.attrib["speed"],
            {p.attrib["id"]: p.attrib["value"] for p in host.iter("prop")},
        )
        for host in root.iter("host")
    }


def speeds_in_file(text: str) -> tuple[float, ...]:
    return tuple(float(speed.strip().removesuffix("f")) for speed in text.split(","))


def test_the_file_of_a_small_server(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(MY_SERVER)
    platform = build_platform([(load_server(tmp_path / "my.toml"), 1)])
    text = "".join(platform_xml(platform))
    assert text.startswith(
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
    )
    assert text.split("-->\n")[1] == (
        '<platform version="4.1">\n'
        '  <zone id="AS0" routing="Vivaldi">\n'
        '    <host id="master_host" coordinates="0 0 0" speed="1000000000f">\n'
        '      <prop id="wattage_per_state" value="100:200"/>\n'
        '      <prop id="watt_per_state" value="100:200"/>\n'
        '      <prop id="wattage_off" value="10"/>\n'
        '      <prop id="watt_off" value="10"/>\n'
        "    </host>\n"
        '    <host id="my-1" pstate="0" coordinates="0 0 0" '
        'speed="2500000000f, 1100000000f, 0.001f, 0.5f, 0.125f">\n'
        '      <prop id="wattage_per_state" value="50:100, 40:70.5, 5:5, 60:60, 90:90"/>\n'
        '      <prop id="watt_per_state" value="50:100, 40:70.5, 5:5, 60:60, 90:90"/>\n'
        '      <prop id="wattage_off" value="5"/>\n'
        '      <prop id="watt_off" value="5"/>\n'
        '      <prop id="sleep_pstates" value="2:3:4"/>\n'
        '      <prop id="speed_per_state" value="2500000000, 1100000000, 0.001, 0.5, 0.125"/>\n'
        "    </host>\n"
        "  </zone>\n</platform>\n"
    )


@pytest.mark.parametrize(
    ("name", "pstates", "fastest", "slowest", "idle", "sleep", "off", "on", "reference"),
    [
        ("gros", 13, (35.2e9, 143.45), (15.99e9, 100.78), 62, 4.5, (6, 76.5), (164, 110.52), 25.57e9),
        ("parasilo", 13, (38.4e9, 221.77), (25.01e9, 175.53), 97, 4.5, (6, 76.5), (164, 110.52), 32.84e9),
        ("taurus", 1, (18.4e9, 190.74), (18.4e9, 190.74), 95, 9.75, (6.1, 101), (151.52, 125.17), 18.4e9),
    ],
)
def test_presets_are_the_papers_tables(
    name: str,
    pstates: int,
    fastest: tuple[float, float],
    slowest: tuple[float, float],
    idle: float,
    sleep: float,
    off: tuple[float, float],
    on: tuple[float, float],
    reference: float,
) -> None:
    kind = load_server(name).kind()
    assert len(kind.computing) == pstates
    assert (kind.speeds_flops[0], kind.full_w[0]) == fastest
    assert (kind.speeds_flops[pstates - 1], kind.full_w[pstates - 1]) == slowest
    assert set(kind.idle_w[:pstates]) == {idle}
    assert kind.sleep is not None
    assert kind.idle_w[kind.sleep.pstate] == kind.full_w[kind.sleep.pstate] == sleep
    assert (kind.off_duration_s(), kind.full_w[kind.sleep.off_pstate]) == (pytest.approx(off[0]), off[1])
    assert (kind.on_duration_s(), kind.full_w[kind.sleep.on_pstate]) == (pytest.approx(on[0]), on[1])
    assert kind.reference_speed_flops == reference


def test_preset_names() -> None:
    assert preset_names() == ["greenslot-xeon", "gros", "parasilo", "taurus"]


def test_mixed_platform_ids_follow_the_names() -> None:
    platform = preset_platform({"taurus": 2, "gros": 11})
    assert platform.names == (*(f"gros-{i:02d}" for i in range(1, 12)), "taurus-01", "taurus-02")
    assert [platform.kind(host).name for host in range(13)] == ["gros"] * 11 + ["taurus"] * 2
    assert [name for name in hosts_of(platform) if name != "master_host"] == sorted(platform.names)


def test_the_same_server_twice_adds_up() -> None:
    gros = load_server("gros")
    assert build_platform([(gros, 2), (gros, 3)]).names == preset_platform({"gros": 5}).names


def test_one_pstate_keeps_the_fastest_and_sleep() -> None:
    kind = preset_platform({"gros": 1}, one_pstate=True).kind(0)
    assert kind.computing == (0,)
    assert kind.speeds_flops[0] == 35.2e9
    assert kind.sleep is not None
    assert kind.on_duration_s() == pytest.approx(164)


def test_servers_that_cannot_sleep_have_no_sleep_property() -> None:
    spec = ServerSpec("a", 10.0, (PState(1.0, 20.0),))
    properties = hosts_of(build_platform([(spec, 1)]))["a-1"][1]
    assert "sleep_pstates" not in properties
    assert properties["wattage_off"] == "0"


watts = st.floats(0, 1e4, allow_nan=False)
seconds = st.floats(1e-3, 1e5)


@st.composite
def server_specs(draw: st.DrawFn) -> ServerSpec:
    speeds = sorted(draw(st.sets(st.floats(1e-3, 1e4), min_size=1, max_size=6)), reverse=True)
    pstates = tuple(PState(speed, draw(watts), draw(st.none() | watts)) for speed in speeds)
    sleep = draw(st.none() | st.builds(Sleep, watts, seconds, watts, seconds, watts))
    return ServerSpec(
        draw(st.from_regex(r"\A[a-z][a-z0-9]{0,3}(-[a-z0-9]{1,2})?\Z")), draw(watts), pstates, sleep
    )


@settings(max_examples=examples(50))
@given(st.lists(server_specs(), min_size=1, max_size=4, unique_by=lambda s: s.name), st.data())
def test_kinds_come_back_from_the_file(specs: list[ServerSpec], data: st.DataObject) -> None:
    platform = build_platform((spec, data.draw(st.integers(1, 12))) for spec in specs)
    in_file = hosts_of(platform)
    in_file.pop("master_host")
    assert tuple(in_file) == platform.names == tuple(sorted(platform.names))
    for host, (name, (speeds, properties)) in enumerate(in_file.items()):
        kind = platform.kind(host)
        assert speeds_in_file(speeds) == kind.speeds_flops
        assert ServerKind.from_properties(kind.name, properties) == kind
        assert dict(platform.properties[host]) == {"role": "", **properties}
        assert name.rpartition("-")[0] == kind.name


def test_the_reader_of_the_simulator_agrees(tmp_path: Path) -> None:
    written = preset_platform({"taurus": 2, "gros": 11, "parasilo": 1})
    write_platform(written, tmp_path / "p.xml")
    found = read_simgrid_platform(tmp_path / "p.xml", strict=True)
    assert found.notes == ()
    assert found.master == "master_host"
    assert found.latency is None
    assert not found.unknown_latency
    read = found.platform
    assert read.names == written.names
    for host in range(written.size):
        assert dataclasses.replace(read.kind(host), name="") == dataclasses.replace(
            written.kind(host), name=""
        )
        assert dict(read.properties[host]) == dict(written.properties[host])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("idle_w = 50", "idle_w = -1"), "idle_w: found -1.0, expected a finite number >= 0"),
        (("idle_w = 50", "idle_w = inf"), "idle_w: found inf, expected a number"),
        (("off_s = 2", "off_s = 0"), "sleep.off_s: found 0.0, expected a finite number of seconds > 0"),
        (("on_w = 90\n", ""), "sleep.on_w: is missing"),
        (("idle_w = 50", "idle_watts = 50"), "idle_watts"),
        (("speed_gflops = 2.5", "speed_gflops = 1.1"), "fastest to the slowest"),
        (("speed_gflops = 1.1", "speed_gflops = 0"), "speed_gflops: found 0.0, expected a finite number > 0"),
        (('"my"', '"my--x"'), "name: found 'my--x'"),
        (('"my"', '"é"'), "name"),
        (("[sleep]", "[sleep"), "is not valid TOML"),
    ],
)
def test_wrong_server_files(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "my.toml"
    path.write_text(MY_SERVER.replace(*change))
    with pytest.raises(InputError, match=message) as caught:
        load_server(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("grso", "presets are greenslot-xeon, gros, parasilo, taurus"),
        ("nowhere/x.toml", "cannot be read"),
        ("", "unknown server"),
    ],
)
def test_servers_that_are_not_there(source: str, message: str) -> None:
    with pytest.raises(BeasyError, match=message):
        load_server(source)


def test_platforms_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="at least one server"):
        build_platform([])
    with pytest.raises(ConfigError, match="0 is not a number of servers"):
        preset_platform({"gros": 0})
    other = ServerSpec("gros", 1.0, (PState(1.0, 2.0),))
    with pytest.raises(ConfigError, match="two different servers"):
        build_platform([(load_server("gros"), 1), (other, 1)])


def test_large_platforms_are_written(tmp_path: Path) -> None:
    platform = preset_platform({"taurus": 80_640}, one_pstate=True)
    write_platform(platform, tmp_path / "large.xml")
    assert (tmp_path / "large.xml").read_text("utf-8").count("<host ") == 80_641


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(MY_SERVER)
    target = tmp_path / "p.xml"
    arguments = ["--servers", "gros:2", "-n", f"{tmp_path / 'my.toml'}:1", "-o", str(target)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0
    assert "ids 0-1: gros (computing P-states 0-12, sleep 13, off 14, on 15)" in result.stderr
    assert "ids 2: my (computing P-states 0-1, sleep 2, off 3, on 4)" in result.stderr
    printed = CliRunner().invoke(command, [*arguments[:-1], "-", "--quiet"])
    assert printed.stdout == target.read_text()
    assert printed.stderr == ""
    assert SPEEDS_PROPERTY in printed.stdout


@pytest.mark.parametrize("servers", ["gros", "gros:0", "gros:x", "gros:-1"])
def test_command_line_usage(servers: str) -> None:
    result = CliRunner().invoke(command, ["--servers", servers, "-o", "-"])
    assert result.exit_code == 2
    assert "such as gros:50" in result.stderr
