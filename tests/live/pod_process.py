"""Runs the container of a pod as a process with what the kubelet would give it.

That is: its arguments and environment, the ConfigMaps, Secrets and tokens of its volumes at their mount paths, its user and
group without capabilities, a read-only root file system, and its name as the host name. Only the image is not pulled: the
program is the interpreter and the source tree of the tests. `0.0.0.0` becomes the pod's address, one of 127.0.0.0/8.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.trimtab_process import ROOT
from tools.controlplane.client import ApiError, Document
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

UNSHARE = ("unshare", "--mount", "--uts", "--")
# Arguments: a folder for the layers, the host name, the user, the mounts (FOLDER=PATH), `--` and the program.
SANDBOX = """
layers=$1; hostname "$2"; user=$3; shift 3
mount -t tmpfs tmpfs "$layers"; mkdir "$layers/upper" "$layers/work" "$layers/root"; root=$layers/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" "$root"
for folder in /dev /proc; do mount --rbind "$folder" "$root$folder"; done
while [ "$1" != -- ]; do
    source=${1%%=*}; path=$(chroot "$root" realpath -m "${1#*=}"); mkdir -p "$root$path"; shift # /var/run is a link
    parent=$path; while [ "$parent" != / ]; do parent=$(dirname "$parent"); chmod o+x "$root$parent"; done
    if [ "$source" = tmpfs ]; then mount -t tmpfs -o mode=1777 tmpfs "$root$path"
    else mount --rbind "$source" "$root$path"; fi
done
shift
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all "$@"
"""


def require_mounts() -> None:
    """Skip where a process cannot be given its own mounts and user: only root can, and not in every container."""
    done = subprocess.run(
        [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/tmp"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"running a pod's process needs root and mounts: {done.stderr.strip()}")


@dataclass(frozen=True)
class PodProcess:
    """The running container, and the name, component and address of the pod."""

    pod: str
    component: str
    process: Process
    address: str
    port: int


def start(rig: Rig, pod: Document, address: str) -> PodProcess:
    """Start the only container of a pod that the API server has admitted."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    folder = rig.workspace / "pods" / name
    (folder / "layers").mkdir(parents=True)
    folder.chmod(0o755)
    container = spec["containers"][0]
    security = {**spec["securityContext"], **container["securityContext"]}
    user = str(security["runAsUser"])
    volumes = {volume["name"]: _volume(rig, pod, volume, folder) for volume in spec["volumes"]}
    mounts = [f"{volumes[mount['name']]}={mount['mountPath']}" for mount in container["volumeMounts"]]
    mounts += [f"{path}={path}" for path in dict.fromkeys((ROOT, Path(sys.prefix), Path(sys.base_prefix)))]
    arguments = [each.replace("0.0.0.0", address) for each in container["args"]]
    program = [sys.executable, "-m", "trimtab", *arguments]
    command = [*UNSHARE, "sh", "-ec", SANDBOX, "sh", str(folder / "layers"), name, user, *mounts, "--", *program]
    port: int = container["ports"][0]["containerPort"] if "ports" in container else 0
    process = Process(
        ["/usr/bin/env", *command], folder / "log", _environment(rig, container), f"https://{address}:{port}"
    )
    component: str = pod["metadata"]["labels"]["app.kubernetes.io/component"]
    return PodProcess(name, component, process, address, port)


def _environment(rig: Rig, container: Document) -> Mapping[str, str]:
    """What the kubelet adds for the API server, and what the manifest sets; nothing that would lead to a kubeconfig."""
    host, _, port = rig.url.removeprefix("https://").partition(":")
    given = {each["name"]: each["value"] for each in container.get("env", [])}
    nothing = {"KUBECONFIG": "", "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}
    return {
        **nothing,
        "PYTHONPATH": str(ROOT / "src"),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        **given,
    }


def _volume(rig: Rig, pod: Document, volume: Document, folder: Path) -> str:
    """The folder with the volume's files, or `tmpfs` for an emptyDir."""
    if "emptyDir" in volume:
        return "tmpfs"
    target = folder / volume["name"]
    target.mkdir()
    _write(rig, pod, volume, target)
    return str(target)


def update_volume(rig: Rig, pod: Document, name: str) -> None:
    """Write a volume anew, as the kubelet does once it has seen that a ConfigMap or Secret has changed."""
    volume = next(each for each in pod["spec"]["volumes"] if each["name"] == name)
    _write(rig, pod, volume, rig.workspace / "pods" / pod["metadata"]["name"] / name)


def _write(rig: Rig, pod: Document, volume: Document, target: Path) -> None:
    """Files are links into `..data`, itself a link to the newest folder, so that all of them change at once."""
    mode = next(volume[kind]["defaultMode"] for kind in ("configMap", "secret", "projected") if kind in volume)
    data = target / f"..{time.time_ns()}"
    data.mkdir()
    for path, content in _files(rig, pod, volume):
        file = data / path
        file.write_bytes(content)
        os.chown(file, 0, pod["spec"]["securityContext"]["fsGroup"])
        file.chmod(mode)
        if not (target / path).is_symlink():
            (target / path).symlink_to(Path("..data") / path)
    (target / "..next").symlink_to(data.name)
    (target / "..next").rename(target / "..data")


def _files(rig: Rig, pod: Document, volume: Document) -> Iterator[tuple[str, bytes]]:
    """The files of a ConfigMap, a Secret, or a projection of several sources."""
    namespace = pod["metadata"]["namespace"]
    if "projected" in volume:
        for source in volume["projected"]["sources"]:
            yield from _files(rig, pod, source)
    elif "configMap" in volume:
        items = volume["configMap"].get("items")
        data = rig.admin.get(f"/api/v1/namespaces/{namespace}/configmaps/{volume['configMap']['name']}")["data"]
        paths = {each["key"]: each["path"] for each in items} if items else {key: key for key in data}
        yield from ((paths[key], text.encode()) for key, text in data.items() if key in paths)
    elif "secret" in volume:
        yield from _secret(rig, namespace, volume["secret"])
    elif "downwardAPI" in volume:
        fields = {"metadata.namespace": namespace, "metadata.name": pod["metadata"]["name"]}
        for item in volume["downwardAPI"]["items"]:
            yield item["path"], fields[item["fieldRef"]["fieldPath"]].encode()
    elif "serviceAccountToken" in volume:
        yield volume["serviceAccountToken"]["path"], _token(rig, pod, volume["serviceAccountToken"])
    else:
        raise NotImplementedError(f"a volume of {sorted(volume)}")


def _secret(rig: Rig, namespace: str, secret: Document) -> Iterator[tuple[str, bytes]]:
    try:
        found = rig.admin.get(f"/api/v1/namespaces/{namespace}/secrets/{secret['secretName']}")["data"]
    except ApiError as error:
        if error.status != 404 or not secret.get("optional"):
            raise
        return
    yield from ((key, base64.b64decode(value)) for key, value in found.items())


def _token(rig: Rig, pod: Document, projection: Document) -> bytes:
    """A token as the kubelet requests it: for the projection's audience and time, bound to the pod."""
    account, meta = pod["spec"]["serviceAccountName"], pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
    audiences = [projection["audience"]] if "audience" in projection else []
    wanted = {"expirationSeconds": projection["expirationSeconds"], "audiences": audiences, "boundObjectRef": bound}
    path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token"
    token: str = rig.admin.call("POST", path, {"spec": wanted})["status"]["token"]
    return token.encode()
