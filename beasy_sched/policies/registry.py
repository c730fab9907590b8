"""Registry of policies by name."""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from beasy_sched.errors import ConfigError, InputError, Interrupted
from beasy_sched.limits import shortened
from beasy_sched.plugin import installed_plugins, own_targets

if TYPE_CHECKING:
    from beasy_sched.engine.policy import Policy
    from beasy_sched.engine.session_words import Sentences, Words


ENTRY_POINTS = "beasy_sched.policies"
"""Entry-point group through which other packages add policies."""

CORE: Final = {
    "fcfs": "beasy_sched.policies.easy:Fcfs",
    "easy": "beasy_sched.policies.easy:Easy",
    "workload-reactive": "beasy_sched.policies.reactive:WorkloadReactive",
    "power-reactive": "beasy_sched.policies.reactive:PowerReactive",
    "follow-plan": "beasy_sched.policies.follow_plan:FollowPlan",
    "peak": "beasy_sched.policies.envelope:Peak",
    "next": "beasy_sched.policies.envelope:Next",
    "last": "beasy_sched.policies.envelope:Last",
    "workload": "beasy_sched.policies.envelope:WorkloadEnvelope",
    "beasy": "beasy_sched.policies.beasy.beasy_policy:Beasy",
    "bid-price": "beasy_sched.policies.bid_price.bid_price_policy:BidPrice",
}


@cache
def built_in() -> dict[str, str]:
    """Return the policies of the core and of our plug-ins: name to ``package.module:Class``."""
    return {**CORE, **own_targets("policies")}


def policy_names() -> list[str]:
    """Return the names of the built-in policies and of those of installed packages."""
    return [*built_in(), *(name for name in _entry_points() if name not in built_in())]


class PolicyLine(NamedTuple):
    """A policy in a list: what it does, and what it requires."""

    summary: str
    needs_power: bool
    needs_plan: bool


def policy_line(name: str) -> PolicyLine:
    """Return a policy's line of the list. Raises ConfigError.

    It is read from the source of our policies, because importing all of them for a list takes long.
    """
    module, _, class_name = built_in().get(name, "").partition(":")
    found: dict[str, Any] = {}
    while (text := _source_of(module)) is not None:
        start = re.search(rf"^class {class_name}\(([\w.]+)\):\n((?:(?:[ ].*)?\n)*)", text, re.MULTILINE)
        if start is None:
            break
        base, body = start[1], start[2]
        for attribute, value in re.findall(_LISTED, body, re.MULTILINE):
            found.setdefault(attribute, ast.literal_eval(value))
        if base == "Policy":
            rest = PolicyLine("", False, False)._asdict()
            return PolicyLine(**(rest | found))
        if not re.search(rf"^class {base}\(", text, re.MULTILINE):
            imported = re.search(
                rf"^from ([\w.]+) import (?:[\w, ]*\b{base}\b|\([^)]*\b{base}\b)", text, re.M
            )
            module = imported[1] if imported else ""
        class_name = base
    kind = policy_class(name)
    return PolicyLine(kind.summary, kind.needs_power, kind.needs_plan)


_LISTED: Final = r"^    (summary|needs_power|needs_plan)(?:: [^=]+)? = (\"[^\"\n]*\"|True|False)$"


def _source_of(module: str) -> str | None:
    """Return the source of one of our modules, without importing it; None if there is none."""
    package, *inner = module.split(".")
    if package != __name__.partition(".")[0]:
        return None
    try:
        return Path(__file__).parents[1].joinpath(*inner).with_suffix(".py").read_text("utf-8")
    except OSError:  # the package is not in a folder
        return None


def policy_class(name: str) -> type[Policy]:
    """Find a policy class by name, or by ``package.module:Class``. Raises ConfigError."""
    target = built_in().get(name)
    if target is None and ":" in name:
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # find modules in the working directory, as `python -m` does
        target = name
    if target is None:
        target = _entry_points().get(name)
    if target is None:
        if meant := _meant(name):
            raise ConfigError(f"unknown policy {name!r}: {meant}")
        names = policy_names()
        near = get_close_matches(name, names, n=1)
        guess = f"did you mean {near[0]}? The policies are " if near else "choose one of "
        raise ConfigError(
            f"unknown policy {name!r}: {guess}{', '.join(names)}; or name a class as package.module:Class"
        )
    return _load(target)


def words_for(done: str, rule: str, *, loaded: bool = False) -> Iterator[Words]:
    """Yield the words for a rule of the engine or of the built-in policies; see `engine.session_words`.

    Loaded modules come first, so that the end of a run does not load others for its own rules; with
    ``loaded`` only these are searched.
    """
    from beasy_sched.engine.session_words import ENGINE_WORDS

    key = done, rule
    if key in ENGINE_WORDS:
        yield ENGINE_WORDS[key]
    for name in sorted(built_in(), key=lambda name: not _is_loaded(name)):
        if (not loaded or _is_loaded(name)) and (words := policy_class(name).words.get(key)):
            yield words


