"""Lists the objects of a snapshot: every kind that a plugin may read, reduced to what scheduling decodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trimtab.config.registry import NODE_ANNOTATIONS
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.kube.kinds import EXTRA_KINDS
from trimtab.kube.listing import ListError, list_all
from trimtab.kube.transport import Transport
from trimtab.wire.decoding import Malformed
from trimtab.wire.forbidden import refused_account
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.reduction import Reduced, Reduction
from trimtab.wire.requests import NODES, PODS
from trimtab.wire.watch import Reader

REQUIRED = ("nodes", "pods")
MAX_NAMED = 10  # malformed objects in the notes, by kind


class SnapshotFailed(Exception):
    """Why there is no snapshot, and what to do."""


class SnapshotNote(NamedTuple):
    """What the snapshot lacks, and the same without any name, for a file in which names are hashed."""

    text: str
    nameless: str


class Listing(NamedTuple):
    """Where a kind is listed; one that is optional may not be served."""

    kind: str
    path: str
    reader: Reader[Any]
    optional: bool = False


@dataclass
class Listed:
    """What was listed by kind, which kinds were not, and what was left out."""

    objects: dict[str, list[Reduced]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    notes: list[SnapshotNote] = field(default_factory=list)

    def nodes(self) -> tuple[Node, ...]:
        reader = NodeReader(NODE_ANNOTATIONS)
        found = (reader.read(each.content) for each in self.objects["nodes"])
        return tuple(each for each in found if isinstance(each, Node))

    def pods(self) -> tuple[Pod, ...]:
        reader = PodReader()
        found = (reader.read(each.content) for each in self.objects["pods"])
        return tuple(each for each in found if isinstance(each, Pod))


def listings() -> list[Listing]:
    """Every kind; one of two API groups is listed in both."""
    found = [Listing("nodes", NODES, NodeReader(NODE_ANNOTATIONS)), Listing("pods", PODS, PodReader())]
    for kind, extra in EXTRA_KINDS.items():
        found.append(Listing(kind, extra.path, extra.reader(), extra.optional))
        if extra.legacy_path:
            found.append(Listing(kind, extra.legacy_path, extra.reader(), extra.optional))
    return found


async def list_objects(
    transport: Transport, skip_forbidden: bool, on_progress: Callable[[str], None] = lambda message: None
) -> Listed:
    """List every kind once; SnapshotFailed names all kinds that may not be listed."""
    listed = Listed()
    forbidden: dict[str, str] = {}
    for each in listings():
        on_progress(f"listing {each.kind}")
        try:
            await _list_kind(transport, each, listed)
        except ListError as error:
            if not error.forbidden:
                raise SnapshotFailed(f"{each.kind} cannot be listed: {error}") from None
            forbidden[_rbac_name(each.path)] = str(error)
            listed.missing.append(each.kind)
    _check_forbidden(forbidden, listed, skip_forbidden)
    listed.missing = sorted({*listed.missing})
    return listed


async def _list_kind(transport: Transport, listing: Listing, listed: Listed) -> None:
    items = listed.objects.setdefault(listing.kind, [])
    try:
        found = await list_all(transport, listing.path, Reduction(listing.reader))
    except ListError as error:
        if error.not_served and listing.optional:
            return
        raise
    items += [each for each in found if isinstance(each, Reduced)]
    if malformed := [each for each in found if isinstance(each, Malformed)]:
        some = "; ".join(f"{each.key}: {each.error}" for each in malformed[:MAX_NAMED])
        counted = f"{len(malformed)} {listing.kind} cannot be decoded and are left out"
        listed.notes.append(SnapshotNote(f"{counted}: {some}", counted))


def _check_forbidden(forbidden: Mapping[str, str], listed: Listed, skip_forbidden: bool) -> None:
    if not forbidden or (skip_forbidden and not {*REQUIRED} & {*listed.missing}):
        return
    names, account = ", ".join(forbidden), refused_account(next(iter(forbidden.values()))) or "this account"
    skip = "" if {*REQUIRED} & {*listed.missing} else ", or leave them out with --skip-forbidden"
    raise SnapshotFailed(f"{account} may not list {names}: grant it the verb list on these resources{skip}")


def _rbac_name(path: str) -> str:
    """The resource as `kubectl auth can-i list` takes it."""
    _, root, *group, resource = path.split("/")
    return f"{resource}.{group[0]}" if root == "apis" else resource
