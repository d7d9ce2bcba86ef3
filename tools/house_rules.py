"""Checks house rules that ruff and import-linter do not cover.

    python -m tools.house_rules [ROOT]     prints file:line: rule, exits 1 if there is any violation

Each rule is a generator over one file, so that each can be tested on its own.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FUNCTION_LINES = 60
FILE_LINES = 400
SHORTER_FILES = {"src/trimtab/core/engine.py": 300}
CODE = ("src", "tests", "tools", "bench")
FORBIDDEN_STEMS = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
FORBIDDEN_SUFFIXES = ("Manager", "Handler", "Impl", "Service", "Processor")
KUBERNETES_KINDS = {"Service"}  # names of the API's own kinds are allowed

# Assembled from pieces, so that this file does not violate the rule itself.
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
    """A violation of one rule at one place."""

    path: Path
    line: int
    rule: str

    def __str__(self) -> str:
        """As file:line, which editors and terminals make clickable."""
        return f"{self.path}:{self.line}: {self.rule}"


def files(root: Path) -> list[Path]:
    """Every file that git tracks or would track, relative to the root, sorted."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted(path for name in listed.split("\0") if name and (root / (path := Path(name))).is_file())


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, at any depth."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def long_file(path: Path, text: str) -> Iterator[Violation]:
    """Files are limited in length."""
    limit = SHORTER_FILES.get(path.as_posix(), FILE_LINES)
    if (lines := len(text.splitlines())) > limit:
        yield Violation(path, limit + 1, f"file has {lines} lines, more than {limit}")


def long_functions(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """Functions fit on one screen."""
    for node in functions(tree):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES:
            yield Violation(path, node.lineno, f"function {node.name} has {lines} lines, more than {FUNCTION_LINES}")


def missing_docstring(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """Every module has a docstring that starts with a sentence."""
    if not tree.body and path.parts[0] != "src":
        return
    opening = (ast.get_docstring(tree) or "").split("\n\n")[0]
    if not opening.rstrip().endswith((".", ":")):
        yield Violation(path, 1, "module docstring does not start with a sentence")


def forbidden_file_names(path: Path) -> Iterator[Violation]:
    """File names say what is in the file."""
    for part in (*path.parts[:-1], path.stem):
        if part in FORBIDDEN_STEMS:
            yield Violation(path, 1, f"{part} is not a meaningful name")


def forbidden_class_names(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """Class names avoid suffixes without meaning."""
    names = ((node.name, node.lineno) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for name, line in names:
        if name.endswith(FORBIDDEN_SUFFIXES) and name not in KUBERNETES_KINDS:
            yield Violation(path, line, f"class {name} has a suffix without meaning")


def undocumented_tests(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """Every test has a docstring that says what it checks."""
    if path.parts[0] != "tests" or not path.name.startswith("test_"):
        return
    for node in functions(tree):
        if node.name.startswith("test_") and not ast.get_docstring(node):
            yield Violation(path, node.lineno, f"{node.name} has no docstring")


def checking_asserts(path: Path, tree: ast.Module) -> Iterator[Violation]:
    """In src, assert only narrows a type: `python -O` drops it, so it must not check anything."""
    if path.parts[:1] != ("src",):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and not _narrows(node.test):
            yield Violation(path, node.lineno, "assert checks more than a type: raise an error that says what is wrong")


def _narrows(test: ast.expr) -> bool:
    """`x is None`, `x is not None`, `isinstance(x, T)`, or several of them."""
    if isinstance(test, ast.BoolOp):
        return all(map(_narrows, test.values))
    if isinstance(test, ast.Compare):
        return all(isinstance(each, ast.Is | ast.IsNot) for each in test.ops)
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance"


def foreign_mentions(path: Path, text: str) -> Iterator[Violation]:
    """The tree mentions no machine, no package registry and no folder outside of itself."""
    words = [*REGISTRIES, *MACHINE_PATHS]
    if not path.as_posix().startswith(MAY_NAME_CORPUS):
        words.append(CORPUS_PATH)
    for number, line in enumerate(text.splitlines(), start=1):
        yield from (Violation(path, number, f"mentions {word}") for word in words if word in line)


def code_violations(path: Path, text: str) -> Iterator[Violation]:
    """The rules for a Python file."""
    tree = ast.parse(text, filename=str(path))
    yield from long_file(path, text)
    yield from forbidden_file_names(path)
    for rule in (long_functions, missing_docstring, forbidden_class_names, undocumented_tests, checking_asserts):
        yield from rule(path, tree)


def violations(root: Path, paths: Sequence[Path]) -> Iterator[Violation]:
    """All violations in these files."""
    for path in paths:
        content = (root / path).read_bytes()
        if b"\0" in content:
            continue
        text = content.decode(errors="replace")
        yield from foreign_mentions(path, text)
        if path.suffix == ".py" and path.parts[0] in CODE:
            yield from code_violations(path, text)


def main(arguments: Sequence[str]) -> int:
    """Print all violations; 1 if there is any."""
    root = Path(arguments[0] if arguments else ".")
    found = list(violations(root, files(root)))
    for violation in found:
        print(violation)
    print(f"House rules: {len(found)} violation(s)." if found else "House rules: no violations.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
