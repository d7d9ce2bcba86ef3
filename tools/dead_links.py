"""Checks the relative links in the project's Markdown files, and the tests that they name.

    python -m tools.dead_links [ROOT]     prints file:line: link, exits 1 if there is any dead link

The target must be a file or folder of the tree, and an anchor a heading of that file, by GitHub's slugs. A test is named
as pytest names it, `tests/live/test_x.py::test_y`, and must be defined there.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from tools.house_rules import files

FENCE = re.compile(r"^\s*(```|~~~)")
CODE_SPAN = re.compile(r"(`+).+?\1")
INLINE = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$")
EXPLICIT = re.compile(r"""<a\s+(?:id|name)=["']([^"']+)["']""")
NAMED_TEST = re.compile(r"`(tests/[\w/.-]+\.py)::(\w+)`")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:|^//", re.IGNORECASE)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines outside of fenced code blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def links(text: str) -> Iterator[tuple[int, str]]:
    """Every link within the project, with its line number."""
    for number, line in prose(text):
        shown = CODE_SPAN.sub("", line)
        for target in (*INLINE.findall(shown), *DEFINITION.findall(shown)):
            if not SCHEME.match(target):
                yield number, target


def slug(heading: str) -> str:
    """GitHub's anchor for a heading: lower case, without punctuation, spaces as hyphens."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """All anchors of a page; a repeated heading gets -1, -2 and so on."""
    seen: Counter[str] = Counter()
    found: set[str] = set()
    for _, line in prose(text):
        found.update(EXPLICIT.findall(line))
        if match := HEADING.match(line):
            name = slug(match[1])
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return found


def is_dead(root: Path, page: Path, link: str) -> bool:
    """Whether the file or the anchor of the link is missing."""
    name, _, anchor = unquote(link).partition("#")
    target = root / (name.lstrip("/") if name.startswith("/") else page.parent / name) if name else root / page
    if not target.exists() or not target.resolve().is_relative_to(root.resolve()):
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target.read_text())


def missing_tests(root: Path, text: str) -> Iterator[tuple[int, str]]:
    """Every named test that does not exist, with its line number."""
    for number, line in prose(text):
        for file, name in NAMED_TEST.findall(line):
            path = root / file
            if not path.exists() or not re.search(rf"^\s*(async )?def {name}\(", path.read_text(), re.MULTILINE):
                yield number, f"{file}::{name}"


def dead(root: Path, pages: Sequence[Path]) -> Iterator[str]:
    """Every dead link of these pages as file:line: link."""
    for page in pages:
        text = (root / page).read_text()
        for number, link in links(text):
            if is_dead(root, page, link):
                yield f"{page}:{number}: {link} leads nowhere"
        yield from (f"{page}:{number}: there is no test {name}" for number, name in missing_tests(root, text))


def main(arguments: Sequence[str]) -> int:
    """Print the dead links; 1 if there is any."""
    root = Path(arguments[0] if arguments else ".")
    found = list(dead(root, [path for path in files(root) if path.suffix == ".md"]))
    for line in found:
        print(line)
    print(f"Links: {len(found)} dead." if found else "Links: all alive.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
