"""Start-up: the help of all commands, without NumPy and without the modules that only runs need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_line import ALL_COMMANDS

from beasy_sched.cli import LazyGroup, cli
from beasy_sched.policies.registry import policy_class, policy_line, policy_names

HEAVY = (
    "numpy",
    "pandas",
    "matplotlib",
    "highspy",
    "zmq",
    "beasy_sched.simulator",
    "beasy_sched.engine.session",
)
ALL_HELP = """
import sys, click
from beasy_sched.cli import cli

def show(command, name):
    with click.Context(command, info_name=name) as context:
        assert command.get_help(context)
        for each in command.list_commands(context) if isinstance(command, click.Group) else ():
            show(command.get_command(context, each), each)
        loaded = [module for module in {heavy!r} if module in sys.modules]
        assert not loaded, f"the help of {{name}} imports {{', '.join(loaded)}}"

show(cli, "beasy-sched")
"""


def test_no_help_imports_numpy():
    """In one process: a command whose help imports it is named."""
    script = ALL_HELP.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


GROUPS = {"": cli} | {name: one for name, one in ALL_COMMANDS.items() if isinstance(one, LazyGroup)}


@pytest.mark.parametrize("name", GROUPS)
def test_a_list_of_commands_shows_what_the_commands_say(name: str):
    """The list reads the summaries from the source, because importing all commands takes long."""
    group = GROUPS[name]
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        assert group.summary(context, each) == command.get_short_help_str(1000)


def test_the_list_of_commands_imports_none_of_them():
    script = (
        "import sys, click; from beasy_sched.cli import cli; cli.get_help(click.Context(cli));"
        " print(*(name for name in sys.modules if '.commands.' in name or name == 'beasy_sched.cli.options'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("name", policy_names())
def test_the_list_of_policies_shows_what_the_classes_say(name: str):
    """It reads our policies from their source, because importing all of them takes long."""
    kind = policy_class(name)
    assert policy_line(name) == (kind.summary, kind.needs_power, kind.needs_plan)


def test_the_list_of_policies_imports_none_of_them():
    script = (
        "import sys; from beasy_sched.cli import cli; cli(['policies'], standalone_mode=False);"
        " print('numpy' in sys.modules, 'beasy_sched.policies.easy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False False"


def test_the_line_of_a_policy_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_line.py").write_text(
        "from beasy_sched.policies.easy import Easy\n"
        "class Mine(Easy):\n    summary = 'mine'\n    needs_power = True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert policy_line("my_line:Mine") == ("mine", True, False)
