"""A cluster's nodes as a platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.generate.platform_file import build_platform, load_server, write_platform
from beasy_sched.plugins.slurm.partition_platform import (
    cluster_platform,
    of_partition,
    parse_rule,
    read_nodes_file,
)
from beasy_sched.plugins.slurm.records import SlurmNode, compressed, expanded

NODES = [
    SlurmNode("n10", "IDLE", partitions=("main",)),
    SlurmNode("n9", "ALLOCATED", partitions=("main",)),
    SlurmNode("gpu1", "IDLE", features=("gpu", "ib"), partitions=("main", "gpu")),
    SlurmNode("gpu2", "DOWN", features=("gpu",), partitions=("gpu",)),
    SlurmNode("cloud1", "FUTURE", partitions=("main",)),
]


def rules(*texts: str):
    return [parse_rule(text) for text in texts]


def test_servers_by_name_by_feature_and_for_all(tmp_path: Path):
    nodes = of_partition(NODES, None)
    built = cluster_platform(nodes, rules("n[9-10]=gros", "feature:gpu=taurus"))
    assert built.names == ("gpu1", "gpu2", "n10", "n9"), "as Batsim numbers them"
    assert [built.kinds[kind].name for kind in built.kind_of] == ["taurus", "taurus", "gros", "gros"]
    write_platform(built, tmp_path / "p.xml")
    read = read_simgrid_platform(tmp_path / "p.xml", master="master_host").platform
    assert read.names == built.names
    assert read.kinds[read.kind_of[3]].full_w == load_server("gros").kind().full_w
    first_counts = cluster_platform(nodes, rules("n9=parasilo", "n[9-10]=gros", "taurus"))
    assert [first_counts.kinds[kind].name for kind in first_counts.kind_of] == [
        "taurus", "taurus", "gros", "parasilo",
    ]  # fmt: skip


def test_a_partition_has_its_nodes():
    assert [node.name for node in of_partition(NODES, "gpu")] == ["gpu1", "gpu2"]
    assert [node.name for node in of_partition(NODES, "main")] == ["n10", "n9", "gpu1"]
    with pytest.raises(
        ConfigError, match="no node is in the partition 'night': the partitions are gpu, main"
    ):
        of_partition(NODES, "night")


def test_what_cannot_be():
    nodes = of_partition(NODES, None)
    with pytest.raises(
        ConfigError, match=r"no server is given for n10,gpu\[1-2\] \(their features: gpu, ib\)"
    ):
        cluster_platform(nodes, rules("n9=gros"))
    with pytest.raises(ConfigError, match=r"--server n77=gros: matches no remaining node; the nodes are"):
        cluster_platform(nodes, rules("taurus", "n77=gros"))
    with pytest.raises(ConfigError, match="cannot be that of a host"):
        cluster_platform([SlurmNode('n"1', "IDLE")], rules("gros"))
    with pytest.raises(ConfigError, match="two hosts are called 'n1'"):
        cluster_platform([SlurmNode("n1", "IDLE")] * 2, rules("gros"))
    with pytest.raises(ConfigError, match="unknown server 'grus'"):
        parse_rule("n1=grus")
    with pytest.raises(ConfigError, match="unknown server 'n1'"):
        parse_rule("n1")
    for wrong in ("=gros", "n1="):
        with pytest.raises(ValueError, match="is not NODES=SERVER"):
            parse_rule(wrong)


def test_two_servers_of_one_name(tmp_path: Path):
    own = tmp_path / "own.toml"
    own.write_text('name = "gros"\nidle_w = 1.0\npstates = [{ speed_gflops = 1.0, full_w = 2.0 }]\n')
    with pytest.raises(ConfigError, match="two different servers are called 'gros'"):
        cluster_platform(of_partition(NODES, "main"), rules("gpu1=gros", str(own)))
    assert cluster_platform(of_partition(NODES, "main"), rules(f"gpu1={own}", "taurus")).size == 3


def test_a_saved_file(tmp_path: Path):
    answers = Path(__file__).parent / "answers"
    assert [node.name for node in read_nodes_file(answers / "sinfo-22.05.json")] == ["n1", "n2", "n3", "n4"]
    with pytest.raises(InputError, match=r"squeue-22.05.json: found no list of nodes"):
        read_nodes_file(answers / "squeue-22.05.json")


def test_generated_platforms_have_their_names_still():
    built = build_platform([(load_server("taurus"), 1), (load_server("gros"), 10)])
    assert built.names == (*(f"gros-{number:02}" for number in range(1, 11)), "taurus-01")


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ([], ""),
        (["login"], "login"),
        (["n1", "n2", "n3", "login"], "n[1-3],login"),
        (["n1", "n3", "n4"], "n[1,3-4]"),
        (["n7"], "n7"),
        (["cn008", "cn009", "cn010"], "cn[008-010]"),
        (["n9", "n10", "n011"], "n[9-10,011]"),
        (["a1", "b2", "a3"], "a1,b2,a3"),
        (["a", "a1"], "a,a1"),
        (["a1", "a"], "a1,a"),
    ],
)
def test_short_names_are_read_as_they_were(names: list[str], short: str):
    assert compressed(names) == short
    assert list(expanded(short)) == names
