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
from trimtab.core.model.storage import AVAILABLE, PersistentVolume, PersistentVolumeClaim, StorageClass
from trimtab.core.placing.contract import Bools, Ints
from trimtab.core.placing.volumes import reach
from trimtab.core.placing.volumes.claims import Sorted
from trimtab.core.placing.volumes.plans import Plans

OUT_OF_REACH, NOTHING_TO_BIND, NO_SPACE, VOLUME_GONE = 1, 2, 4, 8
NONE = -1


class Match(NamedTuple):
    """Volumes for one claim, and by row the number of the one that it would get, or NONE."""

    claim: PersistentVolumeClaim
    volumes: list[PersistentVolume]
    chosen: Ints


class Found(NamedTuple):
    """By row what is in the way (0 for nothing); what each claim would be given; where claims need a new volume."""

    faults: Ints
    matches: list[Match]
    made: list[tuple[PersistentVolumeClaim, Bools]]


def find(view: View, plans: Plans, claims: Sorted) -> Found:
    """Look at all nodes."""
    faults = np.zeros(view.count, dtype=np.int64)
    _check_bound(view, claims.bound, faults)
    if not claims.delayed:
        return Found(faults, [], [])
    there = np.ones(view.count, dtype=np.bool_)
    for claim in claims.delayed:
        if claim.selected_node is not None:
            there &= view.named([claim.selected_node])
    faults[~there] |= NOTHING_TO_BIND
    made = [(claim, there) for claim in claims.delayed if claim.selected_node is not None]
    free = [claim for claim in claims.delayed if claim.selected_node is None]
    matches: list[Match] = []
    for claim in sorted(free, key=lambda claim: claim.requested or 0):
        matches.append(_match(view, plans, claim, matches))
        made.append((claim, there & (matches[-1].chosen == NONE)))
    _check_made(view, made, there.copy(), faults)
    return Found(faults, matches, made)


def _check_bound(view: View, claims: Iterable[PersistentVolumeClaim], faults: Ints) -> None:
    held = view.objects.of(PersistentVolume)
    fine = np.ones(view.count, dtype=np.bool_)
    for claim in claims:
        volume = held.get(claim.volume)
        if volume is None:
            faults[fine] |= VOLUME_GONE
            return
        nodes = reach.reachable(view, volume)
        if nodes is not None:
            faults[fine & ~nodes] |= OUT_OF_REACH
            fine &= nodes


def _check_made(view: View, made: Iterable[tuple[PersistentVolumeClaim, Bools]], fine: Bools, faults: Ints) -> None:
    classes = view.objects.of(StorageClass)
    for claim, needed in made:
        given = classes[claim.storage_class]
        there = fine & needed
        if not reach.makes_volumes(given):
            faults[there] |= NOTHING_TO_BIND
            fine &= ~there
            continue
        for nodes, fault in (
            (reach.allowed(view, given), NOTHING_TO_BIND),
            (reach.enough(view, given, claim), NO_SPACE),
        ):
            if nodes is not None:
                faults[fine & there & ~nodes] |= fault
                fine &= ~there | nodes


def _match(view: View, plans: Plans, claim: PersistentVolumeClaim, before: list[Match]) -> Match:
    """By row the smallest volume that fits, apart from those that the claims before would get there."""
    reaches = reach.Reaches(view)
    volumes = _candidates(view, plans, claim, reaches, len(before) + 1)
    chosen = np.full(view.count, NONE, dtype=np.int64)
    match = Match(claim, volumes, chosen)
    if not volumes:
        return match
    reached = [reaches.of(each) for each in volumes]
    rows, numbers = np.concatenate(reached), np.repeat(np.arange(len(volumes)), [len(each) for each in reached])
    for earlier in before:
        known = {volume.name: number for number, volume in enumerate(earlier.volumes)}
        same = np.array([known.get(volume.name, NONE - 1) for volume in volumes])
        kept = earlier.chosen[rows] != same[numbers]
        rows, numbers = rows[kept], numbers[kept]
    chosen[rows[::-1]] = numbers[::-1]  # of several for one row the last is kept, and that is the smallest
    return match


def _candidates(
    view: View, plans: Plans, claim: PersistentVolumeClaim, reaches: reach.Reaches, many: int
) -> list[PersistentVolume]:
    """Volumes for the claim, the smallest first, `many` of each reach: no node can have use for more."""
    held = view.objects.by(PersistentVolume, "promised_to")  # most volumes are others', and need not be looked at
    alike: dict[int, list[PersistentVolume]] = {}
    for volume in chain(held.get(claim.key, {}).values(), held.get("", {}).values()):
        if volume.storage_class != claim.storage_class:
            continue
        promised = plans.promised(volume) if volume.name in plans.volumes else volume.claim
        if promised is None:
            if volume.phase == AVAILABLE and _suits(claim, volume) and _wanted(claim, volume):
                alike.setdefault(id(reaches.of(volume)), []).append(volume)
        elif promised.means(claim) and _suits(claim, volume):
            return [volume]
    size = attrgetter("capacity", "name")
    return sorted((each for group in alike.values() for each in sorted(group, key=size)[:many]), key=size)


def may_have(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the claim could be given the volume, if that is free."""
    same = volume.storage_class == claim.storage_class
    return same and not claim.bound and _suits(claim, volume) and _wanted(claim, volume)


def _suits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (
        volume.capacity >= (claim.requested or 0)
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )


def _wanted(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if claim.selector is not None and not (claim.selector.sound and claim.selector.picks(volume.labels)):
        return False
    return claim.access_modes == volume.access_modes or set(claim.access_modes) <= set(volume.access_modes)
