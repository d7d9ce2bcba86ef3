"""The image itself: OCI configuration, manifest and index, and the archive that podman, docker, kind and containerd load.

The archive is an OCI image layout in a tar file, plus the `manifest.json` of older versions of docker.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.image.folders import ROOT, version
from tools.image.layers import EPOCH, Layer, digest_of
from tools.image.root_filesystem import PROGRAM, USER

ENVIRONMENT = ("PATH=/usr/bin", "LANG=C.UTF-8", "HOME=/tmp", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
NAMES = ("debian.lock", "requirements.lock", "trimtab")


def created() -> str:
    """SOURCE_DATE_EPOCH or the time of the commit; 1970 where there is neither, so that no build is dated by its own day."""
    found = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct") or str(EPOCH)
    return datetime.fromtimestamp(int(found), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def revision() -> str:
    """The commit, if the tree is exactly that commit."""
    return "" if git("status", "--porcelain") else git("rev-parse", "HEAD")


def git(*arguments: str) -> str:
    """What git says of this tree; nothing where it is no repository."""
    try:
        ended = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def labels() -> dict[str, str]:
    """The labels that registries and tools show."""
    found = {
        "title": "trimtab",
        "description": "A load-aware Kubernetes scheduler",
        "version": version(),
        "licenses": "Apache-2.0",
        "created": created(),
        "revision": revision(),
        "base.name": "scratch",
    }
    return {f"org.opencontainers.image.{name}": value for name, value in found.items() if value}


def configuration(architecture: str, layers: Sequence[Layer]) -> dict[str, Any]:
    """How a container of this image starts."""
    return {
        "architecture": architecture,
        "os": "linux",
        "created": created(),
        "config": {
            "User": f"{USER}:{USER}",
            "Env": list(ENVIRONMENT),
            "Entrypoint": [f"/{PROGRAM}"],
            "Cmd": ["--help"],
            "WorkingDir": "/",
            "ExposedPorts": {"10259/tcp": {}},
            "Labels": labels(),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": created(), "created_by": f"tools/image: {name}"} for name in NAMES],
    }


def encode(document: Any) -> bytes:
    """JSON with one possible spelling."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    """A reference to a blob."""
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}


def layer_descriptor(layer: Layer) -> dict[str, Any]:
    """A reference to a layer."""
    return {"mediaType": LAYER, "digest": layer.digest, "size": layer.file.stat().st_size}


def write_archive(architecture: str, layers: Sequence[Layer], target: Path) -> str:
    """Write the image as one file; returns its digest."""
    config = encode(configuration(architecture, layers))
    references = [layer_descriptor(layer) for layer in layers]
    parts = {"schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, config), "layers": references}
    manifest = encode(parts)
    tag = version()
    # containerd takes the name that it gives the image from here, and looks for `trimtab:TAG` under this one.
    names = {"io.containerd.image.name": f"docker.io/library/trimtab:{tag}", "org.opencontainers.image.ref.name": tag}
    platform = {"architecture": architecture, "os": "linux"}
    entry = {**descriptor(MANIFEST, manifest), "platform": platform, "annotations": names}
    paths = [blob(layer.digest) for layer in layers]
    older = [{"Config": blob(digest_of(config)), "RepoTags": [f"trimtab:{tag}"], "Layers": paths}]
    files = {
        "oci-layout": encode({"imageLayoutVersion": "1.0.0"}),
        "index.json": encode({"schemaVersion": 2, "manifests": [entry]}),
        "manifest.json": encode(older),
        blob(digest_of(config)): config,
        blob(digest_of(manifest)): manifest,
        **{path: layer.file.read_bytes() for path, layer in zip(paths, layers, strict=True)},
    }
    write_tar(files, target)
    return digest_of(manifest)


def blob(digest: str) -> str:
    """The path of a blob in the layout."""
    return f"blobs/{digest.replace(':', '/')}"


def write_tar(files: dict[str, bytes], target: Path) -> None:
    """Write files without owners and times."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), EPOCH, 0o644
            archive.addfile(info, io.BytesIO(content))


def unpack(layers: Sequence[Layer], folder: Path) -> None:
    """The file system of the image as a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for layer in layers:
        with tarfile.open(layer.file) as archive:
            archive.extractall(folder)  # noqa: S202 (layers that we have built)
