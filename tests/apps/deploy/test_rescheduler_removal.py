"""What the rescheduler's processes have made goes with the installation: its lease and the ledger of its moves."""

from __future__ import annotations

import pytest

from tests.apps.deploy.object_server import Object, ObjectServer
from tests.apps.deploy.test_interruptions import CONFIG, SCHEDULER, uninstall
from trimtab.apps.deploy.api_client import ref_of
from trimtab.apps.deploy.release import Release, inventory_of, to_config_map
from trimtab.kube.lease import RESCHEDULER_LEASE
from trimtab.wire.ledger import LEDGER_NAME

pytestmark = pytest.mark.looptime
RELEASE = Release("mine", "0.1.0", "default", "", components=("rescheduler",))


def made(version: str, kind: str, name: str) -> Object:
    """Without our marks, which only `trimtab deploy` writes."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "mine", "uid": "u"}}


async def test_its_lease_and_its_ledger_are_deleted() -> None:
    """Otherwise the next installation would go on with old budgets."""
    assert f"mine/{RESCHEDULER_LEASE}" in RELEASE.leases
    inventory = to_config_map(inventory_of(RELEASE, map(ref_of, (CONFIG, SCHEDULER))), "mine")
    inventory["metadata"]["uid"] = "u"
    server = ObjectServer(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}},
        *(inventory, CONFIG, SCHEDULER),
        made("coordination.k8s.io/v1", "Lease", RESCHEDULER_LEASE),
        made("v1", "ConfigMap", LEDGER_NAME),
    )
    said = await uninstall(server)
    assert {f"deleted Lease mine/{RESCHEDULER_LEASE}", f"deleted ConfigMap mine/{LEDGER_NAME}"} <= set(said)
