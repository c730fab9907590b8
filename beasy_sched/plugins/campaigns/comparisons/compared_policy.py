"""A policy to compare, with its options and settings."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from beasy_sched.model.choices import OnKill, Placement

_Choice = TypeVar("_Choice", bound=Enum)


@dataclass(frozen=True)
class ComparedPolicy:
    """A policy to compare, by the name of its row."""

    label: str
    policy: str
    arguments: tuple[str, ...] = ()
    """Options of the policy, as in ``--option NAME=VALUE`` and ``--options JSON``."""
    placement: Placement | None = None
    """Placement of the jobs; None: by the policy."""
    on_kill: OnKill | None = None
    """Treatment of killed jobs; None: they are lost."""

    @classmethod
    def of(cls, text: str) -> ComparedPolicy:
        """Read ``NAME``, or ``NAME OPTION=VALUE ...`` as one string. Raises ValueError.

        ``placement=external`` and ``on_kill=requeue`` are not options of the policy, but of its run.
        """
        name, *options = shlex.split(text) or [""]
        if not name:
            raise ValueError("expected the name of a policy")
        placement, on_kill = _setting("placement", Placement, options), _setting("on_kill", OnKill, options)
        own = (word for each in options for word in ("--option", each))
        return cls(text, name, tuple(own), placement, on_kill)

    @property
    def folder_name(self) -> str:
        """Name of the policy's folder: the label, made safe for a path."""
        return re.sub(r"[^\w.-]", "_", self.label)

    def check(self, *, site: bool, plan: bool) -> None:
        """Create the policy, with its options, for a run with or without site and plan. Raises BeasyError."""
        from beasy_sched.engine.setup import check_placement
        from beasy_sched.policies.registry import make_policy
        from beasy_sched.run.building import check_needs

        policy = make_policy(self.policy, self.options())
        check_needs(policy, self.policy, site=site, plan=plan)
        if self.placement is not None:
            check_placement(self.placement, policy, self.policy)

    def options(self) -> dict[str, Any]:
        """Read the options of the policy. Raises ConfigError and InputError."""
        from beasy_sched.run.building import read_options

        given = [*zip(self.arguments[::2], self.arguments[1::2], strict=True)]
        text = dict(given).get("--options", "{}")
        return read_options(text, [value for option, value in given if option == "--option"])


def _setting(name: str, kind: type[_Choice], options: list[str]) -> _Choice | None:
    """Remove the setting ``NAME=VALUE`` of a policy's run from its options; return the last value, or None.

    Raises ValueError.
    """
    given = [each for each in options if each.startswith(f"{name}=")]
    if not given:
        return None
    options[:] = [each for each in options if each not in given]
    names = [str(each.value) for each in kind]
    if (found := given[-1].partition("=")[2]) not in names:
        expected = " or ".join(names) if len(names) == 2 else f"one of {', '.join(names)}"
        raise ValueError(f"{name}: found {found!r}, expected {expected}")
    return kind(found)
