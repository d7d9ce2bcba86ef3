"""The doctor counts running pods without a sample by reason, and names a few of them."""

from __future__ import annotations

from tests.apps.fake_apiserver import FakeApiServer, configured
from tests.apps.test_doctor import BY_LOAD
from tests.config.config_files import TRIMTAB_HEAD
from tests.kube.fake_transport import json_response
from tests.kube.fault_server import serving
from tests.sources.fake_prometheus import NOW, respond_with, series, vector
from trimtab.apps.doctor.finding import Area, Finding, Severity
from trimtab.config.kube_scheduler import default_configuration
from trimtab.core.model.pod import Pod

LONG_AGO = NOW - 86_400
MIB = 1 << 20


def pod(name: str, node: str = "a", started: float | None = LONG_AGO) -> Pod:
    return Pod(name, "shop", name, node=node, started=started, phase="Running")


def sample(name: str, value: float = 64 * MIB, at: float = NOW - 5, namespace: str = "shop") -> list[object]:
    return list(series({"namespace": namespace, "pod": name}, str(value), at))


async def examined(pods: list[Pod], *found: list[object], **server: object) -> list[Finding]:
    """The findings if Prometheus has these series of pod memory, and every node uses a gibibyte."""
    nodes = [series({"node": name}, str(1 << 30)) for name in "abc"]

    def answer(query: str) -> bytes:
        return vector(*found) if "pod" in query else vector(*nodes)

    async with serving(respond_with(answer)) as prometheus:
        url = f"http://127.0.0.1:{prometheus.port}"
        source = f"{{name: prom, prometheus: {{url: '{url}', metrics: [nodeMemory, podMemory]}}}}"
        configuration = configured(BY_LOAD, f"{TRIMTAB_HEAD}sources: [{source}]\n")
        findings = await FakeApiServer(pods=pods, **server).run_doctor(configuration)  # type: ignore[arg-type]
    return [each for each in findings if each.area is Area.PODS]


async def test_every_pod_is_known() -> None:
    """One finding, however many."""
    (found,) = await examined([pod("x"), pod("y", "b")], sample("x"), sample("y"))
    assert (Severity.OK, "memory", "known for all 2 running pods") == (found.severity, found.subject, found.message)


async def test_a_node_whose_clock_is_ahead_makes_nobody_young() -> None:
    """Its pods start in the future: their samples count, and a pod without one is not taken for a starting one."""
    pods = [pod("x", "a", NOW + 3600), pod("y", "a", NOW + 3600)]
    (found,) = await examined(pods, sample("x"))
    assert "no series for 1 of 2 running pods: shop/y (on a)" == found.message


async def test_each_reason_has_a_line_of_its_own() -> None:
    """No series, none of the node, too old, more than the node uses, another namespace, an earlier pod, starting."""
    pods = [
        pod("well"),
        pod("lost"),
        pod("dark", "b"),
        pod("old"),
        pod("huge"),
        pod("moved"),
        pod("anew", "a", NOW - 20),
    ]
    pods += [pod("fresh", "a", NOW - 10), *(pod(f"fine{number}") for number in range(7))]
    found = await examined(
        pods,
        *(sample(each.name) for each in pods if each.name.startswith("fine")),
        sample("well"),
        sample("old", at=NOW - 400),
        sample("huge", 6 << 30),
        sample("moved", namespace="other"),
        sample("anew", at=NOW - 30),
    )
    by_pod = {each.pods[0].removeprefix("shop/"): each for each in found}
    assert {"lost", "dark", "old", "huge", "moved", "anew", "fresh"} == by_pod.keys()
    assert "no series for 1 of 15 running pods: shop/lost (on a)" == by_pod["lost"].message
    assert "no series of any pod of the node for 1 of 15 running pods: shop/dark (on b)" == by_pod["dark"].message
    assert "kubelets are scraped" in by_pod["dark"].remedy
    assert "too old for 1 of 15 running pods: shop/old (400 s)" == by_pod["old"].message
    assert "more than the node has or uses for 1 of 15 running pods: shop/huge (6.0 GiB)" == by_pod["huge"].message
    assert "under another namespace for 1 of 15 running pods: shop/moved (as other/moved)" == by_pod["moved"].message
    assert "honor_labels" in by_pod["moved"].remedy
    assert "of an earlier pod of that name for 1 of 15 running pods: shop/anew" == by_pod["anew"].message
    assert (Severity.OK, "") == (by_pod["fresh"].severity, by_pod["fresh"].remedy)
    assert {Severity.WARNING} == {each.severity for name, each in by_pod.items() if name != "fresh"}


async def test_thousands_are_a_line_and_a_few_examples() -> None:
    """Scripts get the count, and twenty names."""
    pods = [pod(f"p{number:04}") for number in range(3000)]
    (found,) = await examined(pods, *(sample(each.name) for each in pods[:100]))
    assert (Severity.PROBLEM, 2900, 20) == (found.severity, found.count, len(found.pods))
    assert "no series for 2900 of 3000 running pods: shop/p0100 (on a), " in found.message
    assert "and 2897 more" in found.message and len(found.message) < 200


async def test_a_source_without_any_pod() -> None:
    """The finding refers to the source, which is reported by itself."""
    (found,) = await examined([pod("x"), pod("y")])
    assert ("no sample of any of 2 running pods: no source answers about them", 2) == (found.message, found.count)


async def test_pods_that_may_not_be_listed() -> None:
    """A warning with the server's message."""
    forbidden = json_response({"kind": "Status", "message": "pods is forbidden"}, 403)
    (found,) = await examined([], sample("x"), pages={"/api/v1/pods": forbidden})
    assert (Severity.WARNING, "cannot be listed: 403 pods is forbidden") == (found.severity, found.message)


async def test_pods_are_listed_only_where_they_are_measured() -> None:
    """There may be a hundred thousand."""
    server = FakeApiServer(pods=[pod("x")])
    await server.run_doctor(default_configuration())
    paths = [request.path.partition("?")[0] for _, request in server.transport.sent]
    assert "/api/v1/nodes" in paths
    assert [] == [path for path in paths if "/pods" in path]
