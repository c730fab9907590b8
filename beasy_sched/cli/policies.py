"""``beasy-sched policies``: what there is to choose from."""

from __future__ import annotations

import click

from beasy_sched.policies.registry import policy_class, policy_names


@click.command()
def policies() -> None:
    """List the policies, one line each."""
    names = policy_names()
    width = max(map(len, names))
    for name in names:
        kind = policy_class(name)
        needs = [*["--site"] * kind.needs_power, *["--plan"] * kind.needs_plan]
        note = f" (needs {' and '.join(needs)})" if needs else ""
        click.echo(f"{name:<{width}}  {kind.summary}{note}")
