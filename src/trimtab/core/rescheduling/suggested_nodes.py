"""The suggested nodes while a plan is made: what each of their movable pods would gain on each target, as moves change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.core.load.snapshots import parts_of
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.rescheduling.objective import Array, NodeLoad, PodLoad
from trimtab.core.rescheduling.strategies.interface import Suggestion
from trimtab.core.tables import Bools, Floats, Index

NEVER = -np.inf
NEARLY = 0.8  # as good

Pair = tuple[int, int]  # number of a source, and column of a target


class Choice(NamedTuple):
    """Another scheduler's: the rows that it could choose, the least that one of them gains net, and how many moves had been
    made when it was rehearsed."""

    rows: Index
    net: float
    after: int


class Candidate(NamedTuple):
    """A pod that may be moved, and what that costs, with the reasons if it is not what an ordinary pod costs."""

    pod: Pod
    cost: float
    why: str = ""


class SuggestedNode:
    """A suggested node: the gain of each of its movable pods on each target, less its cost.

    No target has a lower penalty with a pod than without it. So where a pod relieves its node by less than it costs, nothing
    is computed of its targets.
    """

    def __init__(self, suggestion: Suggestion, row: int, candidates: Sequence[Candidate], pods: PodLoad) -> None:
        self.suggestion, self.row, self.candidates, self.pods = suggestion, row, candidates, pods
        self.costs = np.array([each.cost - suggestion.worth for each in candidates])
        self.choices: dict[int, Choice] = {}  # by number of the candidate

    def begin(self, load: NodeLoad, targets: Index, possible: Bools) -> None:
        """possible: by pod and target, whether the pod may go there."""
        self._load, self._targets, self.possible = load, targets, possible
        self._sizes: Array = (self.pods.usage * load.per_unit[:, self.row, None, None]).max(axis=0).mean(axis=1)
        self._relief: Floats = load.gains_without(self.row, self.pods)
        self._fits: Bools = load.fits(self.row, targets, self.pods)
        self._losses: Floats = np.zeros(possible.shape)
        self._computed: Bools = np.zeros(possible.shape, dtype=np.bool_)

    def compute(self) -> Iterator[None]:
        """The losses of targets that are not known yet and may matter, those of some pods in each step."""
        worth_it = (self._relief > self.costs)[:, None]
        missing = worth_it & self.possible & self._fits & ~self._computed
        numbers, columns = np.flatnonzero(missing.any(axis=1)), np.flatnonzero(missing.any(axis=0))
        resources, _, snapshots = self.pods.usage.shape
        for part in parts_of(len(numbers), len(columns) * resources * snapshots):
            some = numbers[part]
            pods, pairs = PodLoad(self.pods.slots[some], self.pods.usage[:, some]), np.ix_(some, columns)
            self._losses[pairs], self._computed[pairs] = self._load.losses_with(self._targets[columns], pods), True
            yield

    def ban(self, column: int) -> None:
        """No pod goes from here to this target."""
        self.possible[:, column] = False

    @property
    def state(self) -> tuple[Bools, Floats, Bools, Floats, Bools]:
        """What moves change, as it is now."""
        return self.possible.copy(), self._relief, self._fits, self._losses.copy(), self._computed.copy()

    def restore(self, state: tuple[Bools, Floats, Bools, Floats, Bools]) -> None:
        possible, self._relief, self._fits, losses, computed = state
        self.possible, self._losses, self._computed, self.choices = possible.copy(), losses.copy(), computed.copy(), {}

    def update(self, changed: Sequence[int], columns: Index) -> None:
        """Pods have left or come: these rows have another load, and these columns are the targets among them."""
        self._computed[:, columns] = False
        if self.row in changed:
            self._relief = self._load.gains_without(self.row, self.pods)
            self._fits = self._load.fits(self.row, self._targets, self.pods)
        elif len(columns):
            self._fits = self._fits.copy()
            self._fits[:, columns] = self._load.fits(self.row, self._targets[columns], self.pods)

    def leave_alone(self, number: int) -> None:
        """The candidate stays where it is."""
        self.possible[number] = False

    def net_gains(self, number: int, rows: Index) -> tuple[Floats, Bools]:
        """Of one candidate on these rows, and whether it fits there."""
        pod = self.pod_load(number)
        gains = self._relief[number] - self._load.losses_with(rows, pod)[0] - self.costs[number]
        return gains, self._load.fits(self.row, rows, pod)[0]

    def pod_load(self, number: int) -> PodLoad:
        return PodLoad(self.pods.slots[[number]], self.pods.usage[:, [number]])

    def best(self, *, large: bool = False) -> tuple[float, int, int]:
        """Net gain, pod and column of the best possible pair of those that are computed, or of the largest pod among those
        that are nearly as good."""
        if not self.possible.size:
            return NEVER, 0, 0
        gains = self._relief[:, None] - self._losses
        net = np.where(self.possible & self._fits & self._computed, gains - self.costs[:, None], NEVER)
        for number, choice in self.choices.items():
            net[number] = np.minimum(net[number], choice.net)
        if large and net.max() > 0:
            near = np.where(net >= NEARLY * net.max(), net, NEVER)
            largest = np.where(near.max(axis=1) > NEVER, self._sizes, -1.0).argmax()
            net = np.where(np.arange(len(net))[:, None] == largest, near, NEVER)
        pod, column = divmod(int(net.argmax()), net.shape[1])
        return float(net[pod, column]), pod, column


class SearchSpace:
    """What moves are searched in: the load, the suggested nodes, and the rows of the targets."""

    def __init__(self, load: NodeLoad, sources: Sequence[SuggestedNode], targets: Index) -> None:
        self.load, self.sources, self.targets = load, sources, targets
        self._usage, self._penalty = load.usage.copy(), load.penalty.copy()
        self._states = [each.state for each in sources]
        self._same_owner: dict[Owner | str, list[tuple[SuggestedNode, int]]] = {}  # candidates by owner, or by UID
        for source in sources:
            for number, (pod, *_) in enumerate(source.candidates):
                self._same_owner.setdefault(pod.owner or pod.uid, []).append((source, number))

    @property
    def penalty(self) -> float:
        """Of all nodes."""
        return float(self.load.penalty.sum())

    def move(self, source: SuggestedNode, number: int, row: int) -> Iterable[Pair]:
        """A candidate goes to this row; the pair that it is, if the row is one of the targets. Of one owner only one pod
        moves at a time."""
        self.load.move(source.pod_load(number), source.row, row)
        changed, pod = (source.row, row), source.candidates[number].pod
        columns = np.flatnonzero(np.isin(self.targets, changed))
        for each in self.sources:
            each.update(changed, columns)
        for each, same in self._same_owner[pod.owner or pod.uid]:
            each.leave_alone(same)
        return ((self.sources.index(source), int(column)) for column in np.flatnonzero(self.targets == row))

    def restart(self, bans: Iterable[Pair] = ()) -> None:
        """As before the first move, and without these pairs."""
        self.load.usage[:], self.load.penalty[:] = self._usage, self._penalty
        for source, state in zip(self.sources, self._states, strict=True):
            source.restore(state)
        for number, column in bans:
            self.sources[number].ban(column)
