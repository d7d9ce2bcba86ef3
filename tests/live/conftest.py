"""The control plane that the tests of a module share, and the order of live test files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.rig import Rig

# Files side by side end together only if none of these is the last to begin.
LONGEST = (
    "test_labels",
    "test_sources",
    "test_load_stories",
    "test_batches",
    "test_mixed_workload",
    "test_outage",
    "test_reflector",
    "test_metrics_stack",
    "test_young_containers",
    "test_doctor",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest go first, in this order; all else stays as it is, also files of that name elsewhere."""
    places = {Path(__file__).with_name(f"{name}.py"): place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A plain control plane for the module: etcd and an audited API server, no controllers, no kubelets."""
    with Rig(controlplane_or_skip()) as running:
        yield running
