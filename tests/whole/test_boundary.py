"""Files are opened and decoded in one place: no other module calls what does that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import beasy_sched

ROOT = Path(beasy_sched.__file__).parent
BOUNDARY = {"formats/reading.py", "formats/decoding.py"}
ALLOWED = {
    ("formats/atomic.py", "open"): "writes files",
    ("formats/held_folder.py", "open"): "the same, relative to their folder",
    ("plugins/campaigns/folder.py", "open"): "the lock of a campaign",
    ("plugins/campaigns/scratch_folder.py", "open"): "the lock of a folder in use",
    ("plugins/campaigns/bundles/comparing.py", "csv.reader"): "bytes that have been read",
    ("plugins/campaigns/bundles/software.py", "read_text"): "the metadata of installed packages",
    ("cli/__init__.py", "open"): "the null device",
    ("cli/__init__.py", "read_text"): "the source of commands, for their help",
    ("policies/registry.py", "read_text"): "the source of policies, for their names",
    ("formats/batsim_jobs.py", "msgspec.json.Decoder"): "parts of a file that has been decoded",
    ("formats/swf.py", "gzip.GzipFile"): "unpacks a stream",
    ("formats/swf.py", "io.TextIOWrapper"): "the text of a stream",
    ("outputs/recording.py", "msgpack.Unpacker"): "a stream that has been opened",
    ("protocol/wire.py", "msgspec.json.Decoder"): "messages",
    ("protocol/farewell.py", "msgspec.json.decode"): "the last reply",
    ("plugins/foresee/batch.py", "open"): "the null device, and a setting of the kernel",
    ("plugins/foresee/children.py", "open"): "the null device",
    ("plugins/foresee/continuation.py", "msgspec.msgpack.Decoder"): "what a process of ours answers",
    ("plugins/foresee/forecast.py", "msgspec.json.Decoder"): "a line that we have written",
    ("plugins/foresee/line_file.py", "open"): "writes a file line by line",
    ("plugins/foresee/live.py", "msgspec.msgpack.Decoder"): "what a process of ours answers",
    ("plugins/slurm/journal.py", "open"): "appends to a file in its folder",
    ("protocol/batsim5_wire.py", "msgspec.json.decode"): "messages",
    ("protocol/batsim5_terms.py", "msgspec.json.decode"): "texts in messages",
    ("planner/process.py", "msgspec.msgpack.decode"): "what a process of ours answers",
    ("plugins/pybatsim/scheduler.py", "json.loads"): "messages",
}
"""Other places that may, and why."""
METHODS = {"open", "read_text", "read_bytes"}
DECODERS = {
    "json.load", "json.loads", "msgspec.json.decode", "msgspec.json.Decoder", "msgspec.msgpack.decode",
    "msgspec.msgpack.Decoder", "msgspec.toml.decode", "tomllib.load", "tomllib.loads", "tomli.loads",
    "csv.reader", "csv.DictReader", "msgpack.Unpacker", "msgpack.unpackb", "msgpack.unpack", "np.load",
    "np.loadtxt", "np.genfromtxt", "np.fromfile", "pickle.load", "pickle.loads", "gzip.open",
    "gzip.GzipFile", "io.open", "io.TextIOWrapper",
}  # fmt: skip


def dotted(node: ast.expr) -> str:
    """The name of what is called, as far as it is one."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def readings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each call that opens or decodes a file, with its line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        last = name.rpartition(".")[2]
        called = isinstance(node.func, ast.Attribute) or last == "open"
        if called and last in METHODS and name not in ("io.open", "gzip.open"):
            if "resources.files" not in ast.unparse(node.func):  # a file of the package's own
                yield node.lineno, last
        elif name in DECODERS or (
            last.startswith("read_") and name.startswith(("pandas.", "pd.", "pyarrow."))
        ):
            yield node.lineno, name


MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


@pytest.mark.sampled
@pytest.mark.parametrize("module", [name for name in MODULES if name not in BOUNDARY])
def test_only_the_boundary_reads_files(module: str) -> None:
    text = (ROOT / module).read_text("utf-8")
    tree, shipped = ast.parse(text), "resources.files" in text
    found = [
        (line, name)
        for line, name in readings(tree)
        if (module, name) not in ALLOWED and not (shipped and name == "read_text")
    ]
    assert not found, f"{module}: read through formats/reading.py and formats/decoding.py"


def test_what_is_allowed_is_there() -> None:
    for module, name in ALLOWED:
        tree = ast.parse((ROOT / module).read_text("utf-8"))
        assert name in {found for _, found in readings(tree)}, f"{module} has no {name} any more"


def test_the_test_sees_what_reads() -> None:
    code = "open(a)\nPath(b).read_text()\njson.loads(c)\nimport pandas\npandas.read_csv(d)\n"
    assert [name for _, name in readings(ast.parse(code))] == [
        "open",
        "read_text",
        "json.loads",
        "pandas.read_csv",
    ]
