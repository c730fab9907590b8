"""The pages: their links lead somewhere, the program names pages that there are, the site can be built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from project.shell import ROOT, run

from beasy_sched.cli import cli
from beasy_sched.policies.registry import built_in, policy_class

PAGES = [
    *(ROOT / "README.md", ROOT / "CHANGELOG.md"),
    *sorted(path for folder in ("docs", "platforms", "workloads") for path in (ROOT / folder).rglob("*.md")),
]
NAMES_PAGES = re.compile(r"(?<![\w/.])docs/[\w/-]+\.(?:md|json|ipynb|svg)")


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^( *)(```+|~~~+).*?^\1\2$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub and MyST make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 0
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_anchors_are_those_of_a_web_view(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b_c`, d\n\n## Same\n\n```sh\n# no heading\n```\n\n## Same\n\n### [Go](x.md)-on: 1\n"
    )
    assert anchors(page) == {"a-b_c-d", "same", "same-1", "go-on-1"}


def test_files_name_pages_that_there_are() -> None:
    """Help texts, messages, docstrings, scripts and inputs."""
    folders = ("beasy_sched", "scripts", "tests", "docker", "platforms", "workloads", ".ci")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*")):
        if path.suffix in {"", ".py", ".toml", ".txt", ".md", ".yaml", ".sh"} and path.is_file():
            for name in NAMES_PAGES.findall(path.read_text("utf-8", errors="replace")):
                assert (ROOT / name).exists(), f"{path.relative_to(ROOT)}: {name}"


def commands(group: click.Group, path: str = "") -> Iterator[str]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from commands(found, f"{name} ")
        yield f"{path}{name}"


def test_the_page_of_commands_names_all() -> None:
    page = (ROOT / "docs/reference/commands.md").read_text("utf-8").partition("## Common")[0]
    named = set()
    for cell in re.findall(r"^\|[^|]*\| ([^|]*) \|", page, re.MULTILINE):
        first, *others = re.findall("`([^`]+)`", cell) or [""]
        group = f"{first.partition(' ')[0]} " if " " in first else ""
        named |= {first.partition(" ")[0], first} | {
            name if " " in name else f"{group}{name}" for name in others
        }
    assert named - {""} == set(commands(cli))


def test_the_page_of_policies_names_all_with_their_options() -> None:
    page = (ROOT / "docs/reference/policies.md").read_text("utf-8")
    table = page.partition("| name |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE)
    assert {name for cell in cells for name in re.findall("`([^`]+)`", cell)} == {*built_in()}
    named = set(re.findall(r"`(\w+)`", page))
    for policy in {*built_in()} - {"bid-price"}:  # its table is made when the site is built
        assert {*policy_class(policy).options_type.__struct_fields__} <= named, policy


@pytest.mark.slow
def test_the_first_ten_minutes(tmp_path: Path) -> None:
    """The commands of the page run in their order, and print the table that it shows."""
    page = (ROOT / "docs/start.md").read_text("utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    code = "\n".join(re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    done = run("bash", "-euc", code, cwd=tmp_path, variables={"PATH": path})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/four/report.html").is_file()
    row = r"^(easy|power-reactive|beasy|bid-price) +([\d.]+) .*$"
    shown = dict(re.findall(row, page, re.MULTILINE))
    printed = dict(re.findall(row, done.stdout, re.MULTILINE))
    assert len(shown) == 4
    assert {name: float(share) for name, share in printed.items()} == pytest.approx(
        {name: float(share) for name, share in shown.items()}, abs=0.5
    )
    (python,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert run(sys.executable, "-c", python, cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_the_site_can_be_built(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts/docs", tmp_path / "site"],
        env=os.environ | {"BEASY_VENV": sys.prefix},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "site/index.html")]
    for page in (ROOT / "docs").rglob("*.md"):
        assert (tmp_path / "site" / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()
