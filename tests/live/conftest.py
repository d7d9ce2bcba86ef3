"""The control plane that the tests of a module share, and the order of live test files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.rig import Rig

# Started first, so that parallel workers finish at about the same time.
SLOWEST = (
    "test_control_plane_faults",
    "test_moves_in_sick_clusters",
    "test_move_faults",
    "test_image",
    "test_labels",
    "test_apply",
    "test_fence",
    "test_moves",
    "test_deploy",
    "test_simulated_placements",
    "test_load_stories",
    "test_sources",
    "test_shadow",
    "test_simulated_day",
    "test_load_faults",
    "test_batches",
    "test_move_dashboard",
    "test_outage",
    "test_doctor",
    "test_reflector",
    "test_remedies",
    "test_mixed_workload",
    "test_metrics_stack",
    "test_chart",
    "test_young_containers",
    "test_deploy_manifests",
    "test_walkthrough",
    "test_plan",
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
