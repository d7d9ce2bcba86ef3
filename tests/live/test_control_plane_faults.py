"""Faults of the control plane in the middle of a batch, on a real one: all pods are bound afterwards, none twice.

One row is one fault: how it begins and ends, how long it lasts, and in which time all is well again. All rows share a control
plane and a Trimtab with the default lease, by way of a fault proxy; like a kubelet, the test starts it anew when it ends. The
verdict is the audit log's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from tests.live import trimtab_process
from tests.live.audit_checker import AuditedRequest
from tests.live.fault_proxy import Fault, FaultProxy
from tests.live.trimtab_process import SCHEDULER, bound, page
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
PODS = 30
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/trimtab-scheduler"
FIVE_A_SECOND = {"qps": 5, "burst": 1}  # so that a batch lasts for some seconds
BINDING = "POST .*/binding"
ERRORS = (429, 500, 503, 504)
ATTEMPTS = 6  # to bind a pod within ten seconds, with back-offs of 1, 2, 4 and 8 s; one more for each ten seconds


@dataclass
class Stage:
    """The control plane, the proxy before it, and the process, which is started anew when it ends."""

    rig: Rig
    proxy: FaultProxy
    starts: int = 0
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        self._config = trimtab_process.write_config(self.rig, clientConnection=FIVE_A_SECOND)
        self._kubeconfig = self.proxy.kubeconfig(self.rig.service_account_kubeconfig("trimtab", "trimtab"))
        self._start()

    def _start(self) -> None:
        self.starts += 1
        self.process = trimtab_process.launch_as(self.rig, self._kubeconfig, self._config, "trimtab")

    def probe(self, path: str) -> int:
        """The status of a page; 0 without an answer, as of a process that has ended and is started anew."""
        if not self.process.running():
            self._start()
        try:
            return page(self.process, path)[0]
        except OSError:
            return 0

    def log_without_decisions(self) -> str:
        """What it logged, over all starts."""
        lines = self.process.log.read_text().splitlines()
        return "\n".join(line for line in lines if "trimtab.decisions" not in line)

    def wait_for(self, met: Callable[[], object], seconds: float, what: str) -> None:
        """Wait for it while the process is ready, too."""
        trimtab_process.wait_for(lambda: self.probe("/readyz") == 200 and met(), seconds, what, self.process)


Act = Callable[[Stage], object]


@dataclass(frozen=True)
class Row:
    """A fault with its number in the fault matrix.

    within: seconds after its end in which all pods are bound and the process is ready
    cuts_off: /readyz must fail meanwhile
    ends: how often the process may end: with a lost lease, once
    proof: how many requests it has hit, where that is not proved by /readyz
    """

    name: str
    begin: Act
    end: Act
    seconds: float
    within: float = 60.0
    cuts_off: bool = False
    ends: int = 0
    proof: Callable[[Stage], int] | None = None


def injected(name: str, *faults: Fault, seconds: float) -> Row:
    """A fault of the proxy; it is proved by its hits."""
    first = faults[0].name
    return Row(
        name,
        lambda stage: stage.proxy.inject(*faults),
        lambda stage: stage.proxy.mend(),
        seconds,
        proof=lambda stage: stage.proxy.hits[first],
    )


def outage(name: str, begin: Act, end: Act, seconds: float) -> Row:
    """Nothing is answered, which must show; beyond the renew deadline of 10 s the process ends."""
    return Row(name, begin, end, seconds, cuts_off=True, ends=1)


def change_binding_right(stage: Stage, granted: bool) -> None:
    """Take the right to bind away from our account, or give it back."""
    role = stage.rig.admin.get(ROLE)
    rules = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    binding = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    stage.rig.admin.call("PUT", ROLE, {**role, "rules": [*rules, *([binding] if granted else [])]})


def binds(rig: Rig, since: datetime | None = None) -> list[AuditedRequest]:
    """Our requests to bind a pod, since then."""
    requests = map(AuditedRequest, rig.audit_events())
    own = (each for each in requests if each.user == trimtab_process.ACCOUNT and each.grant[2] == "pods/binding")
    return [each for each in own if since is None or each.arrived >= since]


def answered(code: int) -> Callable[[Stage], int]:
    return lambda stage: sum(each.code == code for each in binds(stage.rig))


def killed_apiserver(seconds: float) -> Row:
    return outage(
        f"A1-{seconds:.0f}s",
        lambda stage: stage.rig.kill_apiserver(),
        lambda stage: stage.rig.start_apiserver(),
        seconds,
    )


def paused_apiserver(seconds: float) -> Row:
    return outage(
        f"A2-{seconds:.0f}s",
        lambda stage: stage.rig.apiserver.pause(),
        lambda stage: stage.rig.apiserver.resume(),
        seconds,
    )


def paused_etcd(seconds: float) -> Row:
    return outage(
        f"A3-{seconds:.0f}s", lambda stage: stage.rig.etcd.pause(), lambda stage: stage.rig.etcd.resume(), seconds
    )


ROWS = (
    killed_apiserver(30.0),
    paused_apiserver(30.0),
    paused_etcd(8.0),
    outage("A4", lambda stage: stage.rig.kill_etcd(), lambda stage: stage.rig.restart_etcd(), 8.0),
    Row(
        "A5",
        lambda stage: stage.rig.fill_etcd(True),
        lambda stage: stage.rig.fill_etcd(False),
        8.0,
        cuts_off=True,
        ends=1,
        proof=answered(409),  # what the API server makes of it for a bind; the lease gets a 500
    ),
    injected("A9", Fault("slow", delay=2.0, bytes_per_second=64e3), seconds=15.0),
    injected("A11", Fault("errors", statuses=ERRORS, share=0.3), seconds=15.0),
    injected(
        "A13",
        Fault("lost binds", BINDING, lose=True, times=10),
        Fault("lost renewals", "PUT .*/leases/", lose=True, times=2),
        seconds=6.0,
    ),
    injected("A14", Fault("twice", BINDING, twice=True, times=10), seconds=4.0),
    Row(
        "A19",
        lambda stage: change_binding_right(stage, False),
        lambda stage: change_binding_right(stage, True),
        8.0,
        proof=answered(403),
    ),
)
LONG_ROWS = (killed_apiserver(300.0), paused_apiserver(300.0), paused_etcd(60.0))


@pytest.fixture(scope="module")
def stage(rig: Rig) -> Iterator[Stage]:
    """A Trimtab that is ready, on twenty nodes."""
    trimtab_process.install(rig)
    rig.admin.create_many(node(f"node-{number}", cpu="32", memory="64Gi") for number in range(20))
    with FaultProxy(rig) as proxy:
        stage = Stage(rig, proxy)
        stage.wait_for(lambda: True, 60, "ready")
        yield stage
        assert 0 == stage.process.terminate()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_fault_in_the_middle_of_a_batch(stage: Stage, row: Row) -> None:
    """Afterwards all pods are bound, each once, the process is ready, and it has not ended unless it lost its lease."""
    check(stage, row)


@pytest.mark.soak
@pytest.mark.parametrize("row", LONG_ROWS, ids=lambda row: row.name)
def test_a_long_fault(stage: Stage, row: Row) -> None:
    """The same for minutes: a process that starts in the middle waits instead of ending over and over."""
    check(stage, row)


def check(stage: Stage, row: Row) -> None:
    rig, namespace = stage.rig, row.name.lower()
    rig.ensure_namespace(namespace)
    stage.wait_for(lambda: True, 60, "ready")
    starts, hits, began = stage.starts, row.proof(stage) if row.proof else -1, datetime.now(UTC)
    rig.admin.create_many(pod(f"pod-{number}", namespace, cpu="10m", scheduler=SCHEDULER) for number in range(PODS))
    trimtab_process.wait_for(lambda: bound(rig, namespace), 40, "the batch has begun", stage.process)
    seen, over = disturb(stage, row), time.monotonic()
    stage.wait_for(lambda: len(bound(rig, namespace)) == PODS, row.within, "all are bound")
    print(
        f"{row.name}: well again after {time.monotonic() - over:.1f} s; starts: {stage.starts - starts}; {dict(seen)}"
    )
    assert (row.proof(stage) if row.proof else 0) > hits, "the fault hit nothing"
    assert 0 == seen["/livez", 500]
    assert not row.cuts_off or seen["/readyz", 500]
    assert stage.starts - starts <= row.ends, stage.log_without_decisions()
    verify_audit_log(stage, row, began)


def disturb(stage: Stage, row: Row) -> Counter[tuple[str, int]]:
    """Let the fault last; how often each health page had which status meanwhile."""
    seen, until = Counter[tuple[str, int]](), time.monotonic() + row.seconds
    row.begin(stage)
    try:
        while time.monotonic() < until:
            seen.update((path, stage.probe(path)) for path in ("/livez", "/readyz"))
            time.sleep(0.2)
    finally:
        row.end(stage)
    return seen


def verify_audit_log(stage: Stage, row: Row, began: datetime) -> None:
    """No pod was bound twice and no node is over; no pod was tried more often than its back-off allows."""
    verdict = trimtab_process.check_audit_log(stage.rig)
    # An API server that has just started answers 403 until its own cache of roles is filled.
    assert [] == [each for each in verdict.violations if not each.startswith("refused with 403")]
    tries = Counter(each.event["objectRef"]["name"] for each in binds(stage.rig, began))
    assert max(tries.values()) <= ATTEMPTS + row.seconds / 10
