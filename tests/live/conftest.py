"""The control plane that the tests of a module share, and the order of live test files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.rig import Rig

# Started first, so that parallel workers finish at about the same time.
SLOWEST = (
    "test_simulated_day",
    "test_simulated_placements",
    "test_shadow",
    "test_labels",
    "test_sources",
    "test_load_stories",
    "test_deploy_manifests",
    "test_deploy",
    "test_batches",
    "test_chart",
    "test_mixed_workload",
    "test_outage",
    "test_reflector",
    "test_metrics_stack",
    "test_young_containers",
    "test_doctor",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first, in this order; everything else keeps its order."""
    positions = {Path(__file__).with_name(f"{name}.py"): index for index, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: positions.get(item.path, len(SLOWEST)))


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A plain control plane for the module: etcd and an audited API server, no controllers, no kubelets."""
    with Rig(controlplane_or_skip()) as running:
        yield running
