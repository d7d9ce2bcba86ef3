"""The kubelets of the simulated cluster: they start and stop the containers of the pods that are bound to their nodes.

    bound ──start delay──▶ runs ──ready delay──▶ ready ──lifetime──▶ Succeeded
                            │ ▲
              out of memory ▼ │ after a back-off that doubles
                           stopped

Ready delay and lifetime count from each start. A kubelet that has failed (`World.silent_nodes`) starts nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from trimtab.core.model.pod import Pod
from trimtab.sim.randomness import key_of, uniform
from trimtab.sim.usage import StepUsage
from trimtab.sim.world import World

FIRST_BACKOFF, LONGEST_BACKOFF = 10.0, 300.0  # before a container is started again
BACKOFF_RESET = 600.0  # a container that ran for so long begins with the first back-off again
ORPHAN_SECONDS = 40.0  # until a pod that was bound to a node that does not exist is removed


class Kubelets:
    """All of them; they hear of binds as of any other change."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.pod_listeners.append(self._pod_changed)
        world.step_listeners.append(self._step)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None or not after.node or (before is not None and before.node):
            return
        world, uid = self.world, after.uid
        if after.node in world.nodes:
            delay = uniform(*world.templates[uid].start_delay, world.seed, "start", after.key)
            delay = 0.0 if before is None else delay  # it ran already
            world.clock.call_later(delay, lambda: self.start(uid))
        else:  # it was deleted while the bind was under way
            world.clock.call_later(ORPHAN_SECONDS, lambda: world.remove_pod(uid, "node removed"))

    def start(self, uid: str) -> None:
        """Run the pod's containers, unless it is terminating or its kubelet does not work."""
        world = self.world
        pod = world.pods.get(uid)
        if pod is None or pod.terminating or pod.finished or world.usage.runs(uid) or not world.works(pod.node):
            return
        template, now = world.templates[uid], world.clock.now
        world.usage.start(pod, template, now, key_of(world.seed, "usage", pod.key))
        if pod.phase != "Running":
            world.put_pod(replace(pod, phase="Running", started=now, ready=template.ready_delay <= 0))
        if not world.pods[uid].ready:
            self._in_this_run(uid, template.ready_delay, self._become_ready)
        if template.lifetime is not None:
            self._in_this_run(uid, template.lifetime, self._finish)

    def stop(self, uid: str) -> None:
        """The containers use nothing from now on, and the pod is not ready."""
        self.world.usage.stop(uid)
        pod = self.world.pods[uid]
        if pod.ready:
            self.world.put_pod(replace(pod, ready=False))

    def _in_this_run(self, uid: str, seconds: float, action: Callable[[Pod], None]) -> None:
        """Unless the containers have been stopped or started again by then, or the pod terminates."""
        usage, started = self.world.usage, self.world.clock.now

        def act() -> None:
            pod = self.world.pods.get(uid)
            if pod is not None and not pod.terminating and usage.started(uid) == started:
                action(pod)

        self.world.clock.call_later(seconds, act)

    def _become_ready(self, pod: Pod) -> None:
        self.world.put_pod(replace(pod, ready=True))

    def _finish(self, pod: Pod) -> None:
        self.world.usage.stop(pod.uid)
        self.world.put_pod(replace(pod, phase="Succeeded", ready=False))

    def _step(self, usage: StepUsage) -> None:
        for uid in usage.out_of_memory:
            self._kill(uid)

    def _kill(self, uid: str) -> None:
        life, started = self.world.lives[uid], self.world.usage.started(uid)
        ran = self.world.clock.now - started if started is not None else 0.0
        life.backoff = (
            FIRST_BACKOFF if ran >= BACKOFF_RESET else min(max(2 * life.backoff, FIRST_BACKOFF), LONGEST_BACKOFF)
        )
        life.oom_kills += 1
        self.stop(uid)
        self.world.clock.call_later(life.backoff, lambda: self.start(uid))
