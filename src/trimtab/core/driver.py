"""`Driver`: feeds an engine with events and hands out its outputs; the live runtime, the simulator and benchmarks share it.

Decisions go to `on_decision` before the instructions that follow from them are performed, so a listener sees the
engine's state as it was decided upon. `record` gets every event with the outputs that it led to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.model.events import Event, Turn
from trimtab.core.model.instructions import Instruction
from trimtab.core.model.plan import Plan
from trimtab.core.model.schedule_result import Decision

Record = Callable[[Event, Sequence[Output]], None]


class Driver:
    """Whoever drives an engine owns one of these, and decides when events, ticks and turns come."""

    def __init__(
        self,
        engine: Engine,
        perform: Callable[[Instruction], None],
        on_decision: Callable[[Decision], None] | None = None,
        record: Record | None = None,
        on_plan: Callable[[Plan], None] | None = None,
    ) -> None:
        self.engine = engine
        self._perform, self._on_decision, self._record, self._on_plan = perform, on_decision, record, on_plan

    def put(self, event: Event) -> None:
        """Take one event in, and pass on what the engine answers."""
        outputs = self._handle(event)
        for output in outputs:
            if isinstance(output, Plan):
                if self._on_plan is not None:
                    self._on_plan(output)
            elif not isinstance(output, Decision):
                self._perform(output)
            elif self._on_decision is not None:
                self._on_decision(output)

    def _handle(self, event: Event) -> list[Output]:
        outputs: list[Output] = []
        try:
            outputs = self.engine.handle(event)
        finally:  # an event that the engine raises for is the one that must be in the recording
            if self._record is not None:
                self._record(event, outputs)
        return outputs

    def decide(self, now: float, budget: int = 1) -> None:
        """Give turns of so many decisions until there is no work left."""
        while self.engine.has_work():
            self.put(Turn(budget, now))
