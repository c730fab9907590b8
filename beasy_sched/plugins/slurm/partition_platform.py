"""Conversion of a Slurm cluster's nodes to a platform, with the speeds and powers of servers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.limits import shortened

if TYPE_CHECKING:
    from beasy_sched.generate.platform_file import ServerSpec
    from beasy_sched.model.platform import Platform
    from beasy_sched.plugins.slurm.records import SlurmNode


_FEATURE: Final = "feature:"
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class ServerRule:
    """A mapping of nodes to one kind of server: by name, by feature, or all nodes."""

    text: str
    """The rule as given: ``n[1-4]=gros``, ``feature:gpu=taurus``, or ``gros`` for all nodes."""
    server: ServerSpec
    names: frozenset[str] | None = None
    feature: str | None = None

    def fits(self, node: SlurmNode) -> bool:
        """Whether the rule applies to the node."""
        if self.names is not None:
            return node.name in self.names
        return self.feature is None or self.feature in node.features


def parse_rule(text: str) -> ServerRule:
    """Read ``NODES=SERVER``, ``feature:NAME=SERVER`` or ``SERVER``.

    NODES is in Slurm's short form, SERVER a preset or a server file. Raises ValueError, and ConfigError and
    InputError for the server.
    """
    from beasy_sched.generate.platform_file import load_server
    from beasy_sched.plugins.slurm.records import expanded

    where, equals, source = text.partition("=")
    if not equals:
        return ServerRule(text, load_server(text))
    if not where or not source:
        raise ValueError(
            f"{shortened(text, 40)!r} is not NODES=SERVER, such as n[1-4]=gros, feature:gpu=my.toml, or gros"
        )
    if where.startswith(_FEATURE):
        return ServerRule(text, load_server(source), feature=where.removeprefix(_FEATURE))
    return ServerRule(text, load_server(source), names=frozenset(expanded(where)))


def of_partition(nodes: Sequence[SlurmNode], partition: str | None) -> list[SlurmNode]:
    """Return the nodes of a partition, or all; without those in state FUTURE, which do not exist.

    Raises ConfigError, with the existing partitions, for a partition without nodes.
    """
    there = [node for node in nodes if node.state != "FUTURE"]
    chosen = [node for node in there if partition is None or partition in node.partitions]
    if partition is not None and not chosen:
        names = ", ".join(sorted({name for node in there for name in node.partitions})) or "(none)"
        raise ConfigError(f"no node is in the partition {partition!r}: the partitions are {names}")
    return chosen


def read_nodes_file(path: PathLike) -> list[SlurmNode]:
    """Read the output of ``sinfo --json`` (22.05) or ``scontrol show nodes --json``. Raises InputError."""
    from beasy_sched.formats.reading import read_plain_bytes
    from beasy_sched.plugins.slurm.records import read_nodes

    return read_nodes(read_plain_bytes(path), path)


def cluster_platform(
    nodes: Sequence[SlurmNode], rules: Sequence[ServerRule], *, one_pstate: bool = False
) -> Platform:
    """Build a platform of these nodes; each is a server of the first matching rule.

    ``one_pstate`` keeps the fastest computing P-state of each.

    Raises ConfigError for nodes without a rule, rules without a node, and different servers with the same
    name.
    """
    from beasy_sched.generate.platform_file import named_platform
    from beasy_sched.plugins.slurm.records import compressed

    chosen: list[tuple[str, ServerSpec]] = []
    lacking: list[SlurmNode] = []
    used: set[str] = set()
    for node in nodes:
        if _HOST_NAME.fullmatch(node.name) is None:
            raise ConfigError(f"the node's name {shortened(node.name, 40)!r} cannot be that of a host")
        rule = next((rule for rule in rules if rule.fits(node)), None)
        if rule is None:
            lacking.append(node)
        else:
            used.add(rule.text)
            server = rule.server.fastest_only() if one_pstate else rule.server
            chosen.append((node.name, server))
    if lacking:
        raise ConfigError(_lacking(lacking))
    idle = next((rule.text for rule in rules if rule.text not in used), None)
    if idle is not None:
        names = shortened(compressed(node.name for node in nodes), 200)
        raise ConfigError(f"--server {idle}: matches no remaining node; the nodes are {names}")
    specs: dict[str, ServerSpec] = {}
    for _, spec in chosen:
        if specs.setdefault(spec.name, spec) != spec:
            raise ConfigError(f"two different servers are called {spec.name!r}: rename one")
    return named_platform(chosen)


def _lacking(nodes: Sequence[SlurmNode]) -> str:
    """Return the message for nodes without a server."""
    from beasy_sched.plugins.slurm.records import compressed

    names = shortened(compressed(node.name for node in nodes), 200)
    features = sorted({feature for node in nodes for feature in node.features})
    have = f" (their features: {', '.join(features)})" if features else ""
    return f"no server is given for {names}{have}: add --server '{names}=gros', or --server gros for all"
