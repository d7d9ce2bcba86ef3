"""Decides which control plane a module of live tests shares; leaves special ones to the tests that need them."""

from collections.abc import Iterator

import pytest

from tests.live.built import built
from tools.controlplane.rig import Rig


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A plain control plane for the module: etcd and an audited API server, no controllers, no kubelets."""
    with Rig(built()) as running:
        yield running
