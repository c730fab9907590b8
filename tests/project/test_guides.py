"""The commands of the guides: all have options that there are, and those that need no cluster run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import pytest
from project.played import blocks, make_place, play
from project.shell import ROOT

from beasy_sched.cli import cli

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PREPARED = """\
awk '/^;/{print;next}{$4*=8;$9*=8;print}' trace.swf > busy.swf && mv busy.swf trace.swf
beasy-sched generate platform --servers gros:20 -o platform.xml
beasy-sched generate site --battery-kwh 40 -o site.toml
beasy-sched generate site -o cheap.toml
sed -i 's/^discharge_limit_kw.*/discharge_limit_kw = 3.0/' cheap.toml
beasy-sched generate workload --synthetic --seed 1 -o workload.json
beasy-sched generate power --synthetic --seed 1 --pv-kw 4 --wind-kw 3 --case between -o power.txt
beasy-sched generate power --synthetic --seed 2 --pv-kw 4 --wind-kw 3 -o storm.txt
beasy-sched convert workload.json -o workload5.json
beasy-sched convert power.txt --format batsim5 -o power5.txt
beasy-sched plan -p platform.xml -w workload.json --production power.txt --site site.toml -o plan.msgpack
beasy-sched generate scenario best-begin -o sweep.toml
sed -i -e '/^\\[\\[guards\\]\\]/,$d' -e '/^policies = \\[/,/^\\]/c policies = ["easy", "beasy"]' sweep.toml
printf '[sweep]\\nbattery_kwh = [50, 100]\\n[[guards]]\\nmode = "shed"\\nveto = true\\n' >> sweep.toml
beasy-sched campaign run sweep.toml --quick -o out/sweep
for policy in easy beasy; do
    beasy-sched simulate -p platform.xml -w workload.json --events power.txt --site site.toml \\
        --plan plan.msgpack --policy $policy -o out/$policy
done
mkdir -p batsim-5/bin
printf '#!/bin/sh\\nexec beasy-sched batsim --protocol 5 "$@"\\n' > batsim-5/bin/batsim
chmod +x batsim-5/bin/batsim
"""
"""The files that pages take for given."""
NOT_PLAYED = {
    "docker": "tests/containers and test_docker.py run it",
    "scripts/run": "test_readme.py runs it",
    "pip install": "test_release.py and test_extras.py install",
    "pybatsim": "tests/plugins/pybatsim run it",
    "beasy-sched batsim -p": "the other terminal of a pybatsim; tests/plugins/pybatsim run it",
    "serve --policy easy --site site.toml --metrics": "a daemon without a Batsim; test_metrics.py runs it",
    "slurm import": "test_examples.py runs it",
    "slurm run": "tests/plugins/slurm run it beside a real Slurm",
    "slurm check": "tests/plugins/slurm run it beside a real Slurm",
    "SLURM_ARRAY": "a job of Slurm; tests/studies run parts",
    "dask": "several machines; test_dask_cluster.py runs it",
    "#SBATCH": "a script of a user",
    "plan --season": "inputs of a year; tests/planner/test_season.py plans them",
    "curl": "a service in the network",
    '28000" -p platform.xml': "a daemon without a Batsim; test_batsim_commands.py runs it",
}  # fmt: skip
"""Blocks with these words are not played, and why."""
LONG = r"campaign run|compare (?:best-begin|average|mine\.toml|--policy)"
SHORTENED = (
    (re.compile(rf"^(beasy-sched (?:{LONG}).*)$", re.MULTILINE), r"\1 --quick"),
    (re.compile(r" -n 100 -j 8"), " -n 4 -j 1"),
    (re.compile(r"KTH-SP2-1996-2\.swf --from 120d --duration 3d"), "trace.swf --duration 3d"),
    (re.compile(r" --policy bid-price --seeds 5 "), " --seeds 1 "),
    (re.compile(r" --no-kills"), " --no-kills --of-unlimited --policy bid-price"),
    (re.compile(r" --foresee 6h"), " --foresee 1d -n 2"),
    (re.compile(r"^(beasy-sched what-if [^#\n]*)", re.MULTILINE), r"\1 -n 2 "),
)
"""Commands that offer a short run are given it."""


def commands(page: str) -> Iterator[list[str]]:
    """The commands of the package in the blocks of a page, as words."""
    for block in re.findall(r"^ *```(?:sh|bash)\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(re.split(r" [>&|]", line)[0], comments=True)
            if "beasy-sched" in words[:-1]:
                yield words[words.index("beasy-sched") + 1 :]


def helps(group: click.Group, path: str = "beasy-sched") -> Iterator[tuple[str, str]]:
    """The help of every command below a group, by its name."""
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        yield f"{path} {name}", found.help or ""
        if isinstance(found, click.Group):
            yield from helps(found, f"{path} {name}")


def examples(text: str) -> Iterator[list[str]]:
    """The commands of the package among the examples of a help, as words."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(re.split(r" [>&|]", line)[0], comments=True) if "beasy-sched " in line else []
        if words[:1] == ["beasy-sched"] and "..." not in words:
            yield words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_exist(page: Path) -> None:
    check_options(page.name, commands(page.read_text("utf-8")))


