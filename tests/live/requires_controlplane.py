"""Skips tests that need the real control plane where it is not built; in CI they fail."""

import os
from pathlib import Path

import pytest

from tools.controlplane.rig import NotBuilt, controlplane_folder


def controlplane_or_skip() -> Path:
    """The control plane's folder; without one the test is skipped in one line, and failed in CI, where it must be."""
    try:
        return controlplane_folder()
    except NotBuilt as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))
