"""The check of the project's English: its rules, the texts it reads, and its exceptions.

``python tests/project/plain_english.py [PATH ...]`` prints the findings in files and folders (default: all).
`test_plain_english` runs it with the other tests, so ``scripts/test`` does.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CHECKED = (
    "beasy_sched",
    *("docs", "scripts", "docker", "platforms", "workloads"),
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
)
NOT_YET: tuple[str, ...] = ()
"""Files and folders of `CHECKED` whose texts the tests do not check yet."""


@dataclass(frozen=True)
class Rule:
    """Words that are wrong wherever they match, and what to write instead.

    A space matches any white space (lines of a page are wrapped). ``(?i)`` is implied.
    """

    pattern: str
    advice: str

    @cached_property
    def expression(self) -> re.Pattern[str]:
        return re.compile(self.pattern.replace(" ", r"\s+"), re.IGNORECASE)


BE = "(?:is|are|was|were|be|been)"
END = r"(?=[.,;:)]|\s*\Z)"
LAST_WORD = (
    r"[.,;:)\]|]| \||\s*\Z| (?:is|are|may|can|must|will|has|have|had|and|or|on|in|for|with|at|to|by|from|as"
    r"|that|which|such|where|when|if|not|gets?|means|first|only)\b"
)
"""What follows a noun phrase that has ended."""

PHRASES = (
    Rule(r"\b(tell|tells|told|telling)\b", "report, print, show, return, notify; told apart: distinguished"),
    Rule(r"\b(says?|said|saying)\b", "states, specifies, shows; what a file says: the content of the file"),
    Rule(
        r"(?<!first\s)\b(come|comes|came)\b(?! back)"
        r"(?! (only |all |partly )?(from|before|after|first|last|later|next|close)\b)",
        "arrive, be submitted, occur, follow; did not come: failed to wake",
    ),
    Rule(r"\b(stands?|stood) (for|in|by|there|below|beside|behind)\b", "means, represents, replaces, is"),
    Rule(r"\bknows? (no|nothing|neither|nor|only|of)\b", "does not have, model or support"),
    Rule(rf"\b{BE} not known\b", "unknown, not available"),
    Rule(r"\banew\b", "again, recomputed, from scratch"),
    Rule(r"\b(go|goes|going|went|gone) on\b", "continues, resumes"),
    Rule(r"\b(go|goes|went|gone) wrong\b", "failed; of a window: violated"),
    Rule(
        rf"\bof (its|their|your|one's|my|our|his|her) own(?={LAST_WORD})",
        "its own X, a separate X",
    ),
    Rule(
        rf"(?<!there\s)\b{BE} no (?!(longer|more|less|later|earlier|other|\w+er|reason) )[a-z]",
        "is not a X, is not X",
    ),
    Rule(r"\b(left|leave|leaves|leaving)( \w+){0,2} out\b", "omitted, skipped, excluded"),
    Rule(rf"(?<!connection\s)\b{BE} refused\b", "rejected, not supported, invalid"),
    Rule(r"\bodd\b(?! (number|index|position)s?)", "a warning; suspicious, unusual"),
    Rule(
        r"\bnoises\b|\b(a|each|every|one|per|another|which|this) noise\b"
        r"(?!-| (seed|level|factor|realization)s?)",
        "noise seed, realization",
    ),
    Rule(r"\ba text\b(?! (file|editor|column|block|table))", "a string"),
    Rule(r"\bwhole numbers?\b(?! of\b)", "an integer"),
    Rule(r"\bpictures?\b", "figure, chart, plot"),
    Rule(r"\bprocessor time\b", "CPU time"),
    Rule(r"\bbeside\b", "next to, along with, in addition to"),
    Rule(r"\bsun(,| and) wind\b|\bwind and sun\b|\bkW of sun\b", "solar and wind power, kW of PV"),
    Rule(r"\bfor so long\b|\bso (long|many|much)[,.;:)]", "for this time, this many: name the quantity"),
    Rule(r"\bwhat (becomes|became|comes|came) of\b", "the outcome, how it is handled"),
    Rule(rf", too{END}", "also, before the verb; or nothing"),
    Rule(r"\bless (its|their|the)\b", "minus"),
    Rule(r"\bthat (is|are) there\b|\bwhat is there\b|\b(is|are) there already\b", "exists, available"),
    Rule(r"\breckon", "estimate, assume, compute"),
    Rule(rf"\bat all{END}", "drop it"),
    Rule(rf"\bas (it|they) (is|are){END}", "unchanged"),
    Rule(r"\bto be had\b", "available, possible"),
    Rule(r"\b(none|nothing) to (tell|say)\b|\bwithout a word\b", "no output"),
    Rule(r"(?<!fast\sas\s)(?<!times\s)\breal time\b", "wall-clock time"),
    Rule(r"\b(the|on|to|from|closed|redirected) standard error\b(?! (of|stream)\b)", "stderr"),
    Rule(
        r"(?:\A|[.:] )(?:Not )?(?:expected|compared|read|given|written|allowed|needed|required|known|meant"
        r"|measured|counted|shown|left|included|excluded) (?:is|are|was|were)\b",
        "subject, verb, object",
    ),
    Rule(r"(?:\A|[.:;] )then follows?\b", "subject, verb, object"),
    Rule(r"\b(whence|thence|thereof|therein|lest|nought|aught|hitherto|henceforth)\b", "modern English"),
    Rule(r"\bshall\b", "must, will, should"),
    Rule(
        r"\b(behavior|neighbor|(optim|minim|maxim|recogn|util|organ|normal|summar|serial|synchron|initial|general"
        r"|visual|real)is(e|es|ed|ing|ation))",
        "behaviour, neighbour; -ize",
    ),
)  # fmt: skip
"""Rules of all texts."""

DOCSTRINGS = (
    Rule(
        r"\A(What|How|Where|Which|Who|Whose|Whoever|Those|As|Of|Such|That|Not(?! enough)|None(?!:)|When"
        r"|If)\b",
        "begin with a noun (classes, modules, fields) or a verb (functions)",
    ),
)
"""Rules of docstrings, also of those of fields and constants."""

HELP = (Rule(r"\A(Whether|What|That|How|Where|Which)\b", "begin with an imperative or a noun"),)
"""Rules of the help of options."""


class Exception_(NamedTuple):
    """A right use of words that a rule finds."""

    path: str
    words: str
    """The text around the words, on one line."""
    reason: str


RULE = "name of a rule in the decision log, which is an interface"

EXCEPTIONS: tuple[Exception_, ...] = (
    Exception_("beasy_sched/engine/session_words.py", "planned anew", RULE),
    Exception_("beasy_sched/engine/session_words.py", "waits for jobs that never come", RULE),
    Exception_("beasy_sched/plugins/greenslot/greenslot_words.py", "its workflow was refused", RULE),
)
"""All exceptions; one whose words are gone must be removed."""


class Text(NamedTuple):
    """A text of a file, at a line."""

    line: int
    text: str
    rules: tuple[Rule, ...] = PHRASES


class Finding(NamedTuple):
    """Words that a rule finds."""

    path: str
    line: int
    words: str
    around: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.words}' in '{self.around}': {self.advice}"


def python_texts(source: str) -> Iterator[Text]:
    """The docstrings, sentences and comments of a module, and the help of its options."""
    tree = ast.parse(source)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Expr) and is_string(child.value):
                docstrings.add(id(child.value))
        if isinstance(node, ast.keyword) and node.arg == "help" and is_string(node.value):
            yield Text(node.value.lineno, node.value.value, HELP)
    for node in ast.walk(tree):
        if is_string(node) and (id(node) in docstrings or " " in node.value):
            yield Text(node.lineno, without_names(node.value))
            if id(node) in docstrings:
                yield Text(node.lineno, node.value, DOCSTRINGS)
    yield from comments(source)


def comments(source: str) -> Iterator[Text]:
    """The comments of Python code; those of adjacent lines as one."""
    begin, lines = 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] != begin + len(lines):
                yield Text(begin, without_names("\n".join(lines)))
                lines = []
            if not lines:
                begin = token.start[0]
            lines.append(token.string.lstrip("# "))
    if lines:
        yield Text(begin, without_names("\n".join(lines)))


def is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def page_texts(source: str) -> Iterator[Text]:
    """The prose of a page: without code, of which only the comments are read, and without addresses."""

    def without_code(block: re.Match[str]) -> str:
        return "\n".join(line.partition(" # ")[2] for line in f" {block[0]}".split("\n"))

    fenced = r"^( *)(```+|~~~+).*?^\1\2$"
    text = re.sub(fenced, without_code, source, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?:(?<=\n\n)|\A)(?: {4}.*\n+)+", without_code, text)
    yield Text(1, re.sub(r"\]\([^)\s]*\)", "]", without_names(text)))


def without_names(text: str) -> str:
    """The text with its code in backquotes emptied, and without names of options and classes of HTML."""
    text = re.sub(r"(?<![\w-])--[a-z][a-z-]*", "--", text)
    text = re.sub(r'\b(class|id)="[^"]*"', "", text)
    return re.sub(r"(``?)[^`]+\1", lambda code: "``" + "\n" * code[0].count("\n"), text)


def notebook_texts(source: str) -> Iterator[Text]:
    """The pages of a notebook and the comments and texts of its code."""
    for number, cell in enumerate(json.loads(source)["cells"], 1):
        read = page_texts if cell["cell_type"] == "markdown" else python_texts
        for text in read("".join(cell["source"])):
            yield text._replace(line=number)


def texts(path: Path) -> Iterator[Text]:
    """The texts of a file; nothing of a file that has none."""
    try:
        source = path.read_text("utf-8")
    except UnicodeDecodeError:
        return
    first = source.partition("\n")[0]
    if path.suffix == ".py" or ("#!" in first and "python" in first):
        yield from python_texts(source)
    elif path.suffix == ".md":
        yield from page_texts(source)
    elif path.suffix == ".ipynb":
        yield from notebook_texts(source)
    elif path.suffix in {".sh", ".yaml", ".toml"} or "#!" in first or path.name == "Dockerfile":
        yield Text(1, source)


def findings(path: Path) -> Iterator[Finding]:
    """What the rules find in a file, exceptions included."""
    name = path.relative_to(ROOT).as_posix()
    for line, text, rules in texts(path):
        for rule in rules:
            for match in rule.expression.finditer(text):
                begin, end = max(match.start() - 40, 0), match.end() + 40
                words, around = (" ".join(part.split()) for part in (match[0], text[begin:end]))
                at = line + text.count("\n", 0, match.start())
                yield Finding(name, at, words, around, rule.advice)


def exception_of(finding: Finding) -> Exception_ | None:
    """The exception that allows the words, or None."""
    for each in EXCEPTIONS:
        if each.path == finding.path and each.words in finding.around:
            return each
    return None


def files(path: Path) -> list[Path]:
    """The file itself, or all files of a folder."""
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    return [each for each in found if each.is_file() and "__pycache__" not in each.parts]


def wrong_words(path: Path) -> list[Finding]:
    """Findings in a file or folder that no exception allows."""
    found = (each for file in files(path) for each in findings(file))
    return [each for each in found if exception_of(each) is None]


if __name__ == "__main__":
    wrong = [each for name in sys.argv[1:] or CHECKED for each in wrong_words((ROOT / name).resolve())]
    print(*wrong, sep="\n")
    sys.exit(f"{len(wrong)} found" if wrong else 0)
