"""Batsim's command lines in pages and helps have options of Batsim's own, and all that the daemon needs."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from project.shell import ROOT

from beasy_sched.cli import cli

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("*/README.md"))]
OURS = {"--protocol", "--timeout", "--traceback"}
"""Options of ``beasy-sched batsim`` that Batsim does not have."""
BATSIM_HELP = ROOT.parent / "shared" / "batsim-recordings" / "batsim-help.txt"


def command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def helps(group: click.Group, path: str = "") -> Iterator[tuple[str, str]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        yield f"{path}{name}", (found.help or "").replace("\b", "")
        if isinstance(found, click.Group):
            yield from helps(found, f"{path}{name} ")


def shown() -> list[tuple[str, bool, list[str]]]:
    """Where a command stands, whether it is the embedded simulator's, and its arguments."""
    texts = [(str(page.relative_to(ROOT)), page.read_text("utf-8")) for page in PAGES] + list(helps(cli))
    found = []
    for where, text in texts:
        for line in text.replace("\\\n", " ").splitlines():
            match = re.match(r"\s*(?:\$ )?(beasy-sched )?batsim (-.*)", line)
            if match:
                found.append((where, bool(match[1]), shlex.split(match[2], comments=True)))
    return found


SHOWN = shown()


def test_they_are_found():
    places = {where for where, _, _ in SHOWN}
    assert {
        "README.md",
        "docs/guides/batsim.md",
        "batsim",
        "serve",
        "generate platform",
        "generate power",
    } <= places


@pytest.mark.parametrize(("where", "embedded", "arguments"), SHOWN)
def test_a_command(where: str, embedded: bool, arguments: list[str]):
    version = [] if embedded or "--external-events" not in arguments else ["--protocol", "5"]
    given = command("batsim").make_context("batsim", [*version, *arguments]).params
    assert given["platform"] == "platform.xml"
    if not embedded:
        assert not OURS & {argument.partition("=")[0] for argument in arguments}
    if given["protocol"] == "5":
        assert given["energy_host"] or not given["external_events"]
        return
    if given["events"]:  # the power produced: the scheduler must hear of it, and asks for the energy used
        assert given["forward_unknown_events"]
        assert given["energy"]


def test_the_scheduler_beside_batsim_asks_for_energy():
    """So that a Batsim without -E would abort: the command in the README must have it."""
    section = (ROOT / "README.md").read_text("utf-8").partition("## With Batsim")[2].partition("\n## ")[0]
    (serve,) = re.findall(r"^beasy-sched (serve .*) &$", section, re.MULTILINE)
    given = command("serve").make_context("serve", shlex.split(serve)[1:]).params
    assert (str(given["site"]), given["energy"]) == ("default", "batsim")
    assert re.search(r"^batsim .* -E\b", section, re.MULTILINE)


def options(text: str) -> set[str]:
    """The options that a help of Batsim's lists, in the long form or the short one."""
    lines = re.findall(r"^  (-\S.*?)(?:  |$)", text, re.MULTILINE)
    return {name for line in lines for name in re.findall(r"(?:^|\s)(--?[a-zA-Z][\w-]*)", line)}


@pytest.mark.skipif(not BATSIM_HELP.is_file(), reason="the help of a real Batsim is not here")
def test_the_options_are_batsims():
    ours = {name for option in command("batsim").params for name in (*option.opts, *option.secondary_opts)}
    help_names = {"-h", "--help"}
    own = options(Path(BATSIM_HELP).read_text())
    assert {"--platform", "-E", "--WS", "--forward-unknown-events"} <= own
    assert own - help_names == ours - OURS - {"--version", "--simgrid-version"}
