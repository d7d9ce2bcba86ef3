"""The picture in the README is what the demo shows."""

from pathlib import Path

from tools.demo_picture import FILE, draw


def test_the_committed_picture_is_what_the_demo_shows() -> None:
    """If not, run `python -m tools.demo_picture`."""
    assert FILE.read_text() == draw()


def test_the_picture_shows_the_label_and_needs_no_other_host() -> None:
    """A README is also read offline, and a picture must not report its readers."""
    svg = FILE.read_text()
    assert "cpu=high" in svg
    assert "@font-face" not in svg and "url(http" not in svg


def test_the_readme_opens_with_it() -> None:
    """Before the first heading of the second level."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert "docs/img/demo.svg" in readme.split("\n## ")[0]
