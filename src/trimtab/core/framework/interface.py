"""The plugin interface: extension points, their result types, and what a plugin declares about itself.

A plugin is a frozen dataclass: its fields are its arguments, `__post_init__` validates them, and it holds nothing else.
It has a `name` and implements any of the methods below, each for *many nodes at once*: `rows` selects nodes from the
view's columns (a slice for all of them, or an array of row numbers), and the result has one cell per selected row. The
result for some rows must equal those rows of the result for all. Never loop over nodes: one numpy call costs as much as
fifty nodes.

A filter returns codes: 0 passes, above 0 is Unschedulable (evicting pods from that node could help), below 0 is
UnschedulableAndUnresolvable (it could not). The message behind a code is only built when it is shown.

Caching between pods is declared, never guessed (a plugin that declares nothing is correct, and not cached):
`signature(pod)` is everything of the pod that the results depend on; `depends_on` names the changes in the cluster that
alter them. The result for one row may then depend on that row alone (or the change is logged for every row), and
`pre_filter`, or a score of None, on the pod alone. A plugin whose rows depend on each other, or on pods on other nodes,
must not declare `depends_on`: it is called for every pod and all nodes, on top of what is cached for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.instructions import Instruction
from trimtab.core.model.objects import PodGroup
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = slice | NDArray[np.intp]
ALL_ROWS = slice(None)

Figures = tuple[tuple[str, float], ...]  # by name, such as predicted_cpu_percent

MAX_SCORE = 100


class Plugin(Protocol):
    """What every plugin has. `requeue_on` names the changes after which a pod it rejected is worth another attempt."""

    name: ClassVar[str]
    requeue_on: ClassVar[Change]


@runtime_checkable
class NeedsKinds(Protocol):
    """The extra kinds of object the plugin reads (`core.model.objects`, by the API's plural names)."""

    needs_kinds: ClassVar[tuple[str, ...]]


@runtime_checkable
class NeedsKindsForSomePods(NeedsKinds, Protocol):
    """Without its kinds the plugin cannot answer for these pods, and answers rightly for all others.

    If listing one of the kinds is forbidden, these pods stay pending, and others are scheduled. Without this method
    nothing is scheduled until the kind can be listed.
    """

    def needs_kinds_for(self, pod: Pod) -> bool: ...


@dataclass(frozen=True, slots=True)
class Reject:
    """No node is feasible, whatever its state; `unresolvable` as for codes below 0."""

    reason: str
    unresolvable: bool = True
    figures: Figures = field(default=(), compare=False)  # of a stage: for the log, behind the reason


@dataclass(frozen=True, slots=True)
class NodeSubset:
    """Only these nodes need to be evaluated; all others are rejected as unresolvable."""

    node_names: frozenset[str]


class PreFilterStatus(Enum):
    """SUCCESS runs the filter; SKIP means that it would pass every node, so it is not run."""

    SUCCESS = "success"
    SKIP = "skip"


PreFilterResult = PreFilterStatus | Reject | NodeSubset


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet: perform the instructions, and call again when they are answered, on `retry_on`, or at the deadline."""

    seconds: float
    instructions: tuple[Instruction, ...] = ()
    retry_on: Change = Change.NOTHING


class StageStatus(Enum):
    """The stage (reserve, permit, pre-bind) succeeded."""

    SUCCESS = "success"


@dataclass(frozen=True, slots=True)
class Warn:
    """Success with a warning Event about the pod; the reason is in CamelCase. Figures are for the log."""

    reason: str
    message: str
    figures: Figures = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Log:
    """Success with figures that are logged at level debug."""

    figures: Figures


StageResult = StageStatus | Log | Warn | Reject | Wait


class Normalise(Enum):
    """How raw scores of the feasible nodes become 0..100: not at all, by the highest, reversed, or by the plugin.

    CUSTOM: `score` is called with the feasible rows only, and the plugin scales its result itself (`CustomNormalise`).
    """

    NONE = "none"
    HIGHER = "higher is better"
    LOWER = "lower is better"
    CUSTOM = "custom"


@runtime_checkable
class PreEnqueue(Protocol):
    """PreEnqueue: None admits the pod to the queue, a message keeps it out."""

    def pre_enqueue(self, pod: Pod) -> str | None: ...


@runtime_checkable
class QueueSort(Protocol):
    """QueueSort: a key that never changes while the pod is queued; smallest first, ties are broken by UID."""

    def queue_sort_key(self, pod: Pod, queued_at: float) -> tuple[float, ...]: ...


@runtime_checkable
class PreFilter(Protocol):
    """PreFilter: checks the pod before any node is evaluated."""

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult: ...


@runtime_checkable
class Filter(Protocol):
    """Filter: a code per row, and the reasons behind a code."""

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints: ...

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class FilterStatus:
    """Why no node is feasible for a pod: the filters that ran, each row's code, and the nominated pods by node name.

    Only nominated pods that this one has to yield to are included.
    """

    filters: tuple[Filter, ...]
    codes: Ints
    nominated: Mapping[str, Sequence[Pod]]


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """The pod would fit on this node without these victims, listed from the highest priority down."""

    node: str
    victims: tuple[Pod, ...]
    pdb_violations: int = 0


@runtime_checkable
class PostFilter(Protocol):
    """PostFilter: finds pods to preempt; an unresolvable rejection clears an earlier nomination."""

    def post_filter(self, view: View, pod: Pod, status: FilterStatus) -> PreemptionCandidate | Reject: ...


@runtime_checkable
class Score(Protocol):
    """PreScore and Score: None to skip scoring this pod, else a whole number per row.

    A plugin with `Normalise.NONE` that needs finer steps than whole points sets `score_scale: ClassVar[int]`: its raw
    scores are then in 1/score_scale of a point, 0 to 100 * score_scale.
    """

    @property
    def normalise(self) -> Normalise: ...  # a ClassVar unless it depends on an argument

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None: ...


@runtime_checkable
class CustomNormalise(Score, Protocol):
    """A score with its own NormalizeScore: raw scores of the feasible rows in, 0..100 out."""

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints: ...


@runtime_checkable
class ExplainNote(Protocol):
    """A note for `trimtab explain` on how the results came about, such as missing metrics; empty for none."""

    def explain_note(self, view: View, pod: Pod) -> str: ...


@runtime_checkable
class Reserve(Protocol):
    """Reserve and Unreserve: update the plugin's state; a rejection undoes earlier reserves in reverse order."""

    def reserve(self, view: View, state: Any, pod: Pod, node: str) -> tuple[Any, StageStatus | Reject]: ...

    def unreserve(self, state: Any, pod: Pod, node: str) -> Any: ...


@runtime_checkable
class Permit(Protocol):
    """Permit: may the pod be bound now?"""

    def permit(self, view: View, pod: Pod, node: str) -> StageResult: ...


@runtime_checkable
class PreBind(Protocol):
    """PreBind: is everything outside the scheduler ready for the pod?"""

    def pre_bind(self, view: View, pod: Pod, node: str) -> StageResult: ...


@runtime_checkable
class ObservesPods(Protocol):
    """Keeps the plugin's state in step with the cluster; called for each pod placed on or removed from a node."""

    def observe_pod(self, state: Any, pod: Pod, added: bool) -> Any: ...


@runtime_checkable
class Cacheable(Protocol):
    """A plugin whose results may be cached between pods; see the module's docstring."""

    depends_on: ClassVar[Change]

    def signature(self, pod: Pod) -> Hashable: ...


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are scheduled together or not at all; `placed` ones have a node already, bound or assumed."""

    key: str
    group: PodGroup | None  # None if it does not exist
    members: Mapping[str, Pod]  # by UID; without finished and terminating pods
    placed: Mapping[str, str] = field(default_factory=dict)  # node names by UID
    failed_at: float | None = None  # the last failed attempt since the gang was last complete
    backing_off: bool = False  # the next attempt has to wait
    resources_checked: bool = False  # its resources were sufficient, and no attempt has failed since


@runtime_checkable
class GangPlugin(Protocol):
    """Gang scheduling: the engine tries all members in one turn; the plugin says when it may and how many suffice."""

    def gang_queued_at(self, gang: Gang, queued_at: float) -> float: ...

    def pre_filter_gang(self, view: View, pod: Pod, gang: Gang) -> Reject | None: ...

    def permit_gang(self, gang: Gang) -> StageResult: ...

    def gang_backoff(self, gang: Gang) -> float: ...


@runtime_checkable
class QueueingHint(Protocol):
    """Whether a change to these rows could make this unschedulable pod schedulable; refines `requeue_on`.

    Without it, a plugin that declares `depends_on` has its filter run for the changed rows, and any other plugin
    requeues on all of `requeue_on`. When in doubt return True: a pod that is wrongly left unschedulable waits for up to
    a minute.
    """

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool: ...


class FilterWithPreFilter(PreFilter, Filter, Protocol):
    """A filter that has a PreFilter."""


def any_node_passes(plugin: FilterWithPreFilter, view: View, pod: Pod) -> bool:
    """A queueing hint for filters whose rows depend on each other: a change may affect any node, so all are filtered.

    That is cheaper than a scheduling attempt, and most changes concern other pods.
    """
    result = plugin.pre_filter(view, pod)
    if isinstance(result, Reject):
        return False
    return result is PreFilterStatus.SKIP or bool((plugin.filter(view, pod, ALL_ROWS) == 0).any())


def filter_codes(passes: Bools, rejected_code: int) -> Ints:
    """0 where the node passes and `rejected_code` everywhere else."""
    return np.where(passes, 0, rejected_code)


def default_normalise(mode: Normalise, raw: Ints) -> Ints:
    """DefaultNormalizeScore over the feasible rows: times 100, divided by the highest, rounded down."""
    if mode is Normalise.NONE or not raw.size:
        return raw
    highest = int(raw.max())
    if highest == 0:
        return np.full_like(raw, MAX_SCORE) if mode is Normalise.LOWER else raw
    scaled = raw * MAX_SCORE // highest
    return MAX_SCORE - scaled if mode is Normalise.LOWER else scaled


def scale_by_table(raw: Ints, low: int, high: int, scale: Callable[[Ints], Ints]) -> Ints:
    """Scale raw scores through a lookup table, or directly where there are more distinct values than rows."""
    if high - low > len(raw):
        return scale(raw)
    return scale(np.arange(low, high + 1)).take(raw - low, mode="clip")


class NamedSource(NamedTuple):
    """A source of metrics that a plugin's arguments name, as the project that it comes from configures it.

    argument: the path of the argument with the URL. kind: empty where no such source is supported.
    """

    argument: tuple[str, ...]
    kind: Literal["prometheus", "metrics-server", ""]
    url: str = ""
    interval: float | None = None
    timeout: float | None = None
    insecure_skip_verify: bool = False


@runtime_checkable
class NamesSource(Protocol):
    """A plugin whose arguments name a source of metrics; `config` adds that source."""

    def named_source(self) -> NamedSource | None: ...


class NamedRescheduling(NamedTuple):
    """How running pods should be moved, as a plugin's arguments say it for the project that it comes from.

    switch: the argument without which a file asks for nothing. enabled: whether the arguments ask for moves.
    interval is in seconds, limits are shares of allocatable; strategies are names with their arguments.
    arguments: the field of the section `rescheduling` that each argument becomes. shared: those of them that a scheduling
    plugin uses itself.
    """

    switch: str
    enabled: bool
    interval: float
    limits: Mapping[str, float]
    max_moves: int
    excluded_namespaces: tuple[str, ...]
    excluded_pod_selector: LabelSelector | None
    strategies: Mapping[str, Mapping[str, object]]
    arguments: Mapping[str, str]
    shared: Collection[str] = ()


@runtime_checkable
class NamesRescheduling(Protocol):
    """A plugin whose arguments say how running pods should be moved; `config` makes the rescheduler's settings of them."""

    def named_rescheduling(self) -> NamedRescheduling: ...
