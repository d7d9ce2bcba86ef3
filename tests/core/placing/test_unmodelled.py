"""Proves that what no plugin can judge is named: hard wishes to be waited for, soft ones to be counted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import pod
from trimtab.core.model.affinity import Affinity, PodAffinity, PodTerm, PreferredPods, Spread
from trimtab.core.model.pod import Pod, PodSpec, Volume
from trimtab.core.placing.profile import Point, Profile
from trimtab.core.placing.unmodelled import hard, soft

TERM = PodTerm("zone")
NONE_BUILT = Profile("bare")
ALL_BUILT = Profile(
    "full",
    enabled={
        Point.FILTER: ("InterPodAffinity", "PodTopologySpread", "VolumeBinding", "DynamicResources", "Coscheduling"),
        Point.SCORE: ("InterPodAffinity", "PodTopologySpread"),
    },
)


def wishing(**spec: object) -> Pod:
    return replace(pod("web"), spec=PodSpec(**spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (pod("web"), ()),
        (wishing(affinity=Affinity(pods=PodAffinity(required=(TERM,)))), ("required pod affinity",)),
        (wishing(affinity=Affinity(anti_pods=PodAffinity(required=(TERM,)))), ("required pod anti-affinity",)),
        (wishing(affinity=Affinity(pods=PodAffinity(preferred=(PreferredPods(1, TERM),)))), ()),
        (wishing(spread=(Spread("zone"),)), ("a DoNotSchedule topology spread constraint",)),
        (wishing(spread=(Spread("zone", hard=False),)), ()),
        (wishing(volumes=(Volume("persistentVolumeClaim", "data"),)), ("volumes that bind to nodes",)),
        (wishing(claims=("gpu",)), ("resource claims",)),
        (wishing(group="team"), ("a scheduling group",)),
        (wishing(claims=("gpu",), group="team"), ("resource claims", "a scheduling group")),
    ],
)
def test_hard(wanted: Pod, words: tuple[str, ...]) -> None:
    """A hard wish is named while no plugin of the profile judges it, and not once one does."""
    assert words == hard(wanted, NONE_BUILT)
    assert () == hard(wanted, ALL_BUILT)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (pod("web"), ()),
        (
            wishing(affinity=Affinity(pods=PodAffinity(preferred=(PreferredPods(1, TERM),)))),
            ("preferred pod affinity",),
        ),
        (wishing(spread=(Spread("zone", hard=False),)), ("a ScheduleAnyway topology spread constraint",)),
        (wishing(spread=(Spread("zone"),)), ()),
    ],
)
def test_soft(wanted: Pod, words: tuple[str, ...]) -> None:
    """A soft wish that nobody scores is named, to be counted."""
    assert words == soft(wanted, NONE_BUILT)
