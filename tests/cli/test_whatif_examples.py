"""The examples of docs/whatif.md: each prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.sim.snapshot_clusters import budget, replica, used, worker, write_cluster
from tests.wire.json_objects import Json
from trimtab.cli import main
from trimtab.sim.snapshot_document import Usage

PAGE = Path(__file__).resolve().parents[2] / "docs" / "whatif.md"
EXAMPLES = re.findall(r"```console\n\$ trimtab (whatif --snapshot [^\n]*)\n(.*?)```", PAGE.read_text(), re.DOTALL)
API = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec:
  replicas: 6
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: api, resources: {requests: {cpu: "1"}}}]}
"""


def pods() -> list[Json]:
    """Two thirds of the requests, of which most are not used, and one pod that nobody owns."""
    found = [replica(f"web-{number}", f"worker-{number % 6 + 1}", cpu="1", owner="web-7d9f") for number in range(6)]
    found += [
        replica(f"batch-{number}", f"worker-{number + 2}", cpu="2500m", owner="batch-5c8b") for number in range(4)
    ]
    found += [
        replica(f"db-{number}", f"worker-{number + 1}", "500m", owner="db", kind="StatefulSet") for number in (1, 2)
    ]
    found += [
        replica(f"agent-{number}", f"worker-{number}", "100m", owner="agent", kind="DaemonSet")
        for number in range(1, 7)
    ]
    return [*found, replica("debug", "worker-3", cpu="100m", owner="")]


def usage() -> Usage:
    """Nearly all pods were measured."""
    share = {"web": 700.0, "batch": 1900.0, "db": 300.0, "agent": 60.0}
    names = [each["metadata"]["name"] for each in pods()]
    return Usage({}, {f"shop/{name}": used(share[name.split("-")[0]]) for name in names if name != "debug"})


@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_an_example(command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has the output of this command."""
    monkeypatch.chdir(tmp_path)
    nodes = [worker(f"worker-{number}", memory="16Gi", zone="abc"[number % 3]) for number in range(1, 7)]
    objects = {"poddisruptionbudgets": [budget("db", "db", 0)]}
    write_cluster(tmp_path, nodes, pods(), objects, usage()).rename("cluster.json.gz")
    Path("api.yaml").write_text(API)
    done = CliRunner().invoke(main, command.split())
    assert done.output == output


def test_there_are_examples() -> None:
    """Otherwise nothing was compared."""
    assert 3 <= len(EXAMPLES)
