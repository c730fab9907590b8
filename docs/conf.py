"""Sphinx's settings for the site of pages; ``scripts/docs`` builds it."""

import re
import sys
from pathlib import Path
from posixpath import normpath

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from beasy_sched import __version__

sys.path.insert(0, str(Path(__file__).parent))
from tables import TABLES

REPOSITORY = "https://github.com/beasy-sched/beasy-sched"
ROOT = Path(__file__).parents[1]

project = "beasy-sched"
author = "The authors of beasy-sched"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
html_theme = "furo"
html_title = f"beasy-sched {__version__}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False


def lead_outside_links_to_the_repository(app: Sphinx, page: str, source: list[str]) -> None:
    """Link files outside the folder of the pages, such as the README, to the repository."""
    folder = normpath(f"docs/{page}/..")

    def link(found: re.Match[str]) -> str:
        target = normpath(f"{folder}/{found[1]}")
        folder_meant = (ROOT / target.partition("#")[0]).is_dir()
        if "://" in found[1] or (target.startswith("docs/") and not folder_meant):
            return found[0]
        kind = "tree" if folder_meant else "blob"
        return f"]({REPOSITORY}/{kind}/main/{target})"

    source[0] = re.sub(r"\]\(([^)\s#]\S*?)\)", link, source[0])


def insert_tables(app: Sphinx, page: str, source: list[str]) -> None:
    """Insert the tables generated from the program into a page."""
    source[0] = re.sub("<!-- table: ([a-z-]+) -->", lambda found: TABLES[found[1]](), source[0])


def setup(app: Sphinx) -> None:
    """Register the processing of pages, and a lexer for blocks of CSV, which Pygments does not have."""
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", lead_outside_links_to_the_repository)
    app.connect("source-read", insert_tables)
