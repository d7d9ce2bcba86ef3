"""The recorded flags of kube-scheduler are those of the real program."""

import subprocess

import pytest

from tests.cli.kube_scheduler_flag_list import FLAGS, LINE
from tests.live.requires_controlplane import controlplane_or_skip

pytestmark = pytest.mark.live


def test_the_list_is_complete() -> None:
    """Every flag that its --help prints is in the list that `tests/cli/test_kube_scheduler_flags.py` tries."""
    program = controlplane_or_skip() / "kube-scheduler"
    text = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert [*FLAGS] == [(name, kind) for _, name, kind in LINE.findall(text)]
