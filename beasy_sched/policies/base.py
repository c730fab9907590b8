"""The base class of policies, ours and others'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from beasy_sched.errors import ConfigError
from beasy_sched.policies.actions import Action
from beasy_sched.policies.view import View


class Options(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Base of a policy's options (the ``--options`` JSON); the plain base has none."""


class Policy:
    """Decides which jobs start, where, and at what speed.

    A policy is asked once a message, after all its events have been applied. It reads a `View` and
    returns actions; it holds no socket, and never sees a run time or future production.

    Subclass it, give it a ``name`` and a one-line ``summary``, and write `schedule`. Options are a
    subclass of `Options` named in ``options_type``.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    options_type: ClassVar[type[Options]] = Options
    needs_power: ClassVar[bool] = False
    """Whether it makes sense only with a site (storage and production)."""
    needs_plan: ClassVar[bool] = False
    """Whether it follows an offline plan of servers (and so needs a site, too)."""

    needs_speeds: ClassVar[bool] = False
    """Whether it reckons with the servers' speeds, which Batsim itself does not tell."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Read the options. Raises ConfigError that names the option."""
        try:
            self.options = msgspec.convert(dict(options or {}), self.options_type)
        except msgspec.ValidationError as error:
            known = ", ".join(self.options_type.__struct_fields__) or "none"
            raise ConfigError(f"options of policy {self.name!r}: {error} (it knows: {known})") from None

    def begin(self, view: View) -> None:
        """Called once, when the platform is known."""

    def power_actions(self, view: View) -> Sequence[Action]:
        """Power actions at the beginning of a step, before the guard's and before any start."""
        return ()

    def results(self) -> dict[str, dict[str, Any]]:
        """Return sections that the policy adds to the run's summary, by name; called after the run."""
        return {}

    def schedule(self, view: View) -> Sequence[Action]:
        """Return what to do now. Every hosts set must be free, and large enough for its job."""
        raise NotImplementedError
