"""Tables of pages, generated from the program's declarations; ``python docs/tables.py NAME`` prints one."""

import sys
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from beasy_sched.plugins.campaigns.campaign_table import (
    COLUMNS,
    DEADLINE_COLUMNS,
    GRID_COLUMNS,
    LIFE_COLUMNS,
    SWEEP_COLUMNS,
    TIMING_COLUMNS,
    RunColumn,
)
from beasy_sched.policies.option_docs import option_meanings
from beasy_sched.policies.registry import policy_class


def columns(shown: Sequence[RunColumn]) -> str:
    """The columns of a campaign's table."""
    head = "| column | type | unit | meaning |\n|---|---|---|---|\n"
    return head + "\n".join(f"| `{c.name}` | {c.kind} | {c.unit} | {c.meaning} |" for c in shown)


def options(policy: str) -> str:
    """The options of a policy."""
    kind = policy_class(policy).options_type
    meanings = option_meanings(kind)
    rows = [
        f"| `{field.name}` | `{msgspec.json.encode(field.default).decode()}` | {meanings[field.name]} |"
        for field in msgspec.structs.fields(kind)
    ]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


TABLES: dict[str, Callable[[], str]] = {
    "columns": partial(columns, COLUMNS),
    "grid-columns": partial(columns, GRID_COLUMNS),
    "life-columns": partial(columns, LIFE_COLUMNS),
    "deadline-columns": partial(columns, DEADLINE_COLUMNS),
    "sweep-columns": partial(columns, SWEEP_COLUMNS),
    "timing-columns": partial(columns, TIMING_COLUMNS),
    "bid-price-options": partial(options, "bid-price"),
}
"""Text that replaces ``<!-- table: NAME -->`` in a page, by name."""

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TABLES:
        sys.exit(f"usage: python docs/tables.py NAME, which is one of {', '.join(TABLES)}")
    print(TABLES[sys.argv[1]]())
