"""Numbers for the label sets of pods: pods with equal namespace and labels share one; what selects them is left to others.

The numbers only grow, so forks share one table. It is made anew when most of it belongs to pods that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.core.model.pod import Pod

Labels = Mapping[str, str]
Pair = tuple[str, str]


class LabelSets:
    """Classes by number, and by each pair of labels that they hold."""

    __slots__ = ("_ids", "sets", "with_pair")

    def __init__(self) -> None:
        self.sets: list[tuple[str, Labels]] = []
        self.with_pair: dict[Pair, list[int]] = {}
        self._ids: dict[tuple[str, frozenset[Pair]], int] = {}

    def __len__(self) -> int:
        return len(self.sets)

    def id_of(self, pod: Pod) -> int:
        key = (pod.namespace, frozenset(pod.labels.items()))
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self.sets)
            self.sets.append((pod.namespace, pod.labels))
            for pair in pod.labels.items():
                self.with_pair.setdefault(pair, []).append(number)
        return number
