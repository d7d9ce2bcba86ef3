"""The container image schedules on a real control plane: as its user, on its file system, with a service account's files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.built_image import unpacked_or_skip
from tests.live import trimtab_process
from tests.live.secure_caller import call
from tests.live.trimtab_process import ROOT
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process, free_port
from tools.controlplane.rig import Rig
from tools.image import sandbox
from tools.image.root_filesystem import SITE

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]  # the first build downloads and compiles everything

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def service_account(rig: Rig, folder: Path) -> Path:
    """What the kubelet mounts into every pod of the account."""
    folder.mkdir()
    (folder / "token").write_text(rig.service_account_token("trimtab", "trimtab"))
    (folder / "ca.crt").write_bytes(rig.credentials.ca_file.read_bytes())
    (folder / "namespace").write_text("trimtab")
    return folder


def start(rig: Rig, root: Path, folder: Path) -> Process:
    """Start `trimtab run` in the image, as a Deployment does."""
    host, _, port = rig.url.removeprefix("https://").partition(":")
    config = trimtab_process.write_config(rig)
    binds = {service_account(rig, folder): ACCOUNT, config: "/etc/trimtab/config.yaml"}
    serving = free_port()
    flags = ["--config=/etc/trimtab/config.yaml", "--bind-address=127.0.0.1", f"--secure-port={serving}"]
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    command = sandbox.command(root, ["/usr/bin/trimtab", "run", *flags], binds, environment)
    return Process(command, rig.workspace / "image.log", {"PYTHONPATH": str(ROOT)}, f"https://127.0.0.1:{serving}")


@pytest.fixture(scope="module")
def cluster(rig: Rig) -> Rig:
    """A cluster with one node and the roles that the image needs."""
    trimtab_process.install(rig, *trimtab_process.ROLES, "rbac-serving.yaml")
    rig.admin.create(node("worker-1"))
    return rig


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's file system."""
    return unpacked_or_skip(tmp_path_factory.mktemp("image") / "root")


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest, root: Path) -> Iterator[str]:
    """The event loop; for asyncio, uvloop is taken out of the file system meanwhile."""
    name: str = request.param
    installed = root / SITE / "uvloop"
    if name == "asyncio":
        installed.rename(root / "uvloop")
    yield name
    if name == "asyncio":
        (root / "uvloop").rename(installed)


def test_image_binds_a_pod(cluster: Rig, root: Path, loop: str, tmp_path: Path) -> None:
    """From the service account's token to a bound pod and a clean end; health is served over TLS meanwhile."""
    cluster.admin.create(pod(loop, scheduler=trimtab_process.SCHEDULER))
    trimtab = start(cluster, root, tmp_path / "account")
    try:
        trimtab_process.wait_for(lambda: loop in trimtab_process.bound(cluster), 60, "a bound pod", trimtab)
        assert 200 == call(trimtab, "/readyz").status
    finally:
        code = trimtab.terminate()
    assert 0 == code
    assert (loop == "asyncio") == ("uvloop is not installed" in trimtab.log.read_text())
    assert () == trimtab_process.check_audit_log(cluster).violations
