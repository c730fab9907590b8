"""What options mean, as their classes say it."""

from __future__ import annotations

from beasy_sched.policies import Options
from beasy_sched.policies.option_docs import option_meanings


class First(Options, frozen=True):
    """Options."""

    patience_s: float = 3600.0
    """A job that has waited this long
    goes ``first``."""
    silent: int = 1


class Second(First, frozen=True):
    silent: int = 2
    """Told by `Second`."""
    patience_s: float = 60.0


def test_texts_below_fields_are_their_meanings() -> None:
    assert option_meanings(First) == {"patience_s": "A job that has waited this long goes first."}
    assert option_meanings(Second) == {
        "patience_s": "A job that has waited this long goes first.",
        "silent": "Told by Second.",
    }
    assert option_meanings(Options) == {}


def test_without_source_nothing_is_known() -> None:
    made = type("Made", (First,), {"__annotations__": {"more": int}, "more": 1}, frozen=True)
    assert option_meanings(made) == {"patience_s": "A job that has waited this long goes first."}
