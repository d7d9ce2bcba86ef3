"""Every house rule can fail, and a tree without violations passes."""

import subprocess
from pathlib import Path

import pytest

from tools.house_rules import REGISTRIES, main, violations

SENTENCE = '"""An example module."""\n'


def rules(root: Path, name: str, content: str | bytes) -> list[tuple[int, str]]:
    """The violations in a tree with this one file."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [(violation.line, violation.rule) for violation in violations(root, [Path(name)])]


def lines(count: int) -> str:
    """A module of exactly this many lines."""
    return SENTENCE + "X = 1\n" * (count - 1)


def function(count: int, head: str = "def long()") -> str:
    """A module with one function of exactly this many lines."""
    return f"{SENTENCE}{head}:\n" + "    pass\n" * (count - 1)


@pytest.mark.parametrize("head", ["def long()", "async def long()", "class C:\n def long(self)"])
def test_function_length(tmp_path: Path, head: str) -> None:
    """A function of 60 lines passes and one of 61 does not, also if it is async or a method."""
    assert [] == rules(tmp_path, "src/trimtab/a.py", function(60, head))
    assert ["function long has 61 lines, more than 60"] == [
        rule for _, rule in rules(tmp_path, "src/trimtab/a.py", function(61, head))
    ]


@pytest.mark.parametrize(("name", "limit"), [("tests/a.py", 400), ("src/trimtab/core/engine.py", 300)])
def test_file_length(tmp_path: Path, name: str, limit: int) -> None:
    """A file may have 400 lines, and the engine 300, and not one more."""
    assert [] == rules(tmp_path, name, lines(limit))
    assert [(limit + 1, f"file has {limit + 1} lines, more than {limit}")] == rules(tmp_path, name, lines(limit + 1))


@pytest.mark.parametrize("content", ["X = 1\n", "", '"""No sentence"""\n', "# a comment\n"])
def test_module_without_sentence(tmp_path: Path, content: str) -> None:
    """A source module needs a docstring that starts with a sentence, even an empty one."""
    expected = (1, "module docstring does not start with a sentence")
    assert [expected] == rules(tmp_path, "src/trimtab/a.py", content)


def test_empty_package_file_of_tests(tmp_path: Path) -> None:
    """An empty __init__.py of tests needs no docstring."""
    assert [] == rules(tmp_path, "tests/core/__init__.py", "")


@pytest.mark.parametrize("test", ["x", "x > 0", "x == 1", "valid(x)", "x is not None and x > 0", "not x"])
def test_asserts_that_check(tmp_path: Path, test: str) -> None:
    """In src they would be gone under `python -O`; elsewhere they may check anything."""
    expected = (2, "assert checks more than a type: raise an error that says what is wrong")
    assert [expected] == rules(tmp_path, "src/trimtab/a.py", f"{SENTENCE}assert {test}\n")
    assert [] == rules(tmp_path, "bench/a.py", f"{SENTENCE}assert {test}\n")


@pytest.mark.parametrize("test", ["x is not None", "isinstance(x, int)", "x is None or isinstance(x, int)"])
def test_asserts_that_narrow_a_type(tmp_path: Path, test: str) -> None:
    """mypy needs them."""
    assert [] == rules(tmp_path, "src/trimtab/a.py", f"{SENTENCE}assert {test}\n")


@pytest.mark.parametrize("name", ["src/trimtab/utils.py", "tests/helpers/a.py", "bench/common.py", "tools/base.py"])
def test_names_of_files(tmp_path: Path, name: str) -> None:
    """Meaningless names of files and folders are reported."""
    assert [rule for _, rule in rules(tmp_path, name, SENTENCE) if "not a meaningful name" in rule]


@pytest.mark.parametrize("suffix", ["Manager", "Handler", "Impl", "Service", "Processor"])
def test_names_of_classes(tmp_path: Path, suffix: str) -> None:
    """Meaningless suffixes of classes are reported with their line."""
    content = f"{SENTENCE}class Pod{suffix}: ...\n"
    assert [(2, f"class Pod{suffix} has a suffix without meaning")] == rules(tmp_path, "src/trimtab/a.py", content)


def test_kubernetes_kinds_are_allowed(tmp_path: Path) -> None:
    """A class may be called Service, like the kind."""
    assert [] == rules(tmp_path, "src/trimtab/a.py", f"{SENTENCE}class Service: ...\n")


def test_undocumented_test(tmp_path: Path) -> None:
    """A test without a docstring is reported; another function is not."""
    content = f"{SENTENCE}def build(): ...\ndef test_it(): ...\n"
    assert [(3, "test_it has no docstring")] == rules(tmp_path, "tests/test_a.py", content)


@pytest.mark.parametrize("word", [*REGISTRIES, "/".join(("", "work", "main")), "/".join(("", "root", ".cache"))])
def test_foreign_mentions(tmp_path: Path, word: str) -> None:
    """Registry hosts and machine-specific paths are found in any text file, in any folder."""
    found = rules(tmp_path, "docs/a.txt", f"first\nsee {word}\n")
    assert [2] == [line for line, _ in found]


@pytest.mark.parametrize(
    ("name", "count"),
    [("src/trimtab/a.yaml", 1), ("README.md", 1), ("tests/conformance/README.md", 0), ("Makefile", 0)],
)
def test_mention_of_the_corpus(tmp_path: Path, name: str, count: int) -> None:
    """Only tests, their docs and the Makefile may name the folder next to the project."""
    assert count == len(rules(tmp_path, name, "../shared/conformance\n"))


def test_binary_files_are_skipped(tmp_path: Path) -> None:
    """A file with a zero byte is not searched."""
    assert [] == rules(tmp_path, "docs/a.png", b"\0../shared")


def test_exit_code_and_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program prints file:line: rule and exits 1, or exits 0; ignored files do not count."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored.md\n")
    (tmp_path / "ignored.md").write_text("../shared")
    assert 0 == main([str(tmp_path)])
    assert "House rules: no violations.\n" == capsys.readouterr().out
    (tmp_path / "new.md").write_text("../shared")
    assert 1 == main([str(tmp_path)])
    assert "new.md:1: mentions ../shared\nHouse rules: 1 violation(s).\n" == capsys.readouterr().out
