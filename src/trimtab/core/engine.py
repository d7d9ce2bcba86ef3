"""`Engine.handle(event) -> list[Output]`: takes events in at once, and lets its controllers decide.

The engine owns the cluster state, sync and leadership, and the writes under way. A turn decides only after every kind is
`Synced` and while this process holds the lease. It has no clock and no randomness: the same events give the same outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.controllers import Changed, Controller, EngineState, Output
from trimtab.core.framework.forbidden_kinds import only_some_pods_need
from trimtab.core.labelling.controller import Labelling
from trimtab.core.model.change import Change
from trimtab.core.model.events import (
    Event,
    GetPodDone,
    HistoryRead,
    KindForbidden,
    LeaseAcquired,
    LeaseLost,
    NodeDeleted,
    NodeUpserted,
    ObjectDeleted,
    ObjectUpserted,
    PodDeleted,
    PodUpserted,
    SamplesRead,
    SettingsRead,
    SourceFailed,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.node import Node
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.settings import Settings

MakeController = Callable[[EngineState], Controller]
CONTROLLERS: tuple[MakeController, ...] = (Scheduling, Labelling, Rescheduling)
MOST_TURNS_WAITED = 200  # by controllers that give way, so that a plan ends even if pods never cease to come
AController = TypeVar("AController", bound=Controller)
# What a controller's `on_change` may hear of.
CHANGE_EVENTS = (
    *(PodUpserted, PodDeleted, NodeUpserted, NodeDeleted, ObjectUpserted, ObjectDeleted),
    *(SamplesRead, HistoryRead, SourceFailed, SettingsRead, LeaseLost, Synced),
)


class Engine:
    """The core's entry point. A controller that is not configured (no profiles, no label rules) stays idle."""

    def __init__(
        self,
        settings: Settings,
        recorder: MetricsRecorder | None = None,
        controllers: Sequence[MakeController] = CONTROLLERS,
    ) -> None:
        state = EngineState(settings, recorder if recorder is not None else MetricsRecorder())
        state.unsynced = set(settings.kinds)
        state.cluster.load_store.apply_settings(settings.load)
        self._host(state, tuple(make(state) for make in controllers))

    def _host(self, state: EngineState, controllers: tuple[Controller, ...]) -> None:
        self.state, self.controllers, self._turns_waited = state, controllers, 0
        self._takers: dict[type, list[Controller]] = {}
        self._listeners: dict[type, list[Controller]] = {kind: [] for kind in CHANGE_EVENTS}
        for controller in controllers:
            for kind in controller.answers:
                self._takers.setdefault(kind, []).append(controller)
            for kind in controller.listens_to if controller.listens_to is not None else CHANGE_EVENTS:
                self._listeners[kind].append(controller)
        self._handlers: dict[type, Callable[[Any], list[Output]]] = {
            PodUpserted: self._pod_upserted,
            PodDeleted: self._pod_deleted,
            NodeUpserted: self._node_upserted,
            NodeDeleted: self._node_deleted,
            ObjectUpserted: self._object_upserted,
            ObjectDeleted: self._object_deleted,
            SamplesRead: self._samples_read,
            HistoryRead: self._history_read,
            SourceFailed: self._source_failed,
            SettingsRead: self._settings_read,
            Synced: self._synced,
            KindForbidden: self._kind_forbidden,
            LeaseAcquired: self._lease_acquired,
            LeaseLost: self._lease_lost,
            Tick: self._tick,
            Turn: self._turn,
        }
        for kind in get_args(Event):  # all others answer a write
            self._handlers.setdefault(kind, self._answered)

    def handle(self, event: Event) -> list[Output]:
        return self._handlers[type(event)](event)

    @property
    def cluster(self) -> Cluster:
        return self.state.cluster

    def controller(self, kind: type[AController]) -> AController:
        """The controller of this type; raises LookupError when the engine has none."""
        for controller in self.controllers:
            if isinstance(controller, kind):
                return controller
        raise LookupError(f"the engine has no {kind.__name__} controller")

    def has_work(self) -> bool:
        """Whether a turn would decide anything now."""
        return self.state.may_decide and any(controller.has_work() for controller in self.controllers)

    def fork(self) -> Engine:
        """A copy that decides as this one would: nothing done to it is seen here, and it records no metrics."""
        copied, state = object.__new__(Engine), self.state.fork()
        copied._host(state, tuple(controller.fork(state) for controller in self.controllers))
        return copied

    def _tell_controllers(self, changed: Changed) -> list[Output]:
        outputs: list[Output] = []
        for controller in self._listeners[type(changed.event)]:
            outputs += controller.on_change(changed)
        return outputs

    # --- pods

    def _pod_upserted(self, event: PodUpserted) -> list[Output]:
        cluster = self.state.cluster
        if not cluster.is_newer(event.pod):
            return []
        pod = cluster.with_nomination(event.pod)
        before = cluster.pods.get(pod.uid)
        return self._tell_controllers(Changed(event, cluster.upsert_pod(pod), before, pod))

    def _pod_deleted(self, event: PodDeleted) -> list[Output]:
        cluster = self.state.cluster
        before = cluster.pods.get(event.uid)
        if before is None and event.uid in cluster.tombstones:
            return []
        if before is not None and 0 < event.version < before.version:
            return []
        return self._tell_controllers(Changed(event, cluster.delete_pod(event.uid), before))

    # --- nodes and other objects

    def _node_upserted(self, event: NodeUpserted) -> list[Output]:
        before = self._node(event.node.name)
        return self._tell_controllers(Changed(event, self.state.cluster.upsert_node(event.node), before, event.node))

    def _node_deleted(self, event: NodeDeleted) -> list[Output]:
        before = self._node(event.name)
        change = self.state.cluster.delete_node(event.name, event.uid, event.version)
        return self._tell_controllers(Changed(event, change, before)) if change else []

    def _node(self, name: str) -> Node | None:
        columns = self.state.cluster.node_table
        row = columns.row.get(name)
        return columns.nodes[row] if row is not None else None

    def _object_upserted(self, event: ObjectUpserted) -> list[Output]:
        cluster, after = self.state.cluster, event.object
        before = cluster.objects.get(after.kind, after.key)
        return self._tell_controllers(Changed(event, cluster.upsert_object(after), before, after))

    def _object_deleted(self, event: ObjectDeleted) -> list[Output]:
        cluster = self.state.cluster
        before = cluster.objects.get(event.kind, event.key)
        return self._tell_controllers(
            Changed(event, cluster.delete_object(event.kind, event.key, event.uid, event.version), before)
        )

    # --- load

    def _samples_read(self, event: SamplesRead) -> list[Output]:
        for reason, count in self.state.cluster.ingest_samples(event.readings, event.at).items():
            self.state.recorder.samples_rejected(reason, count)
        return self._tell_controllers(Changed(event, Change.LOAD))

    def _history_read(self, event: HistoryRead) -> list[Output]:
        for reason, count in self.state.cluster.ingest_history(event.readings, event.at).items():
            self.state.recorder.samples_rejected(reason, count)
        return self._tell_controllers(Changed(event, Change.LOAD))

    def _source_failed(self, event: SourceFailed) -> list[Output]:
        """The last samples of a source that does not answer are worth more than none: they age as usual."""
        if event.discard_samples:
            self.state.cluster.discard_source(event.source, event.at)
        self.state.recorder.source_failed(event.source)
        return self._tell_controllers(Changed(event, Change.LOAD if event.discard_samples else Change.NOTHING))

    # --- settings, sync and leadership

    def _settings_read(self, event: SettingsRead) -> list[Output]:
        state, settings = self.state, event.settings
        added = set(settings.kinds) - set(state.settings.kinds) - state.listed - set(state.forbidden)
        stopping = {kind for kind in state.forbidden if not only_some_pods_need(kind, settings.profiles)}
        state.settings, state.unsynced = settings, (state.unsynced | added | stopping) & set(settings.kinds)
        state.cluster.load_store.apply_settings(settings.load)
        return self._tell_controllers(Changed(event))

    def _synced(self, event: Synced) -> list[Output]:
        self.state.unsynced.discard(event.kind)
        self.state.listed.add(event.kind)
        was_forbidden = self.state.forbidden.pop(event.kind, None) is not None
        return self._tell_controllers(Changed(event)) if was_forbidden else []

    def _kind_forbidden(self, event: KindForbidden) -> list[Output]:
        """Pods that need the kind wait for it; where any pod may need it, nothing is decided."""
        self.state.forbidden[event.kind] = event.problem
        self.state.listed.discard(event.kind)
        if only_some_pods_need(event.kind, self.state.settings.profiles):
            self.state.unsynced.discard(event.kind)
        elif event.kind in self.state.settings.kinds:
            self.state.unsynced.add(event.kind)
        return []

    def _lease_acquired(self, event: LeaseAcquired) -> list[Output]:
        self.state.term = event.term
        return []

    def _lease_lost(self, event: LeaseLost) -> list[Output]:
        self.state.term = None
        return self._tell_controllers(Changed(event, self.state.cluster.drop_nominations()))

    # --- answers to writes, time and turns

    def _answered(self, event: Event) -> list[Output]:
        """A pod that was read back is news of it, before a controller takes the answer; one that none takes is dropped."""
        outputs = self._pod_read(event) if isinstance(event, GetPodDone) else []
        for controller in self._takers.get(type(event), ()):
            for output in controller.on_answer(event):
                outputs += self._pod_deleted(output) if isinstance(output, PodDeleted) else [output]
        return outputs

    def _pod_read(self, event: GetPodDone) -> list[Output]:
        if event.pod is not None:
            return self._pod_upserted(PodUpserted(event.pod, event.at))
        return self._pod_deleted(PodDeleted(event.uid, event.at)) if event.uid in self.state.cluster.pods else []

    def _tick(self, event: Tick) -> list[Output]:
        self.state.cluster.age_load(event.at)
        return [output for controller in self.controllers for output in controller.tick(event.at)]

    def _turn(self, event: Turn) -> list[Output]:
        self.state.cluster.age_load(event.at)
        if not self.state.may_decide:
            return []
        outputs: list[Output] = []
        for controller in self.controllers:
            if not controller.gives_way:
                outputs += controller.turn(event.decisions, event.at)
            elif not outputs or self._turns_waited >= MOST_TURNS_WAITED:
                outputs += controller.turn(1, event.at)
                self._turns_waited = 0
            else:
                self._turns_waited += 1
        return outputs
