"""The labelling controller: labels and softly taints nodes under pressure, by the rules in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from trimtab.core.controllers import Changed, Controller, EngineState, Output
from trimtab.core.labelling.node_labeller import NodeLabeller
from trimtab.core.model.events import Event, LabelDone, LabelFailed, SettingsRead
from trimtab.core.model.instructions import LabelNode


class Labelling(Controller):
    """Compares nodes with the rules at every tick; idle without rules. A standby only follows the nodes' pressure."""

    listens_to: ClassVar[frozenset[type] | None] = frozenset({SettingsRead})
    answers: ClassVar[frozenset[type]] = frozenset({LabelDone, LabelFailed})

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.labeller: NodeLabeller | None = None
        self._apply_settings(0.0)

    def fork(self, state: EngineState) -> Labelling:
        copied = object.__new__(Labelling)
        copied.state = state
        copied.labeller = self.labeller.copy(state.writes) if self.labeller is not None else None
        return copied

    def _apply_settings(self, now: float) -> None:
        rules = self.state.settings.labels
        if rules is None or not rules.rules:
            self.labeller = None
            self.state.writes.end_all(LabelNode)
        elif self.labeller is None:
            self.labeller = NodeLabeller(rules, self.state.writes)
        else:
            self.labeller = self.labeller.apply_settings(rules, now)

    def on_change(self, changed: Changed) -> Sequence[Output]:
        self._apply_settings(changed.event.at)
        return ()

    def on_answer(self, answer: Event) -> Sequence[Output]:
        if isinstance(answer, LabelDone):
            self.state.recorder.node_patched("done")
            if self.labeller is not None:
                self.labeller.patches.done(answer)
        elif isinstance(answer, LabelFailed):
            self.state.recorder.node_patched("forbidden" if answer.forbidden else "failed")
            if self.labeller is not None:
                self.labeller.patches.failed(answer)
        return ()

    def tick(self, now: float) -> Sequence[Output]:
        if self.labeller is None:
            return ()
        return self.labeller.tick(self.state.cluster, self.state.may_decide, self.state.recorder, now)
