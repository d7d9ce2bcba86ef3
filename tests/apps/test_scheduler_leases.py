"""The leases of other schedulers, on a fake API server and by our own clock: who is at work, and who is not."""

from __future__ import annotations

from typing import Any

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.scheduler_leases import INTERVAL, NOT_HELD, NOT_READ, NOT_RENEWED, NOT_YET, SchedulerLeases
from trimtab.core.model.events import Event, SchedulerChecked
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request

LEASE, NAME, DURATION = "kube-system/kube-scheduler", "default-scheduler", 15.0


class Stage:
    """One lease; its holder renews it at `renew`, and `clock` is ours."""

    def __init__(self) -> None:
        self.clock, self.renewals, self.holder = 100.0, 1, "node-1"
        self.answer: FakeResponse | Exception | None = None  # instead of the lease
        self.told: list[str] = []
        transport = FakeTransport(self._answer)
        self.leases = SchedulerLeases(transport, lambda: {NAME: LEASE}, self._sink, lambda: 0.0, lambda: self.clock)

    def _answer(self, request: Request) -> FakeResponse:
        assert request.path.endswith("/namespaces/kube-system/leases/kube-scheduler")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if self.answer is not None else json_response(self._object())

    def _object(self) -> dict[str, Any]:
        metadata = {"name": "kube-scheduler", "namespace": "kube-system", "resourceVersion": str(self.renewals)}
        # Of a clock that is years behind.
        spec = {"renewTime": f"1999-01-01T00:00:{self.renewals:02}.000000Z", "leaseDurationSeconds": int(DURATION)}
        return {"kind": "Lease", "metadata": metadata, "spec": {**spec, "holderIdentity": self.holder}}

    def _sink(self, event: Event) -> None:
        assert isinstance(event, SchedulerChecked) and event.scheduler == NAME
        self.told.append(event.problem.removeprefix(f"lease {LEASE} of scheduler {NAME} "))

    async def check(self, after: float = INTERVAL, *, renewed: bool = False) -> str:
        """What was told last."""
        self.clock += after
        self.renewals += renewed
        await self.leases.check(LEASE)
        return self.told[-1]


async def test_a_lease_that_is_renewed() -> None:
    """Only a renewal that was seen counts; then nothing is refused until there was none for the lease's duration."""
    stage = Stage()
    assert NOT_YET == await stage.check()
    assert stage.leases.not_known_yet
    assert NOT_YET == await stage.check()
    assert "" == await stage.check(renewed=True)
    assert "" == await stage.check(DURATION) and not stage.leases.not_known_yet
    assert NOT_RENEWED == await stage.check(INTERVAL + 1)
    assert "" == await stage.check(renewed=True)
    assert [NOT_YET, "", NOT_RENEWED, ""] == stage.told


async def test_a_lease_that_was_never_renewed() -> None:
    """As one left behind: at first nobody knows, and then it is old."""
    stage = Stage()
    assert NOT_YET == await stage.check()
    assert NOT_RENEWED == await stage.check(DURATION + INTERVAL + 1)


async def test_a_lease_that_was_released() -> None:
    """Its scheduler has stopped; another one that takes it is at work."""
    stage = Stage()
    await stage.check()
    await stage.check(renewed=True)
    stage.holder = ""
    assert NOT_HELD == await stage.check(renewed=True)
    stage.answer = Unreachable("no answer", sent=False)
    assert NOT_HELD == await stage.check()
    stage.answer, stage.holder = None, "node-2"
    assert "" == await stage.check(renewed=True)


async def test_no_answer() -> None:
    """The last renewal counts for as long as the lease lasts; before the first answer nothing is known."""
    stage = Stage()
    stage.answer = Unreachable("no answer", sent=False)
    assert NOT_READ == await stage.check()
    stage.answer = json_response({"kind": "Status", "message": "etcdserver: leader changed"}, 500)
    assert NOT_READ == await stage.check()
    stage.answer = None
    await stage.check()
    assert "" == await stage.check(renewed=True)
    stage.answer = Unreachable("no answer", sent=False)
    assert "" == await stage.check(DURATION)
    assert NOT_RENEWED == await stage.check(INTERVAL + 1)


async def test_a_lease_that_cannot_be_read() -> None:
    """There is none, or the role does not allow it: nothing is refused for that."""
    stage = Stage()
    for status, reason in ((404, "NotFound"), (403, "Forbidden")):
        stage.answer = json_response({"kind": "Status", "reason": reason, "message": reason}, status)
        assert "" == await stage.check()
    stage.answer = None
    assert NOT_YET == await stage.check()
