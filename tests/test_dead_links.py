"""Which links of a Markdown page count as dead."""

from pathlib import Path

import pytest

from tools.dead_links import anchors, dead

OTHER = "# One `code` idea: events\n\n## Twice\n\n## Twice\n\n```\n# not a heading\n```\n<a id='own'></a>\n"


def found(root: Path, text: str) -> list[str]:
    """The dead links of a page at docs/page.md, next to docs/other.md."""
    (root / "docs").mkdir()
    (root / "docs/page.md").write_text(text)
    (root / "docs/other.md").write_text(OTHER)
    return list(dead(root, [Path("docs/page.md")]))


@pytest.mark.parametrize(
    "link",
    [
        "[a](other.md)",
        "[a](../docs/other.md#twice-1 'title')",
        "[a](/docs/other.md#own)",
        "[a](./)",
        "# Here\n[a](#here)",
        "[a][b]\n\n[b]: other.md#one-code-idea-events",
        "[a](https://example.org/none)",
        "`[a](none.md)`",
        "```\n[a](none.md)\n```",
    ],
)
def test_living_links(tmp_path: Path, link: str) -> None:
    """Files, folders, headings and anchors that exist are alive; the web and code are none of our business."""
    assert [] == found(tmp_path, link)


@pytest.mark.parametrize(
    ("text", "line", "link"),
    [
        ("\n[a](none.md)", 2, "none.md"),
        ("![picture](none.png)", 1, "none.png"),
        ("[a](other.md#thrice)", 1, "other.md#thrice"),
        ("[a](other.md#not-a-heading)", 1, "other.md#not-a-heading"),
        ("[a](#nowhere)", 1, "#nowhere"),
        ("[b]: none.md", 1, "none.md"),
        ("[a](../../outside.md)", 1, "../../outside.md"),
    ],
)
def test_dead_links(tmp_path: Path, text: str, line: int, link: str) -> None:
    """A missing file, heading or anchor is named with its line, and so is a file outside the project."""
    (tmp_path.parent / "outside.md").write_text("")
    assert [f"docs/page.md:{line}: {link} leads nowhere"] == found(tmp_path, text)


def test_tests_that_are_named(tmp_path: Path) -> None:
    """They must be defined, async ones too, in the file that is named; otherwise they are reported with their line."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test_one() -> None: ...\n\n\nasync def test_two() -> None: ...\n")
    names = ("test_a.py::test_one", "test_a.py::test_two", "test_a.py::test_on", "test_b.py::test_one")
    text = "\n".join(f"| `tests/{name}` |" for name in names)
    assert [
        "docs/page.md:3: there is no test tests/test_a.py::test_on",
        "docs/page.md:4: there is no test tests/test_b.py::test_one",
    ] == found(tmp_path, text)


def test_anchors() -> None:
    """Headings are slugged as GitHub slugs them, and repeated ones are counted."""
    assert {"one-code-idea-events", "twice", "twice-1", "own"} == anchors(OTHER)
