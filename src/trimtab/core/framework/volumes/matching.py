"""Which nodes will do for a pod's claims, and which volumes it would get there; nothing is promised here.

For each claim, from the smallest up: the volume that was kept for it, else the smallest that fits and is free, else one
that is made for it. A node fails by the first claim that can have none of these there.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools, Ints
from trimtab.core.framework.volumes import reachability
from trimtab.core.framework.volumes.claims import ClaimsByState
from trimtab.core.framework.volumes.reservations import VolumeReservations
from trimtab.core.model.storage import AVAILABLE, PersistentVolume, PersistentVolumeClaim, StorageClass

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, PV_NOT_EXIST = 1, 2, 4, 8
NO_VOLUME = -1


class Match(NamedTuple):
    """Volumes for one claim, and by row the number of the one that it would get, or NONE."""

    claim: PersistentVolumeClaim
    volumes: list[PersistentVolume]
    chosen: Ints


class MatchResult(NamedTuple):
    """By row what is in the way (0 for nothing); what each claim would be given; where claims need a new volume."""

    errors: Ints
    matches: list[Match]
    to_provision: list[tuple[PersistentVolumeClaim, Bools]]


def find_volumes(view: View, reservations: VolumeReservations, claims: ClaimsByState) -> MatchResult:
    """Look at all nodes."""
    faults = np.zeros(view.count, dtype=np.int64)
    _check_bound(view, claims.bound, faults)
    if not claims.delayed:
        return MatchResult(faults, [], [])
    there = np.ones(view.count, dtype=np.bool_)
    for claim in claims.delayed:
        if claim.selected_node is not None:
            there &= view.rows_named([claim.selected_node])
    faults[~there] |= BIND_CONFLICT
    made = [(claim, there) for claim in claims.delayed if claim.selected_node is not None]
    free = [claim for claim in claims.delayed if claim.selected_node is None]
    matches: list[Match] = []
    for claim in sorted(free, key=lambda claim: claim.requested or 0):
        matches.append(_match(view, reservations, claim, matches))
        made.append((claim, there & (matches[-1].chosen == NO_VOLUME)))
    _check_provisioning(view, made, there.copy(), faults)
    return MatchResult(faults, matches, made)


def _check_bound(view: View, bound_claims: Iterable[PersistentVolumeClaim], errors: Ints) -> None:
    held = view.objects.of_kind(PersistentVolume)
    fine = np.ones(view.count, dtype=np.bool_)
    for claim in bound_claims:
        volume = held.get(claim.volume)
        if volume is None:
            errors[fine] |= PV_NOT_EXIST
            return
        nodes = reachability.reachable_nodes(view, volume)
        if nodes is not None:
            errors[fine & ~nodes] |= NODE_CONFLICT
            fine &= nodes


def _check_provisioning(
    view: View, to_provision: Iterable[tuple[PersistentVolumeClaim, Bools]], candidates: Bools, errors: Ints
) -> None:
    classes = view.objects.of_kind(StorageClass)
    for claim, needed in to_provision:
        given = classes[claim.storage_class]
        there = candidates & needed
        if not reachability.is_dynamic(given):
            errors[there] |= BIND_CONFLICT
            candidates &= ~there
            continue
        for nodes, fault in (
            (reachability.allowed_nodes(view, given), BIND_CONFLICT),
            (reachability.nodes_with_capacity(view, given, claim), NOT_ENOUGH_SPACE),
        ):
            if nodes is not None:
                errors[candidates & there & ~nodes] |= fault
                candidates &= ~there | nodes


def _match(
    view: View, reservations: VolumeReservations, claim: PersistentVolumeClaim, earlier_matches: list[Match]
) -> Match:
    """By row the smallest volume that fits, apart from those that the claims before would get there."""
    reaches = reachability.ReachabilityCache(view)
    volumes = _candidates(view, reservations, claim, reaches, len(earlier_matches) + 1)
    chosen = np.full(view.count, NO_VOLUME, dtype=np.int64)
    match = Match(claim, volumes, chosen)
    if not volumes:
        return match
    reached = [reaches.of(each) for each in volumes]
    rows, numbers = np.concatenate(reached), np.repeat(np.arange(len(volumes)), [len(each) for each in reached])
    for earlier in earlier_matches:
        known = {volume.name: number for number, volume in enumerate(earlier.volumes)}
        same = np.array([known.get(volume.name, NO_VOLUME - 1) for volume in volumes])
        kept = earlier.chosen[rows] != same[numbers]
        rows, numbers = rows[kept], numbers[kept]
    chosen[rows[::-1]] = numbers[::-1]  # of several for one row the last is kept, and that is the smallest
    return match


def _candidates(
    view: View,
    reservations: VolumeReservations,
    claim: PersistentVolumeClaim,
    reachability: reachability.ReachabilityCache,
    per_group: int,
) -> list[PersistentVolume]:
    """Volumes for the claim, the smallest first, `many` of each reach: no node can have use for more."""
    held = view.objects.by_index(PersistentVolume, "claim_key")  # most volumes belong to other claims
    alike: dict[int, list[PersistentVolume]] = {}
    for volume in chain(held.get(claim.key, {}).values(), held.get("", {}).values()):
        if volume.storage_class != claim.storage_class:
            continue
        promised = reservations.claim_ref_of(volume) if volume.name in reservations.volumes else volume.claim
        if promised is None:
            if volume.phase == AVAILABLE and _fits(claim, volume) and _selected(claim, volume):
                alike.setdefault(id(reachability.of(volume)), []).append(volume)
        elif promised.refers_to(claim) and _fits(claim, volume):
            return [volume]
    size = attrgetter("capacity", "name")
    return sorted((each for group in alike.values() for each in sorted(group, key=size)[:per_group]), key=size)


def can_bind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the claim could be given the volume, if that is free."""
    same = volume.storage_class == claim.storage_class
    return same and not claim.bound and _fits(claim, volume) and _selected(claim, volume)


def _fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (
        volume.capacity >= (claim.requested or 0)
        and volume.volume_mode == claim.volume_mode
        and volume.volume_attributes_class == claim.volume_attributes_class
        and not volume.terminating
    )


def _selected(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if claim.selector is not None and not (claim.selector.valid and claim.selector.matches(volume.labels)):
        return False
    return claim.access_modes == volume.access_modes or set(claim.access_modes) <= set(volume.access_modes)
