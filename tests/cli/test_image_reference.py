"""Names of images: what a registry accepts, and what it does not."""

from __future__ import annotations

import pytest

from trimtab.cli.deploy.image_reference import is_tag, parse_image

DIGEST = f"@sha256:{'0f' * 32}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trimtab", ("trimtab", "")),
        ("trimtab:1.0", ("trimtab", "1.0")),
        ("localhost:5000/a/b_c/d--e:x", ("localhost:5000/a/b_c/d--e", "x")),
        ("Registry.example.com/trimtab", ("Registry.example.com/trimtab", "")),
        ("[fd00::1]:5000/trimtab:1", ("[fd00::1]:5000/trimtab", "1")),
        (f"trimtab{DIGEST}", (f"trimtab{DIGEST}", "")),
        (f"trimtab:1{DIGEST}", (f"trimtab:1{DIGEST}", "")),
    ],
)
def test_valid_names(text: str, expected: tuple[str, str]) -> None:
    """Repository and tag; a digest stays with the repository."""
    assert expected == parse_image(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "a b",
            "UPPER",
            "UPPER/x:1:2",
            "a/B",
            "a:",
            "a:-x",
            "a//b",
            "/a",
            "a/",
            "a_-b",
            "https://a/b",
            "a@sha256:1",
        ),
        *(f"{'a' * 256}", f"a:{'x' * 129}", "a@sha256:" + "0" * 63, "a@sha256:" + "G" * 64, "a\n"),
    ],
)
def test_invalid_names(text: str) -> None:
    """No registry would take them."""
    assert parse_image(text) is None


def test_tags() -> None:
    """At most 128 letters, digits, dots, dashes and underscores."""
    assert ([True] * 3, [False] * 4) == (
        [is_tag(each) for each in ("1.0", "_a-B", "x" * 128)],
        [is_tag(each) for each in ("", "bad tag!", ".a", "x" * 129)],
    )