def _is_loaded(name: str) -> bool:
    return built_in()[name].partition(":")[0] in sys.modules


def own_words(policy: Policy) -> Sentences:
    """Return the words of a user's policy, without those that it shares with built-in ones."""
    if type(policy).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return {}
    return {key: words for key, words in policy.words.items() if words not in words_for(*key, loaded=True)}


def make_policy(
    name: str, options: Mapping[str, Any] | None = None, *, kind: type[Policy] | None = None
) -> Policy:
    """Create a policy with its options, by name, or of the class ``kind`` with this name.

    Raises ConfigError, or PolicyError if the policy itself fails.
    """
    from beasy_sched.engine.policy import Policy, own_mistakes

    kind = policy_class(name) if kind is None else kind
    with own_mistakes(f"policy {name!r} failed while it was created"):
        policy = kind(options)
        if not isinstance(policy, Policy):
            raise TypeError(f"its class returned a {type(policy).__name__}, which is not a policy")
    return policy


def check_named_in_data(name: str, allowed: Collection[str], how: str) -> None:
    """Reject ``package.module:Class`` in a data file unless it is ``allowed``. Raises ConfigError.

    ``how`` is the advice for allowing it.
    """
    if name not in built_in() and ":" in name and name not in allowed:
        raise ConfigError(
            f"policy {shortened(name)!r} comes from a data file, which must not import code:"
            f" if you trust the file, {how}"
        )


def _load(target: str) -> type[Policy]:
    from beasy_sched.engine.policy import own_mistakes

    module_name, _, class_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (KeyboardInterrupt, Interrupted):
        raise
    except BaseException as error:  # users' modules may raise anything on import
        what = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        advice = f"; {meant}" if (meant := _meant(target)) else _where_modules_are(error, module_name)
        raise ConfigError(f"policy {target!r}: cannot import {module_name!r}: {what}{advice}") from error
    with own_mistakes(f"policy {target!r} cannot be read from its module"):
        policy = getattr(module, class_name, None)
    if policy is None:
        meant = _meant(module_name.replace(".", "/") + ".py")
        raise ConfigError(
            f"policy {target!r}: module {module_name!r} has no {class_name!r}{'; ' * bool(meant)}{meant}"
        )
    return check_class(policy, repr(target))


def _meant(name: str) -> str:
    """Return advice for a name with options, or that refers to a policy's file (``./soc.py``), or ""."""
    if " " in name.strip() and "=" in name:
        called, *options = name.split()
        return f"options are given separately: {called!r}, with --option {' --option '.join(options)}"
    head, _, class_name = name.partition(":")
    parts = head.removesuffix(".py").replace("/", " ").replace(os.sep, " ").replace(".", " ").split()
    for text in (head, f"{head}.py", f"{'/'.join(parts)}.py", f"{'/'.join(parts[:-1])}.py"):
        path = Path(text)
        if path.suffix == ".py" and os.path.isfile(path):  # also False for a name that is too long
            break
    else:
        return ""
    classes = [class_name] if class_name and head != ".".join(parts) else _classes(path)
    folder, module = Path.cwd(), path.resolve()
    inside = module.is_relative_to(folder)
    names = module.relative_to(folder).with_suffix("").parts if inside else (module.stem,)
    if not classes or not all(map(str.isidentifier, names)) or f"{'.'.join(names)}:{classes[0]}" == name:
        return ""
    called = " or ".join(repr(f"{'.'.join(names)}:{each}") for each in classes)
    where = "" if inside else f", with the command run in {module.parent}"
    return f"specify a policy by its module and class: did you mean {called}{where}?"


def _classes(path: Path) -> list[str]:
    """Return the classes in a file, those with a method ``schedule`` if there are any; does not run it."""
    from beasy_sched.formats.reading import read_bytes

    try:
        body = ast.parse(read_bytes(path)).body
    except (InputError, SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: too deep
        return []
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    deciding = [node for node in classes if any(getattr(x, "name", "") == "schedule" for x in node.body)]
    return [node.name for node in deciding or classes]


def _where_modules_are(error: BaseException, module_name: str) -> str:
    """Return advice for a module that was not found."""
    if not isinstance(error, ModuleNotFoundError) or error.name != module_name.partition(".")[0]:
        return ""
    return (
        f"; modules are searched in the working directory, {os.getcwd()}, the folders of PYTHONPATH and"
        " installed packages: run the command in the module's folder, or add this folder to PYTHONPATH"
    )


def check_class(policy: object, name: str) -> type[Policy]:
    """Return ``found`` if it is a policy class; ``name`` is used in errors. Raises ConfigError."""
    from beasy_sched.engine.policy import Policy

    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise ConfigError(f"policy {name} is not a subclass of beasy_sched.policies.Policy")
    if policy.schedule is Policy.schedule or not callable(policy.schedule):
        raise ConfigError(f"policy {name} has no method 'schedule'")
    return policy


def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points

    made = {name: target for plugin in installed_plugins() for name, target in plugin.policies.items()}
    return made | {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}
