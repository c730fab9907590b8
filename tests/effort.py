"""How many examples a property is tried with."""

from hypothesis import settings

_USUAL = 100


def examples(number: int) -> int:
    """``number`` of a whole test run; fewer under a profile whose ``max_examples`` is below the usual 100."""
    return max(1, number * min(settings.default.max_examples, _USUAL) // _USUAL)


def costly_examples(number: int) -> int:
    """As `examples`, where one takes a tenth of a second: a third of them if the profile has fewer."""
    return examples(number) if settings.default.max_examples >= _USUAL else max(1, examples(number) // 3)
