"""Decides whether the tree keeps the house rules a script can see; leaves style to ruff, imports to import-linter.

    python -m tools.house_rules [ROOT]     prints file:line: rule, exits 1 if there is any

Each rule is a generator over one file or over the whole list of files, so each can be shown to fail on its own.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.tree import files

FUNCTION_LINES = 60
FILE_LINES = 400
SHORTER_FILES = {"src/trimtab/core/engine.py": 300}
FOLDER_FILES = 14
WIDE_FOLDERS = {"src/trimtab/core/plugins", "src/trimtab/core/load", "src/trimtab/core/model", "src/trimtab/cli"}
CODE = ("src", "tests", "tools", "bench")
FORBIDDEN_STEMS = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
FORBIDDEN_SUFFIXES = ("Manager", "Handler", "Impl", "Service", "Processor")
KUBERNETES_KINDS = {"Service"}  # the API's own word for a thing is the clearest one

# Written in pieces, so that this file keeps the rule it checks.
REGISTRIES = tuple(
    ".".join(pieces)
    for pieces in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("goproxy", "io"),
        ("registry", "npmjs", "org"),
    )
)
MACHINE_PATHS = tuple(f"/{folder}/" for folder in ("work", "root"))
CORPUS_PATH = "../" + "shared"
MAY_NAME_CORPUS = ("tests/", "docs/testing", "docs/conformance", "Makefile")


class Violation(NamedTuple):
    """One place where one rule is broken."""

    path: Path
    line: int
    rule: str

    def __str__(self) -> str:
        """The form that editors and terminals make clickable."""
        return f"{self.path}:{self.line}: {self.rule}"


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, at any depth."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def long_file(path: Path, text: str) -> Iterator[Violation]:
    """A file that does not fit in one head is two files."""
    limit = SHORTER_FILES.get(path.as_posix(), FILE_LINES)
    if (lines := len(text.splitlines())) > limit:
        yield Violation(path, limit + 1, f"file has {lines} lines, more than {limit}")


def long_functions(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """A function that does not fit on a screen hides a second one."""
    for node in functions(tree):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES:
            yield Violation(path, node.lineno, f"function {node.name} has {lines} lines, more than {FUNCTION_LINES}")


def missing_docstring(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """A module says first what it decides and what it leaves to others."""
    if not tree.body and path.parts[0] != "src":
        return
    opening = (ast.get_docstring(tree) or "").split("\n\n")[0]
    if not opening.rstrip().endswith((".", ":")):
        yield Violation(path, 1, "module does not open with a sentence that says what it decides and what it leaves")


def forbidden_file_names(path: Path) -> Iterator[Violation]:
    """A name that fits everything says nothing."""
    for part in (*path.parts[:-1], path.stem):
        if part in FORBIDDEN_STEMS:
            yield Violation(path, 1, f"{part} is a name that says nothing")


def forbidden_class_names(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """A class is named for what it is, not for being busy."""
    names = ((node.name, node.lineno) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for name, line in names:
        if name.endswith(FORBIDDEN_SUFFIXES) and name not in KUBERNETES_KINDS:
            yield Violation(path, line, f"class {name} is named for being busy")


def undocumented_tests(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """A test states in its docstring the sentence that it proves."""
    if path.parts[0] != "tests" or not path.name.startswith("test_"):
        return
    for node in functions(tree):
        if node.name.startswith("test_") and not ast.get_docstring(node):
            yield Violation(path, node.lineno, f"{node.name} does not say what it proves")


def foreign_mentions(path: Path, text: str) -> Iterator[Violation]:
    """The tree speaks of itself alone: of no machine, no registry, no folder beside it."""
    words = [*REGISTRIES, *MACHINE_PATHS]
    if not path.as_posix().startswith(MAY_NAME_CORPUS):
        words.append(CORPUS_PATH)
    for number, line in enumerate(text.splitlines(), start=1):
        yield from (Violation(path, number, f"mentions {word}") for word in words if word in line)


def crowded_folders(paths: Iterable[Path]) -> Iterator[Violation]:
    """A folder that must be scrolled is two folders."""
    sources = (path for path in paths if path.parts[0] == "src" and path.name != "__init__.py")
    for folder, count in sorted(Counter(path.parent for path in sources).items()):
        if count > FOLDER_FILES and folder.as_posix() not in WIDE_FOLDERS:
            yield Violation(folder, 1, f"folder has {count} files, more than {FOLDER_FILES}")


def code_violations(path: Path, text: str) -> Iterator[Violation]:
    """All rules that need the syntax tree of one Python file."""
    tree = ast.parse(text, filename=str(path))
    yield from long_file(path, text)
    yield from forbidden_file_names(path)
    for rule in (long_functions, missing_docstring, forbidden_class_names, undocumented_tests):
        yield from rule(path, tree)


def violations(root: Path, paths: Sequence[Path]) -> Iterator[Violation]:
    """Every breach in these files of this root."""
    yield from crowded_folders(paths)
    for path in paths:
        content = (root / path).read_bytes()
        if b"\0" in content:
            continue
        text = content.decode(errors="replace")
        yield from foreign_mentions(path, text)
        if path.suffix == ".py" and path.parts[0] in CODE:
            yield from code_violations(path, text)


def main(arguments: Sequence[str]) -> int:
    """Print what is broken; 1 if anything is."""
    root = Path(arguments[0] if arguments else ".")
    found = list(violations(root, files(root)))
    for breach in found:
        print(breach)
    print(f"House rules: {len(found)} broken." if found else "House rules: all kept.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
