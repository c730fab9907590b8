"""The page and the picture of the architecture show the house as the import contract has it."""

import re

import draw_architecture as drawing
from project.shell import ROOT

from beasy_sched.plugin import own_plugins

PAGE = (ROOT / "docs/design/architecture.md").read_text("utf-8")
PICTURE = (ROOT / "docs/design/architecture.svg").read_text("utf-8")


def test_the_picture_is_up_to_date():
    """Where this fails, the layers in pyproject.toml have changed: run scripts/draw_architecture."""
    assert drawing.picture() == PICTURE


def test_the_picture_is_readable():
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', PICTURE)]
    assert min(sizes) > 9.7


def test_every_layer_is_drawn_and_exists():
    drawn = re.findall(r'font-weight="bold">([\w.-]+)</text>', PICTURE)
    names = [name for row in drawing.layers() for name in row]
    assert drawn[: len(names)] == [drawing.title_of(name) for name in names]
    for name in names:
        package = ROOT / "beasy_sched" / name.replace(".", "/")
        assert package.is_dir() or package.with_suffix(".py").exists()


def test_every_package_has_a_layer():
    names = {name.partition(".")[0] for row in drawing.layers() for name in row}
    own = {path.stem for path in (ROOT / "beasy_sched").iterdir() if not path.name.startswith(("_", "py."))}
    public_names = {plugin.name for plugin in own_plugins()} & own
    assert own - public_names == names
    drawn = {
        name.partition(".")[2] for row in drawing.layers() for name in row if name.startswith("plugins.")
    }
    assert drawn == {plugin.name for plugin in own_plugins()}


def test_the_page_names_what_exists():
    for package, member in re.findall(r"`(\w+)\.(\w+)`", PAGE):
        if package.islower() and (ROOT / "beasy_sched" / package).is_dir():
            assert list((ROOT / "beasy_sched" / package).glob(f"{member}*"))


def test_a_class_name_stands_for_one_thing():
    found: dict[str, list[str]] = {}
    for path in (ROOT / "beasy_sched").rglob("*.py"):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text("utf-8"), re.MULTILINE):
            found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