@pytest.mark.parametrize(("name", "text"), [*helps(cli)], ids=[name for name, _ in helps(cli)])
def test_the_options_of_the_examples_in_helps_exist(name: str, text: str) -> None:
    check_options(name, examples(text))


def check_options(place: str, lines: Iterable[list[str]]) -> None:
    """Fail where a command, or an option of one, does not exist."""
    for words in lines:
        context, command, rest = click.Context(cli), cli, list(words)
        while isinstance(command, click.Group) and (found := command.get_command(context, rest[0])):
            command, context = found, click.Context(found, parent=context)
            del rest[0]
        try:
            if "--protocol" not in rest:  # Batsim 5 has other options
                command.make_parser(context).parse_args(args=rest)
        except click.UsageError as error:
            pytest.fail(f"{place}: {shlex.join(words)}: {error.format_message()}")
        assert command is not cli or rest[0] in ("--help", "--version", "."), (
            f"{place}: {shlex.join(words)}: no command"
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_place(tmp_path_factory.mktemp("guides"))
    for file, language, page in (
        ("my_policies.py", "python", "own-policies"),
        ("my.toml", "toml", "own-data"),
        ("jobs.json", "json", "own-data"),
        ("mine.toml", "toml", "campaigns"),
    ):
        text = (ROOT / f"docs/guides/{page}.md").read_text("utf-8")
        (made / file).write_text(blocks(text, language)[0].replace("count = 10 }", "count = 1 }"))
    play(made, PREPARED)
    return made


def played_blocks(page: Path) -> list[str]:
    """The blocks of a page that can be played, in order."""
    return [
        block
        for block in blocks(page.read_text("utf-8"), "sh|bash")
        if not any(words in block for words in NOT_PLAYED)
    ]


ELSEWHERE = {"battery-life", "elsewhere", "examples", "risk"}
"""Pages whose commands are run by tests of their own."""
GUIDES = [
    page
    for page in sorted((ROOT / "docs/guides").glob("*.md"))
    if page.stem not in ELSEWHERE and played_blocks(page)
]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_commands_run(place: Path, tmp_path: Path) -> None:
    """One test for all pages, so that the files that they take for given are made once; each gets a copy."""
    failed = {}
    for page in GUIDES:
        folder = shutil.copytree(place, tmp_path / page.stem)
        for block in played_blocks(page):
            code = block.replace("\\\n", " ")
            for pattern, shorter in SHORTENED:
                code = pattern.sub(shorter, code)
            try:
                play(folder, code, timeout_s=600.0)
            except AssertionError as error:
                failed[page.stem] = f"{code}{error}"
    assert not failed, "\n".join(f"{name}: {what}" for name, what in failed.items())


def test_every_reason_is_needed() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs/guides").glob("*.md")))
    assert [words for words in NOT_PLAYED if words not in pages] == []
