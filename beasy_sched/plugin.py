"""Plug-ins: what each adds to the program, and where they are found.

The core is complete without them. Each folder of `beasy_sched.plugins` is a plug-in, which declares itself as
``PLUGIN`` in its ``__init__``; a folder may be missing. Other packages declare theirs by an entry point of
the group ``beasy_sched.plugins``, such as ``mine = "my_package:PLUGIN"``; these are only read if a name is
not ours, since reading the entry points takes longer than most commands need to start.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from beasy_sched.errors import ConfigError, Interrupted

ENTRY_POINTS: Final = "beasy_sched.plugins"
"""Entry-point group through which other packages add plug-ins."""

Target: TypeAlias = str
"""A place of a definition, ``package.module:name``, which is imported only when it is used."""
Kind: TypeAlias = Literal[
    "policies", "interface", "drawings", "pages", "followers", "live_followers", "panels"
]


@dataclass(frozen=True)
class Plugin:
    """The declaration of a plug-in: everything that it adds.

    It may import the core, and the plug-ins in ``needs``. ``commands`` has the commands below each heading of
    the help, and those of the group ``generate``; ``policies`` the policies by name; ``interface`` names of
    `beasy_sched.api`. ``drawings`` are functions that the core calls by name to draw its plans
    and runs, and ``pages`` reports of a folder, by the name of a file in it. ``followers`` are classes of
    options of ``simulate`` whose method ``follower`` returns what follows the run (`run.following`),
    ``live_followers`` the same for ``serve`` and ``slurm run`` (``live_follower``), and ``panels`` functions
    that return further charts of a run for its report.
    """

    name: str
    needs: tuple[str, ...] = ()
    commands: Mapping[str, Mapping[str, Target]] = field(default_factory=dict)
    policies: Mapping[str, Target] = field(default_factory=dict)
    interface: Mapping[str, Target] = field(default_factory=dict)
    drawings: Mapping[str, Target] = field(default_factory=dict)
    pages: Mapping[str, Target] = field(default_factory=dict)
    followers: Mapping[str, Target] = field(default_factory=dict)
    live_followers: Mapping[str, Target] = field(default_factory=dict)
    panels: Mapping[str, Target] = field(default_factory=dict)


@cache
def own_plugins() -> tuple[Plugin, ...]:
    """Return the plug-ins of this package, in the order of their names."""
    folder = os.path.join(os.path.dirname(__file__), "plugins")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    packages = [name for name in names if os.path.isfile(os.path.join(folder, name, "__init__.py"))]
    return tuple(importlib.import_module(f"beasy_sched.plugins.{name}").PLUGIN for name in packages)


@cache
def installed_plugins() -> tuple[Plugin, ...]:
    """Return the plug-ins of other packages, in the order of their names. Raises ConfigError."""
    from importlib.metadata import entry_points

    return tuple(_loaded(entry) for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda e: e.name))


def _loaded(entry: Any) -> Plugin:
    try:
        plugin = entry.load()
    except (KeyboardInterrupt, Interrupted):
        raise
    except BaseException as error:  # other packages may raise anything on import
        raise ConfigError(
            f"plug-in {entry.name!r} ({entry.value}) cannot be imported: {type(error).__name__}: {error};"
            " update or uninstall its package"
        ) from error
    if not isinstance(plugin, Plugin):
        raise ConfigError(
            f"plug-in {entry.name!r} ({entry.value}): found a {type(plugin).__name__},"
            " expected a beasy_sched.plugin.Plugin; update or uninstall its package"
        )
    return plugin


def _plugins() -> Iterator[Plugin]:
    """Yield our plug-ins, then those of other packages, which are read only if the former do not suffice."""
    yield from own_plugins()
    yield from installed_plugins()


def commands_of(heading: str) -> dict[str, Target]:
    """Return the commands that plug-ins add below a heading of the help or to a group, ours first."""
    made: dict[str, Target] = {}
    for plugin in _plugins():
        for name, target in plugin.commands.get(heading, {}).items():
            made.setdefault(name, target)
    return made


def command_target(heading: str, name: str) -> Target | None:
    """Return where a plug-in defines a command; None if none does."""
    return next((p.commands[heading][name] for p in _plugins() if name in p.commands.get(heading, {})), None)


def own_targets(kind: Kind) -> dict[str, Target]:
    """Return everything of a kind that our plug-ins add, by name."""
    return {name: target for plugin in own_plugins() for name, target in getattr(plugin, kind).items()}


def targets(kind: Kind) -> dict[str, Target]:
    """Return everything of a kind that all plug-ins add, by name, ours before those of other packages."""
    return {
        name: target
        for plugin in (*installed_plugins(), *own_plugins())
        for name, target in getattr(plugin, kind).items()
    }


def target_of(kind: Kind, name: str) -> Target | None:
    """Return where a plug-in defines something of a kind; None if none does."""
    return next((targets[name] for p in _plugins() if name in (targets := getattr(p, kind))), None)


def load(target: Target) -> Any:
    """Import what a target names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def drawing(name: str) -> Callable[..., Any]:
    """Return the function that draws plans or runs. Raises ConfigError if no plug-in has it."""
    target = target_of("drawings", name)
    if target is None:
        text = f"this installation cannot draw a {name}: install beasy-sched with its plug-in reports"
        raise ConfigError(text)
    function: Callable[..., Any] = load(target)
    return function
