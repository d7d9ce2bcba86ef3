"""Matches a pod's unbound claims with volumes on every node.

For each claim, from the smallest up: the volume reserved for it, else the smallest free one that fits, else a volume to
be provisioned. A node is rejected for the first claim that has none of these there.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools, Ints
from trimtab.core.framework.volumes import selects_volume, volume_fits
from trimtab.core.model.storage import AVAILABLE, PersistentVolume, PersistentVolumeClaim, StorageClass
from trimtab.core.plugins.volume_binding import reachability
from trimtab.core.plugins.volume_binding.claims import ClaimsByState
from trimtab.core.plugins.volume_binding.reservations import VolumeReservations

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, PV_NOT_EXIST = 1, 2, 4, 8
NO_VOLUME = -1


class Match(NamedTuple):
    """Candidate volumes for one claim, and by row the index of the one it would get, or NO_VOLUME."""

    claim: PersistentVolumeClaim
    volumes: list[PersistentVolume]
    chosen: Ints


class MatchResult(NamedTuple):
    """By row the errors (0 for none); the volumes each claim would get; where claims need provisioning."""

    errors: Ints
    matches: list[Match]
    to_provision: list[tuple[PersistentVolumeClaim, Bools]]


def find_volumes(view: View, reservations: VolumeReservations, claims: ClaimsByState) -> MatchResult:
    """Match the claims on all nodes."""
    errors = np.zeros(view.count, dtype=np.int64)
    _check_bound(view, claims.bound, errors)
    if not claims.delayed:
        return MatchResult(errors, [], [])
    on_selected = np.ones(view.count, dtype=np.bool_)  # rows that earlier decisions about the claims allow
    for claim in claims.delayed:
        if claim.selected_node is not None:
            on_selected &= view.rows_named([claim.selected_node])
    errors[~on_selected] |= BIND_CONFLICT
    to_provision = [(claim, on_selected) for claim in claims.delayed if claim.selected_node is not None]
    undecided = [claim for claim in claims.delayed if claim.selected_node is None]
    matches: list[Match] = []
    for claim in sorted(undecided, key=lambda claim: claim.requested or 0):
        matches.append(_match(view, reservations, claim, matches))
        to_provision.append((claim, on_selected & (matches[-1].chosen == NO_VOLUME)))
    _check_provisioning(view, to_provision, on_selected.copy(), errors)
    return MatchResult(errors, matches, to_provision)


def _check_bound(view: View, bound_claims: Iterable[PersistentVolumeClaim], errors: Ints) -> None:
    volumes = view.objects.of_kind(PersistentVolume)
    passing = np.ones(view.count, dtype=np.bool_)
    for claim in bound_claims:
        volume = volumes.get(claim.volume)
        if volume is None:
            errors[passing] |= PV_NOT_EXIST
            return
        nodes = reachability.reachable_nodes(view, volume)
        if nodes is not None:
            errors[passing & ~nodes] |= NODE_CONFLICT
            passing &= nodes


def _check_provisioning(
    view: View, to_provision: Iterable[tuple[PersistentVolumeClaim, Bools]], candidates: Bools, errors: Ints
) -> None:
    classes = view.objects.of_kind(StorageClass)
    for claim, needed in to_provision:
        storage_class = classes[claim.storage_class]
        rows = candidates & needed
        if not reachability.is_dynamic(storage_class):
            errors[rows] |= BIND_CONFLICT
            candidates &= ~rows
            continue
        for nodes, error in (
            (reachability.allowed_nodes(view, storage_class), BIND_CONFLICT),
            (reachability.nodes_with_capacity(view, storage_class, claim), NOT_ENOUGH_SPACE),
        ):
            if nodes is not None:
                errors[candidates & rows & ~nodes] |= error
                candidates &= ~rows | nodes


def _match(
    view: View, reservations: VolumeReservations, claim: PersistentVolumeClaim, earlier_matches: list[Match]
) -> Match:
    """By row the smallest volume that fits, apart from those that earlier claims would get there."""
    reachable = reachability.ReachabilityCache(view)
    volumes = _candidates(view, reservations, claim, reachable, len(earlier_matches) + 1)
    chosen = np.full(view.count, NO_VOLUME, dtype=np.int64)
    match = Match(claim, volumes, chosen)
    if not volumes:
        return match
    rows_by_volume = [reachable.of(each) for each in volumes]
    rows, numbers = (
        np.concatenate(rows_by_volume),
        np.repeat(np.arange(len(volumes)), [len(each) for each in rows_by_volume]),
    )
    for earlier in earlier_matches:
        known = {volume.name: number for number, volume in enumerate(earlier.volumes)}
        same = np.array([known.get(volume.name, NO_VOLUME - 1) for volume in volumes])
        kept = earlier.chosen[rows] != same[numbers]
        rows, numbers = rows[kept], numbers[kept]
    chosen[rows[::-1]] = numbers[::-1]  # the last assignment wins, which is the smallest volume
    return match


def _candidates(
    view: View,
    reservations: VolumeReservations,
    claim: PersistentVolumeClaim,
    reachable: reachability.ReachabilityCache,
    per_group: int,
) -> list[PersistentVolume]:
    """Volumes for the claim, smallest first, `per_group` of each set of reachable nodes: no node can use more."""
    by_claim = view.objects.by_index(PersistentVolume, "claim_key")  # most volumes belong to other claims
    by_reach: dict[int, list[PersistentVolume]] = {}
    for volume in chain(by_claim.get(claim.key, {}).values(), by_claim.get("", {}).values()):
        if volume.storage_class != claim.storage_class:
            continue
        claim_ref = reservations.claim_ref_of(volume) if volume.name in reservations.volumes else volume.claim
        if claim_ref is None:
            if volume.phase == AVAILABLE and volume_fits(claim, volume) and selects_volume(claim, volume):
                by_reach.setdefault(id(reachable.of(volume)), []).append(volume)
        elif claim_ref.refers_to(claim) and volume_fits(claim, volume):
            return [volume]
    size = attrgetter("capacity", "name")
    return sorted((each for group in by_reach.values() for each in sorted(group, key=size)[:per_group]), key=size)
