"""The /explain endpoints: pods with a node, pods without, and nodes."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from msgspec.structs import replace

from tests.serve.small_cluster import SmallCluster
from trimtab.core.model.events import LeaseAcquired, LeaseLost, PodUpserted, SamplesRead, Tick
from trimtab.core.model.readings import Reading
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import STANDBY, explain_pod
from trimtab.serve.explain import ExplainEndpoints
from trimtab.serve.gauges import Gauges
from trimtab.serve.health import Health
from trimtab.serve.http import MetricsEndpoint, create_app
from trimtab.serve.listener import listen, serve
from trimtab.serve.metrics import PrometheusRecorder
from trimtab.serve.options import Address

ANY = Address("127.0.0.1", 0, "--serve")


@pytest.fixture
async def base() -> AsyncIterator[str]:
    """A process with one bound pod, one that is too big, and samples of node one alone."""
    cluster = SmallCluster(MetricsRecorder())
    cluster.pod("small")
    cluster.pod("big", cpu=100_000)
    cluster.engine.handle(SamplesRead((Reading("test", "cpu", ("one",), (3000.0,), (cluster.at,)),), cluster.at))
    for bind in cluster.decide():
        cluster.accept(bind)
    app = create_app(
        Health(), MetricsEndpoint(PrometheusRecorder(), Gauges(cluster.engine)), ExplainEndpoints(cluster.engine)
    )
    async with serve(app, listen(ANY)) as port:
        yield f"http://127.0.0.1:{port}"


async def ask(url: str) -> tuple[int, dict]:
    """One GET and its answer."""
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.json()


async def test_pod_with_a_node(base: str) -> None:
    """A bound pod's table has both nodes with scores by plugin, without the pod's own requests."""
    status, told = await ask(f"{base}/explain/pod/default/small")
    assert 200 == status
    assert "is being bound to" in told["state"]
    assert {"one", "two"} == {line["node"] for line in told["lines"]}
    assert [True, True] == ["NodeResourcesFit" in line["scores"] for line in told["lines"]]
    assert told["lines"][0]["scores"] == told["lines"][1]["scores"]
    assert [f"is being bound to {each['node']} (accepted)" for each in told["past"]] == [told["state"]]


async def test_when_it_was_decided() -> None:
    """For pods and nodes: the engine clock is converted by the current offset."""
    cluster = SmallCluster(MetricsRecorder())
    cluster.pod("small")
    (bind,) = cluster.decide()
    explaining = ExplainEndpoints(cluster.engine, lambda at: at + 3600.0)
    app = create_app(Health(), MetricsEndpoint(PrometheusRecorder(), Gauges(cluster.engine)), explaining)
    async with serve(app, listen(ANY)) as port:
        for page in ("pod/default/small", f"node/{bind.node}"):
            _, told = await ask(f"http://127.0.0.1:{port}/explain/{page}")
            assert [cluster.at + 3600.0] == [each["at"] for each in told["past"]]
        waiting = (await ask(f"http://127.0.0.1:{port}/explain/pod/default/small"))[1]["waiting"]
        assert (cluster.at + 3600.0, None, 1) == (waiting["since"], waiting["until"], waiting["attempts"])
        assert [(cluster.at + 3600.0, "active")] == [(step["at"], step["queue"]) for step in waiting["steps"]]


def test_pod_that_is_bound() -> None:
    """Its node does not rule out the others: both have scores, as if it were scheduled now."""
    cluster = SmallCluster(MetricsRecorder())
    cluster.pod("small")
    (bind,) = cluster.decide()
    cluster.accept(bind)
    waited = cluster.engine.cluster.pods["small"]
    cluster.engine.handle(PodUpserted(replace(waited, node=bind.node, version=2), cluster.at))
    bound = cluster.engine.cluster.pods["small"]
    told = explain_pod(cluster.engine.controller(Scheduling), bound)
    assert f"is bound to {bind.node}" == told.state
    assert ["", ""] == [line.rejected_by for line in told.lines]


async def test_pod_without_a_node(base: str) -> None:
    """A pending pod's table has kube-scheduler's reasons for each node."""
    _, told = await ask(f"{base}/explain/pod/default/big")
    assert "0/2 nodes are available: 2 Insufficient cpu." == told["verdict"]
    assert {("NodeResourcesFit", "Insufficient cpu")} == {
        (line["refused_by"], *line["reasons"]) for line in told["lines"]
    }


async def test_node(base: str) -> None:
    """A node's usage, None without samples, and how it ranks for the pending pod."""
    _, one = await ask(f"{base}/explain/node/one")
    _, two = await ask(f"{base}/explain/node/two")
    assert [3000.0, None] == [use["latest"] for use in one["uses"]]
    assert [None, None] == [use["latest"] for use in two["uses"]]
    assert [("default/big", "NodeResourcesFit")] == [(h["pod"], h["line"]["refused_by"]) for h in one["waiting"]]


async def test_a_standby_says_so() -> None:
    """A standby explains, too, and says that it is one."""
    cluster = SmallCluster(MetricsRecorder())
    cluster.pod("small")
    app = create_app(
        Health(), MetricsEndpoint(PrometheusRecorder(), Gauges(cluster.engine)), ExplainEndpoints(cluster.engine)
    )
    async with serve(app, listen(ANY)) as port:
        for page in ("pod/default/small", "node/one"):
            message = []
            for event in (LeaseLost(cluster.at), LeaseAcquired(2, cluster.at)):
                cluster.engine.handle(event)
                message.append((await ask(f"http://127.0.0.1:{port}/explain/{page}"))[1]["standby"])
            assert [STANDBY, ""] == message


@pytest.mark.parametrize("path", ["/explain/pod/default/nobody", "/explain/node/nowhere"])
async def test_unknown(base: str, path: str) -> None:
    """An unknown object is a 404 with a message."""
    status, told = await ask(f"{base}{path}")
    assert 404 == status
    assert "not found" in told["problem"]


async def test_rescheduling_of_a_node() -> None:
    """With a rescheduler the answer says why pods leave the node or stay; times of plans are those of the wall."""
    cluster = SmallCluster(MetricsRecorder(), rescheduling=ReschedulingSettings())
    cluster.engine.handle(Tick(cluster.at))
    explaining = ExplainEndpoints(cluster.engine, lambda at: at + 3600.0)
    app = create_app(Health(), MetricsEndpoint(PrometheusRecorder(), Gauges(cluster.engine)), explaining)
    async with serve(app, listen(ANY)) as port:
        told = (await ask(f"http://127.0.0.1:{port}/explain/node/one"))[1]["rescheduling"]
    assert told["verdict"].startswith("no pod is moved at all: missing metrics: ")
    assert [cluster.at + 3600.0] == [each["at"] for each in told["plans"]]
