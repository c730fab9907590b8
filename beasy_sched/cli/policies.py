"""``beasy-sched policies``: list the policies and their options."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from beasy_sched.cli.options import CommandOptions, known_policies, option, width, with_options

if TYPE_CHECKING:
    from beasy_sched.engine.policy import Options


class _PoliciesOptions(CommandOptions):
    as_json: bool = option(
        "Print JSON: names, requirements, options with their meanings and defaults.", "--json"
    )


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=known_policies)
@with_options(_PoliciesOptions)
def policies(given: _PoliciesOptions, names: tuple[str, ...]) -> None:
    """List the policies, one line each, or describe the options of the named policies.

    NAME is a policy of the list, or your own as package.module:Class.

    \b
      beasy-sched policies
      beasy-sched policies greenslot
      beasy-sched simulate --policy greenslot --option prices=flat ...
    """
    from beasy_sched.policies.registry import policy_names

    if not names and not given.as_json:
        _print_list(policy_names())
        return
    descriptions = [described(name) for name in names or policy_names()]
    if given.as_json:
        click.echo(json.dumps(descriptions, indent=2))
        return
    longest = max(len(each["name"]) for each in descriptions)
    for each in descriptions:
        note = _needs(each["needs_site"], each["needs_plan"])
        click.echo(f"{each['name']:<{longest}}  {each['summary']}{note}")
        if names:
            lines = [*_option_lines(each["options"]), _CAN_OFFER if each["can_offer"] else _CANNOT_OFFER]
            click.echo("".join(f"  {line}\n" for line in lines), nl=False)


def _print_list(names: Sequence[str]) -> None:
    """Print a line for each policy."""
    from beasy_sched.policies.registry import policy_line

    longest = max(map(len, names))
    for name in names:
        line = policy_line(name)
        click.echo(f"{name:<{longest}}  {line.summary}{_needs(line.needs_power, line.needs_plan)}")


def _needs(site: bool, plan: bool) -> str:
    """Return what a policy requires, in parentheses; empty if nothing."""
    needs = [*["--site"] * site, *["--plan"] * plan]
    return f" (requires {' and '.join(needs)})" if needs else ""


_CAN_OFFER: Final = (
    "supports --placement external: another scheduler places the jobs on the servers that it offers"
)
_CANNOT_OFFER: Final = "does not support --placement external"


def described(name: str) -> dict[str, Any]:
    """Return the description of a policy, in JSON's types. Raises ConfigError."""
    from beasy_sched.policies.registry import policy_class

    kind = policy_class(name)
    return {
        "name": name,
        "summary": kind.summary,
        "needs_site": kind.needs_power,
        "needs_plan": kind.needs_plan,
        "can_offer": kind.can_offer,
        "options": _described_options(kind.options_type),
    }


def _described_options(options: type[Options]) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each option, with its meaning if available."""
    from beasy_sched.policies.option_docs import option_meanings

    meanings = option_meanings(options)
    return {
        name: {**schema, **({"description": meanings[name]} if name in meanings else {})}
        for name, schema in _options_schema(options).items()
    }


def _options_schema(options: type[Options]) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each option; empty if its type has none."""
    try:
        (own,), components = msgspec.json.schema_components([options])
    except TypeError:  # an option of the user's own policy
        return {name: {} for name in options.__struct_encode_fields__}
    schemas: dict[str, dict[str, Any]] = components[own["$ref"].rpartition("/")[2]]["properties"]
    return schemas


def _option_lines(options: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of each option: name, possible values and default; below them, its meaning."""
    if not options:
        return ["no options"]
    margin = max(map(len, options)) + 2
    lines = []
    for name, schema in options.items():
        default = "" if "default" not in schema else f" (default: {_plain(schema['default'])})"
        lines.append(f"{name:<{margin}}{' or '.join(_values(schema)) or 'any value'}{default}")
        wide = max(width(100) - margin - 2, 40)
        lines += [" " * margin + line for line in textwrap.wrap(schema.get("description", ""), wide)]
    return lines


def _values(schema: dict[str, Any]) -> list[str]:
    """Return the values that a JSON schema allows, in words."""
    if "anyOf" in schema:
        return [word for part in schema["anyOf"] for word in _values(part)]
    if "enum" in schema:
        return [_plain(value) for value in schema["enum"]]
    kind = schema.get("type", "object")
    return {"boolean": ["true", "false"], "string": ["a string"], "null": []}.get(kind, [_A.get(kind, kind)])


_A = {"number": "a number", "integer": "an integer", "object": "a JSON object", "array": "a JSON array"}


def _plain(value: Any) -> str:
    """Return a value in the form of --option."""
    return value if isinstance(value, str) else json.dumps(value)
