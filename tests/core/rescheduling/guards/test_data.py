"""Pods with data on their node stay there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import term
from tests.core.rescheduling.guards.replicas import context, refused, replicas
from trimtab.core.model.pod import EVICT_ANYWAY, SAFE_LOCAL_VOLUMES, Pod, PodSpec, Volume
from trimtab.core.model.storage import PersistentVolume, PersistentVolumeClaim

FIRST, *OTHERS = replicas(3)


def with_local(*names: str, **annotations: str) -> Pod:
    known = {"safe": SAFE_LOCAL_VOLUMES, "anyway": EVICT_ANYWAY}
    found = {known[key]: value for key, value in annotations.items()}
    return replace(FIRST, spec=PodSpec(local_volumes=names), annotations=found)


@pytest.mark.parametrize(
    ("pod", "settings", "lost"),
    [
        (with_local("cache", "logs"), {}, "cache"),
        (with_local("cache", "logs", safe="cache"), {}, "logs"),
        (with_local("cache", "logs", safe="logs,cache"), {}, ""),
        (with_local("cache", anyway=""), {}, ""),
        (with_local("cache"), {"allow_local_data": True}, ""),
        (with_local(), {}, ""),
    ],
)
def test_local_volumes(pod: Pod, settings: dict[str, Any], lost: str) -> None:
    """Unless they are listed as safe, the pod is to be evicted anyway, or the settings allow it."""
    expected = ("local data", f"the data of its local volume {lost} would be lost") if lost else None
    assert expected == refused(context(pod, *OTHERS, settings=settings), pod)


CLAIM = PersistentVolumeClaim(name="data", uid="c", namespace="default", volume="disk", bind_completed=True)
CLAIMING = replace(FIRST, spec=PodSpec(volumes=(Volume("persistentVolumeClaim", "data"),)))


def disk(*nodes: str) -> PersistentVolume:
    """Reachable from these nodes, or from all."""
    terms = (term(fields=[f"metadata.name In {each}"]) for each in nodes)
    return PersistentVolume(name="disk", uid="v", terms=tuple(terms) if nodes else None)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ((CLAIM, disk("a")), "volume disk of its claim data is on its node alone"),
        ((CLAIM, disk("a", "b")), ""),
        ((CLAIM, disk()), ""),
        ((CLAIM,), "the volume of its claim data is not known"),
        ((), "the volume of its claim data is not known"),
    ],
)
def test_pinned_volumes(objects: tuple[Any, ...], reason: str) -> None:
    """A volume that only the pod's node can reach, or of which nothing is known."""
    expected = ("pinned volume", reason) if reason else None
    assert expected == refused(context(*objects, CLAIMING, *OTHERS), CLAIMING)


def test_an_ephemeral_volume_has_a_claim_of_its_own() -> None:
    """Named after pod and volume."""
    pod = replace(FIRST, spec=PodSpec(volumes=(Volume("ephemeral", "scratch"),)))
    claim = replace(CLAIM, name=f"{pod.name}-scratch")
    assert refused(context(claim, disk("b"), pod, *OTHERS), pod) is None
    found = refused(context(claim, disk("a"), pod, *OTHERS), pod)
    assert ("pinned volume", f"volume disk of its claim {pod.name}-scratch is on its node alone") == found
