"""Calling a policy, so that its own mistakes are told as such."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from beasy_sched.errors import BeasyError, PolicyError
from beasy_sched.policies.actions import Action
from beasy_sched.policies.base import Policy
from beasy_sched.policies.view import View

T = TypeVar("T")


class PolicyCaller:
    """Calls one policy's methods."""

    def __init__(self, policy: Policy) -> None:
        """Speak for ``policy``."""
        kind = type(policy)
        self.name = kind.name or f"{kind.__module__}:{kind.__qualname__}"
        """The policy's name, or for one without a name its module and class."""

    def ask(self, method: Callable[[View], Sequence[Action]], view: View) -> list[Action]:
        """Ask for actions; all of them are known before the first is carried out."""
        return self.call(lambda seen: [*method(seen)], view)

    def call(self, method: Callable[[View], T], view: View) -> T:
        """Call a method. Its mistakes become a PolicyError that says where they are."""
        try:
            return method(view)
        except BeasyError:
            raise
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            raise PolicyError(
                f"policy {self.name!r} failed at {view.now:g} s: {type(error).__name__}: {error}"
                f" ({place.filename}:{place.lineno})"
            ) from error
