"""The files of deploy/ that are made from others are as `make manifests` writes them."""

from __future__ import annotations

from tools.manifests import ROOT, manifests


def test_written_files_are_current() -> None:
    """A changed template or dashboard must be followed by `make manifests`."""
    outdated = [path for path, text in manifests().items() if (ROOT / path).read_text() != text]
    assert [] == outdated, "run make manifests"
