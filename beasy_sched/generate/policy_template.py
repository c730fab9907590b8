"""A policy to begin with: a class that works, and its test."""

from __future__ import annotations

import keyword
import sys
from pathlib import Path
from typing import Final

from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.file_set import together
from beasy_sched.formats.reading import package_text

_TAKEN: Final = frozenset({"beasy_sched", "numpy", "msgspec", "pandas", "pytest"})
"""Modules that the files import, or those who import them."""


def write_policy(name: str, folder: Path) -> list[Path]:
    """Write ``NAME.py`` with a policy class, and ``NAME_test.py``, into ``folder``; return their paths.

    The class is called as the module, in CamelCase. Raises ConfigError for a name that is not a module's, for
    a folder that does not exist, and where a file exists: nothing is overwritten.
    """
    check_module_name(name)
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a directory: create it, or choose another one")
    paths = [folder / f"{name}.py", folder / f"{name}_test.py"]
    if there := [str(path) for path in paths if path.exists()]:
        raise ConfigError(f"{' and '.join(there)} already there: choose another name or folder")
    words = {"@MODULE@": name, "@CLASS@": class_name(name), "@NAME@": name.strip("_").replace("_", "-")}
    with together():
        for path, template in zip(paths, ("policy.py.txt", "policy_test.py.txt"), strict=True):
            text = package_text("beasy_sched.generate", "templates", template)
            for mark, word in words.items():
                text = text.replace(mark, word)
            write_atomic(path, text)
    return paths


def class_name(module: str) -> str:
    """Return the name of the class in a module: ``shortest_first`` has ``ShortestFirst``."""
    return "".join(part[:1].upper() + part[1:] for part in module.split("_"))


def check_module_name(name: str) -> None:
    """Raise ConfigError for a name that cannot be a module of the user's own."""
    if not (name.isidentifier() and name.isascii() and name.strip("_") and not name.strip("_")[0].isdigit()):
        raise ConfigError(
            f"found {name!r}, expected the name of a Python module: letters, digits and _, as shortest_first"
        )
    if keyword.iskeyword(name) or keyword.iskeyword(class_name(name)):
        raise ConfigError(f"{name!r} is a word of Python: choose another name")
    if name in sys.stdlib_module_names or name in _TAKEN:
        raise ConfigError(f"{name!r} is the name of another module: choose another one")
