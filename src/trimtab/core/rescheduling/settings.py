"""Settings of the rescheduler: the section `rescheduling` of a TrimtabConfiguration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from trimtab.core.load.pod_metrics import Capacity
from trimtab.core.model.duration import DAY, HOUR, format_duration
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.setting import INT32, ParsedFields, Setting, setting
from trimtab.core.rescheduling.calendar import Window
from trimtab.core.rescheduling.forecast import BySnapshots, Forecaster
from trimtab.core.rescheduling.move_budgets import DEFAULT_BUDGETS, Budgets
from trimtab.core.rescheduling.strategies.interface import RivalStrategy, Strategy
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

INTERVAL, COOLDOWN = 300.0, 1800.0
GRADES = {"grade_after": 1800.0, "grade_again_after": 6 * HOUR}


class Mode(StrEnum):
    """Whether moves are only planned, wait for approval, or are carried out."""

    OBSERVE = "observe"
    APPROVE = "approve"
    AUTO = "auto"


class Method(StrEnum):
    """How pods are moved."""

    REPLACEMENT_FIRST = "replacementFirst"
    REPLACEMENT_ONLY = "replacementOnly"
    EVICTION = "eviction"


# What a move must gain, by name: the fewer moves, the calmer.
EAGERNESS: Mapping[str, float] = MappingProxyType({"calm": 64.0, "balanced": 32.0, "eager": 16.0})
LIMITS: Mapping[str, float] = MappingProxyType({CPU: 0.8, MEMORY: 0.9})


# The kinds besides pods and nodes that guards read.
GUARDED_KINDS = ("poddisruptionbudgets", "persistentvolumeclaims", "persistentvolumes", "statefulsets")


@dataclass(frozen=True, slots=True)
class RemedySettings:
    """Which rungs of the remedy ladder may be used."""

    soft_taint: bool = setting(
        False, "false unless set: true gives hot nodes a PreferNoSchedule taint, so that every scheduler avoids them"
    )
    resize: bool = setting(
        False,
        "false unless set: true raises, in place, the CPU request of pods on hot nodes to what they use, if they have the "
        "annotation trimtab.dev/resize=requests",
    )
    move: bool = setting(True, "true unless set: false only plans moves, whatever `mode` says")
    capacity: bool = setting(
        True, "true unless set: an Event of a node that stays hot because no other node can take its pods"
    )


@dataclass(frozen=True, slots=True)
class ReschedulingSettings:
    """Times are in seconds; `limits` are shares of a node's allocatable that its usage should stay below, or of its
    `capacities` for resources other than CPU and memory.

    The file has limits in percent with the capacities in them, the required gain by name, and strategies by name with
    their arguments.
    """

    mode: Mode = setting(
        Mode.OBSERVE,
        "`observe` unless set: moves are only planned; `approve` carries a plan out once somebody has approved it, `auto` "
        "at once",
    )
    interval: float = setting(INTERVAL, "5m unless set: how often moves are planned; at least 10s", seconds=(10, DAY))
    limits: Mapping[str, float] = field(
        default_factory=lambda: dict(LIMITS),
        metadata={
            "setting": Setting(
                "`{cpu: 80, memory: 90}` unless set: the usage in percent of allocatable above which pods should leave "
                "a node; one that is left out keeps its default. Any metric of pods may have a limit, too, with what nodes "
                "have of it: `network: {limit: 70, capacity: 1.25e9}`, see "
                "[rescheduling.md](rescheduling.md#limits-of-your-own-metrics)"
            )
        },
    )
    required_gain: float = setting(
        EAGERNESS["balanced"],
        "`balanced` unless set: what a move must gain to be worth its disruption; `calm` moves fewer pods, `eager` more",
        name="eagerness",
    )
    strategies: tuple[Strategy | RivalStrategy, ...] = setting(
        (ResourceOptimization(),),
        "ResourceOptimization unless set: the reasons to move pods, by name, or by `name` and `args`; see "
        "[rescheduling.md](rescheduling.md#strategies)",
    )
    method: Method = setting(
        Method.REPLACEMENT_FIRST,
        "`replacementFirst` unless set: a Deployment or ReplicaSet gets a further replica, and the pod leaves when that is "
        "ready; all others are evicted. `replacementOnly` never evicts, `eviction` always",
    )
    budgets: Budgets = field(
        default_factory=lambda: dict(DEFAULT_BUDGETS),
        metadata={
            "setting": Setting(
                "100 an hour in the `cluster`, 60 in a `zone`, 50 in a `namespace`, 20 on a `node` and 6 in a `workload` "
                "unless set: each with `moves` and `within`; one that is left out keeps its default"
            )
        },
    )
    max_in_progress: int = setting(
        10, "10 unless set: how many moves may wait for their replacement's node at a time", between=(1, 100)
    )
    max_moves: int = setting(20, "20 unless set: how many pods one plan moves at most", between=(1, 1000))
    cooldown: float = setting(
        COOLDOWN,
        "30m unless set: for how long the pods of an owner stay where they are after one was moved; not less than "
        "interval",
        seconds=(0, 30 * DAY),
    )
    min_pod_age: float = setting(
        300.0, "5m unless set: for how long a pod must have run before it is moved", seconds=(0, 30 * DAY)
    )
    excluded_namespaces: tuple[str, ...] = setting(
        ("kube-system", "kube-public", "kube-node-lease"),
        "kube-system, kube-public and kube-node-lease unless set: pods in these namespaces are never moved",
        unique=True,
    )
    excluded_pod_selector: LabelSelector | None = setting(
        None, "matchLabels and matchExpressions: pods that match are never moved; none unless set"
    )

    priority_threshold: int | None = setting(
        None, "none unless set: pods of this priority or a higher one are never moved", between=(-INT32, INT32)
    )
    allow_local_data: bool = setting(
        False, "false unless set: true also moves pods with emptyDir or hostPath volumes, whose data are lost"
    )
    allow_jobs: bool = setting(False, "false unless set: true also moves pods of Jobs, which start again")
    allow_last_replica: bool = setting(
        False,
        "false unless set: true also moves the only ready pod of a workload, which is missing until its replacement is "
        "ready",
    )
    settle_time: float = setting(
        120.0,
        "2m unless set: a workload that created or deleted pods within this time, by a rollout or by scaling, is left "
        "alone",
        seconds=(0, DAY),
    )
    max_unavailable: float = setting(
        0.1,
        "0.1 unless set: a workload of which a larger share of pods is missing or being moved is left alone; rounded "
        "down, and one pod may always move",
        between=(0, 1),
    )
    max_unready_nodes: float = setting(
        0.2, "0.2 unless set: nothing is moved while a larger share of nodes is not ready", between=(0, 1)
    )
    max_metrics_age: float = setting(
        180.0, "3m unless set: nothing is moved while the newest metrics are older", seconds=(1, DAY)
    )
    grace_period: float = setting(
        0.0,
        "0s unless set: pods that are evicted get their own grace period; else all of them get this one, in whole seconds",
        seconds=(0, 3600),
    )
    grade_after: float = setting(
        GRADES["grade_after"],
        "30m unless set: how long after a move ended it is first measured what that was worth; see "
        "[rescheduling.md](rescheduling.md#grades-and-history)",
        seconds=(600, 3 * HOUR),
    )
    grade_again_after: float = setting(
        GRADES["grade_again_after"],
        "6h unless set: when that is measured again; at least twice gradeAfter",
        seconds=(1200, 7 * DAY),
    )
    forecaster: Forecaster = setting(
        BySnapshots(),
        "`snapshots` unless set: what the next hours are taken to bring; also `seasonal` or `learned`; see "
        "[forecasts.md](forecasts.md)",
        name="forecast",
    )
    remedies: RemedySettings = setting(
        RemedySettings(),
        "`{softTaint: false, resize: false, move: true, capacity: true}` unless set: the rungs of the remedy ladder that "
        "may be used; see [rescheduling.md](rescheduling.md#remedies)",
    )
    windows: tuple[Window, ...] = setting(
        (),
        "any time unless set: when pods may be moved, or must not be; see [rescheduling.md](rescheduling.md#windows)",
    )

    capacities: Mapping[str, Capacity] = field(default_factory=dict)

    @property
    def taints_nodes(self) -> bool:
        """Whether hot nodes get a soft taint."""
        return self.remedies.soft_taint and self.mode is Mode.AUTO

    @property
    def suggesting(self) -> tuple[Strategy, ...]:
        """The strategies without rivals."""
        return tuple(each for each in self.strategies if isinstance(each, Strategy))

    @property
    def rivals(self) -> tuple[RivalStrategy, ...]:
        """They are run instead of strategies, and only in the simulator."""
        return tuple(each for each in self.strategies if isinstance(each, RivalStrategy))

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        interval = parsed.values.get("interval", INTERVAL)
        cooldown = parsed.values.setdefault("cooldown", max(COOLDOWN, interval))
        if cooldown < interval:
            parsed.at("cooldown").error(
                f"cooldown ({format_duration(cooldown)}) must not be shorter than interval ({format_duration(interval)}), "
                "or every plan could move pods of the same owner: raise it, or shorten interval"
            )
        first, again = (parsed.values.get(name, default) for name, default in GRADES.items())
        if again < 2 * first:
            parsed.at("gradeAgainAfter", "gradeAfter").error(
                f"gradeAgainAfter ({format_duration(again)}) must be at least twice gradeAfter "
                f"({format_duration(first)}), or both say the same: raise it, or shorten gradeAfter"
            )
