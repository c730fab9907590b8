"""The pages: their links lead somewhere, the program names pages that there are, the site can be built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from project.shell import ROOT

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
