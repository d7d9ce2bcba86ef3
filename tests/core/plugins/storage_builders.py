"""Builders of claims, volumes and storage classes for tests, with small defaults."""

from __future__ import annotations

from typing import Any

from tests.build import term
from trimtab.core.model.pod import Volume
from trimtab.core.model.storage import (
    AVAILABLE,
    WAIT_FOR_FIRST_CONSUMER,
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

GIB = 1 << 30


def uses(*claims: str) -> tuple[Volume, ...]:
    """A pod's volumes for these claims."""
    return tuple(Volume("persistentVolumeClaim", each) for each in claims)


def claim(name: str, *, gib: int = 1, volume: str = "", given: str = "local", **fields: Any) -> PersistentVolumeClaim:
    """A claim in the default namespace; with a volume it is bound to it."""
    known: dict[str, Any] = {"access_modes": ("ReadWriteOnce",), "uid": f"uid-{name}", "namespace": "default"}
    known |= {"requested": gib * GIB, "volume": volume, "bind_completed": bool(volume), "storage_class": given}
    return PersistentVolumeClaim(name=name, **{**known, **fields})


def volume(name: str, *, gib: int = 1, at: str = "", given: str = "local", **fields: Any) -> PersistentVolume:
    """A free volume; `at` names the one node that can reach it, by its label `host`."""
    known: dict[str, Any] = {
        "access_modes": ("ReadWriteOnce",),
        "uid": f"uid-{name}",
        "capacity": gib * GIB,
        "phase": AVAILABLE,
    }
    known |= {"storage_class": given, "terms": (term(f"host In {at}"),) if at else None}
    return PersistentVolume(name=name, **{**known, **fields})


def claim_ref(name: str, uid: str = "") -> ClaimRef:
    return ClaimRef("default", name, uid)


def storage_class(name: str = "local", provisioner: str = "", **fields: Any) -> StorageClass:
    return StorageClass(
        name=name, uid=f"uid-{name}", provisioner=provisioner, **{"binding_mode": WAIT_FOR_FIRST_CONSUMER, **fields}
    )
