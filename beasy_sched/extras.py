"""Optional packages: those of the extras, and others that a policy may use."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from beasy_sched.errors import ConfigError


def load_optional(module: str, install: str, needed_for: str) -> Any:
    """Import and return ``module``. Raises the error that `import_problem` creates."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # other people's packages may raise anything on import
        raise import_problem(error, module, install, needed_for) from error


def is_installed(module: str) -> bool:
    """Whether ``module`` can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def source_of(module: str) -> Path | None:
    """Return the Python file of ``module``, without importing it; None if there is none."""
    spec = importlib.util.find_spec(module)
    path = None if spec is None or spec.origin is None else Path(spec.origin)
    return path if path is not None and path.suffix == ".py" else None


def require(module: str, install: str, needed_for: str) -> None:
    """Raise the error of `load_optional` if ``module`` is not installed, without importing it."""
    if not is_installed(module):
        raise import_problem(ModuleNotFoundError(name=module), module, install, needed_for)


def import_problem(error: Exception, module: str, install: str, needed_for: str) -> ConfigError:
    """Return the error to report for an ``error`` that importing ``module`` raised.

    ``install`` is the extra, such as ``beasy-sched[plan]``, or another package; ``needed_for`` begins the
    message, such as "planning". The message states how to install it; if the package is installed but cannot
    be imported, the message includes the error of the import.
    """
    package = module.partition(".")[0]
    needs = f"{needed_for} {'need' if needed_for.endswith('s') else 'needs'} {package}"
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return ConfigError(f"{needs}: {pip_words(install)}")
    what = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return ConfigError(
        f"{needs}, which is installed but cannot be imported ({what}): {pip_words(install, again=True)}"
    )


def pip_words(install: str, *, again: bool = False) -> str:
    """Return how to install, or reinstall, an extra such as ``beasy-sched[plan]``, or another package.

    Extras are those of a clone of the project, or of its wheel.
    """
    pip = "pip install --force-reinstall" if again else "pip install"
    name, bracket, extra = install.partition("[")
    if name != "beasy-sched" or not bracket:
        return f"{pip} '{install}'"
    return f"{pip} '.[{extra}' in a clone of beasy-sched, or {pip} 'FILE.whl[{extra}' with its wheel"
