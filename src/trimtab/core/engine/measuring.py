"""What the engine does with news of measured load: takes them in and stirs whoever waits for them; judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trimtab.core.model.change import Change
from trimtab.core.model.event import HistoryRead, SamplesRead, SourceFailed
from trimtab.core.model.instruction import Instruction

if TYPE_CHECKING:
    from trimtab.core.engine.engine import Engine


def samples_read(engine: Engine, event: SamplesRead) -> list[Instruction]:
    for reason, count in engine.placing.cluster.read_load(event.readings, event.at).items():
        engine.tally.samples_refused(reason, count)
    return engine.changed(Change.LOAD, event.at)


def history_read(engine: Engine, event: HistoryRead) -> list[Instruction]:
    for reason, count in engine.placing.cluster.recall_load(event.readings, event.at).items():
        engine.tally.samples_refused(reason, count)
    return engine.changed(Change.LOAD, event.at)


def source_failed(engine: Engine, event: SourceFailed) -> list[Instruction]:
    engine.placing.cluster.lose_source(event.source, event.at)
    engine.tally.source_failed(event.source)
    return engine.changed(Change.LOAD, event.at)


DOORS: Mapping[type, Callable[[Engine, Any], list[Instruction]]] = {
    SamplesRead: samples_read,
    HistoryRead: history_read,
    SourceFailed: source_failed,
}
