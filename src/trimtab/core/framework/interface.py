"""All that a plugin may implement and all that it may look at; which plugins run, and when, is the profile's business.

A plugin is a frozen dataclass: its fields are its arguments, `__post_init__` checks them, it holds nothing else. It has
a `name` and implements any of the methods below, each over *many nodes at once*: `rows` picks nodes out of the view's
columns (a slice for all of them, or an array of row numbers), and the answer has one cell per picked row. The answer for
some rows must equal those rows of the answer for all. Never loop over nodes: one numpy call costs what fifty nodes do.

A filter answers with codes: 0 passes, above 0 refused but an eviction on that node could help, below 0 refused for good.
What a code means in words is only asked when somebody wants to read it.

What a plugin declares, so that answers can be kept between pods (nothing declared means correct, and not kept):
`signature(pod)` is all of the pod that its answers depend on; `depends_on` the changes in the cluster that alter them. The
answer for one row may then depend on that row alone (or the change is logged for every row), and `pre_filter`, or having
no opinion at all, on the pod alone. A plugin whose rows depend on each other, or on other pods' whereabouts, must not
declare `depends_on`: it is asked anew for every pod, about all nodes, while the kept answers of the others stand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.instructions import Instruction
from trimtab.core.model.objects import PodGroup
from trimtab.core.model.pod import Pod

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = slice | NDArray[np.intp]
ALL_ROWS = slice(None)

MAX_SCORE = 100


class Plugin(Protocol):
    """What every plugin has; `requeue_on` says which changes might turn its refusal round."""

    name: ClassVar[str]
    requeue_on: ClassVar[Change]


@runtime_checkable
class NeedsKinds(Protocol):
    """Which further kinds of object (`core.model.objects`, by the API's plural names) the plugin must be able to see."""

    needs_kinds: ClassVar[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Reject:
    """No node will do, whatever it looks like; `final` as for codes below 0."""

    reason: str
    unresolvable: bool = True


@dataclass(frozen=True, slots=True)
class NodeSubset:
    """Only these nodes need be looked at; all others are refused for good."""

    node_names: frozenset[str]


class PreFilterStatus(Enum):
    """GO asks the filter; SKIP means that it would pass every node, so it is not asked."""

    SUCCESS = "go"
    SKIP = "skip"


PreFilterResult = PreFilterStatus | Reject | NodeSubset


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet: do these first, and ask again when answered, when `requeue_on` happens, or at the deadline at the latest."""

    seconds: float
    instructions: tuple[Instruction, ...] = ()
    requeue_on: Change = Change.NOTHING


class StageStatus(Enum):
    """The stage has nothing against it."""

    SUCCESS = "go"


@dataclass(frozen=True, slots=True)
class Warn:
    """Nothing against it, but people ought to know: a warning Event about the pod, with this reason in CamelCase."""

    reason: str
    message: str


StageResult = StageStatus | Warn | Reject | Wait


class Normalise(Enum):
    """How raw scores of the feasible nodes become 0..100: not at all, scaled by the highest, that reversed, or its own way.

    AMONG: raw scores hold only among the rows that are asked for together, which are the feasible ones, and the plugin
    itself scales them (`CustomNormalise`).
    """

    NONE = "none"
    HIGHER = "higher is better"
    LOWER = "lower is better"
    CUSTOM = "among the feasible"


@runtime_checkable
class PreEnqueue(Protocol):
    """PreEnqueue: None admits the pod to the queue, words keep it out."""

    def pre_enqueue(self, pod: Pod) -> str | None: ...


@runtime_checkable
class QueueSort(Protocol):
    """QueueSort: a key that never changes while the pod waits; the smallest goes first, the UID breaks ties."""

    def queue_sort_key(self, pod: Pod, queued_at: float) -> tuple[float, ...]: ...


@runtime_checkable
class PreFilter(Protocol):
    """PreFilter: a look at the pod before any node is looked at."""

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult: ...


@runtime_checkable
class Filter(Protocol):
    """Filter: a code per row, and the words behind a code."""

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints: ...

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class FilterStatus:
    """What came of a pod that no node will have: who was asked, the code of each row, and pods promised to nodes.

    Only pods that this one must wait for are among the promised, by the node's name.
    """

    filters: tuple[Filter, ...]
    codes: Ints
    nominated: Mapping[str, Sequence[Pod]]


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """The pod would fit on this node once these pods have left it, the most important first; so many budgets break."""

    node: str
    victims: tuple[Pod, ...]
    pdb_violations: int = 0


@runtime_checkable
class PostFilter(Protocol):
    """PostFilter: how room could be made; a `final` refusal says that nothing helps, so an earlier promise is void."""

    def post_filter(self, view: View, pod: Pod, status: FilterStatus) -> PreemptionCandidate | Reject: ...


@runtime_checkable
class Score(Protocol):
    """PreScore and Score: None when the plugin has no opinion on this pod, else a whole number per row.

    A plugin that is not normalised and wants more than the hundred steps names `parts: ClassVar[int]`: its raw scores then
    count in so many parts of a point, 0 to 100 * parts.
    """

    @property
    def normalise(self) -> Normalise: ...  # a ClassVar, unless it depends on an argument

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None: ...


@runtime_checkable
class CustomNormalise(Score, Protocol):
    """A score with an own NormalizeScore: raw scores of the feasible rows in, 0..100 out."""

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints: ...


@runtime_checkable
class ExplainNote(Protocol):
    """What whoever reads an explanation should know of how the plugin came to its answers; nothing when all is as usual."""

    def explain_note(self, view: View, pod: Pod) -> str: ...


@runtime_checkable
class Reserve(Protocol):
    """Reserve and Unreserve: change the plugin's own memory in the cluster; a refusal undoes earlier ones in reverse."""

    def reserve(self, view: View, state: Any, pod: Pod, node: str) -> tuple[Any, StageStatus | Reject]: ...

    def unreserve(self, state: Any, pod: Pod, node: str) -> Any: ...


@runtime_checkable
class Permit(Protocol):
    """Permit: may the pod be bound now?"""

    def permit(self, view: View, pod: Pod, node: str) -> StageResult: ...


@runtime_checkable
class PreBind(Protocol):
    """PreBind: is everything outside ready for the pod?"""

    def pre_bind(self, view: View, pod: Pod, node: str) -> StageResult: ...


@runtime_checkable
class ObservesPods(Protocol):
    """Keeps the plugin's memory true to what was seen; called for each pod that takes or leaves a place."""

    def observe_pod(self, state: Any, pod: Pod, added: bool) -> Any: ...


@runtime_checkable
class Cacheable(Protocol):
    """Whose answers may be kept between pods; see the module's words."""

    depends_on: ClassVar[Change]

    def signature(self, pod: Pod) -> Hashable: ...


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are to be placed together or not at all; `standing` have a place already, if only by our assumption."""

    key: str
    group: PodGroup | None  # None: nobody has made it
    members: Mapping[str, Pod]  # by UID, and only those that have not ended and are not on their way out
    placed: Mapping[str, str] = field(default_factory=dict)  # nodes by UID
    failed_at: float | None = None  # when a try failed last, since the gang was last complete
    backing_off: bool = False  # whether that was so recently that the next must wait
    resources_checked: bool = False  # whether its resources were found and nothing has gone wrong since


@runtime_checkable
class GangPlugin(Protocol):
    """Gangs: the engine tries all members of one in one turn; the plugin says whether it may, and how many are enough."""

    def gang_queued_at(self, gang: Gang, queued_at: float) -> float: ...

    def pre_filter_gang(self, view: View, pod: Pod, gang: Gang) -> Reject | None: ...

    def permit_gang(self, gang: Gang) -> StageResult: ...

    def gang_backoff(self, gang: Gang) -> float: ...


@runtime_checkable
class QueueingHint(Protocol):
    """A hint beyond `requeue_on`: could this change, which touched these rows, turn the refusal of this parked pod round?

    Without it a plugin that declares `depends_on` is asked about the touched rows, any other wakes on all of `requeue_on`.
    Any doubt says yes: a pod that is left parked by mistake waits for up to a minute.
    """

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool: ...


class FilterWithPreFilter(PreFilter, Filter, Protocol):
    """A filter with a look ahead."""


def any_node_passes(plugin: FilterWithPreFilter, view: View, pod: Pod) -> bool:
    """A hint (`QueueingHint`) for filters whose rows depend on each other: all nodes are tried again.

    That is cheaper than to try for a node, and most changes concern other pods.
    """
    ahead = plugin.pre_filter(view, pod)
    if isinstance(ahead, Reject):
        return False
    return ahead is PreFilterStatus.SKIP or bool((plugin.filter(view, pod, ALL_ROWS) == 0).any())


def filter_codes(passes: Bools, rejected_code: int) -> Ints:
    """0 where it passes and one code everywhere else."""
    return np.where(passes, 0, rejected_code)


def default_normalise(mode: Normalise, raw: Ints) -> Ints:
    """Kubernetes' default normalisation over the feasible rows: times 100, divided by the highest, rounded down."""
    if mode is Normalise.NONE or not raw.size:
        return raw
    highest = int(raw.max())
    if highest == 0:
        return np.full_like(raw, MAX_SCORE) if mode is Normalise.LOWER else raw
    scaled = raw * MAX_SCORE // highest
    return MAX_SCORE - scaled if mode is Normalise.LOWER else scaled


def scale_by_table(raw: Ints, low: int, high: int, scale: Callable[[Ints], Ints]) -> Ints:
    """Raw scores scaled value by value, or all at once where there are more values than rows."""
    if high - low > len(raw):
        return scale(raw)
    return scale(np.arange(low, high + 1)).take(raw - low, mode="clip")
