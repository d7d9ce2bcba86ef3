"""A pod's requests are Kubernetes' sum, with sidecars, overhead, pod-level resources and in-place resizes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.json_objects import Json, container, pod_json, read_pod
from trimtab.core.model.resources import MAX_AMOUNT, PodRequests
from trimtab.wire.limits import MAX_COUNTED

INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


def _demand(spec: Json, status: Json | None = None) -> PodRequests:
    pod = read_pod(pod_json(spec, status))
    assert "" == pod.spec_error
    return pod.requests


def _cpu(spec: Json, status: Json | None = None) -> int:
    return _demand(spec, status).of("cpu")


def _asks(*requests: str, **more: Any) -> list[Json]:
    return [container(f"c{index}", {"cpu": each}, **more) for index, each in enumerate(requests)]


def test_containers_add_up() -> None:
    """The requests of containers are added, of every resource by its own name, and rounded up once."""
    spec = {
        "containers": [
            container("a", {"cpu": "100.5m", "x.y/gpu": "1"}),
            container("b", {"cpu": "100.5m", "memory": "100m"}),
        ]
    }
    assert (("cpu", 201), ("memory", 1), ("x.y/gpu", 1)) == _demand(spec).amounts


def test_of_very_many_resources_the_native_ones_are_kept() -> None:
    """What counts for every pod on the node is never among those left out; the error names field, number and limit."""
    many = {f"x.y/{number}": "1" for number in range(MAX_COUNTED)}
    pod = read_pod(pod_json({"containers": [container("a", {**many, "cpu": "1", "memory": "2"})]}))
    assert (1000, 2, MAX_COUNTED) == (pod.requests.of("cpu"), pod.requests.of("memory"), len(pod.requests.amounts))
    assert "resources.requests: 2,002 resources, and at most 2,000 are evaluated" in pod.spec_error


def test_containers_beyond_those_that_count() -> None:
    """They are left out of the requests, and the error has the number of all."""
    pod = read_pod(pod_json({"containers": _asks(*["1m"] * (MAX_COUNTED + 1))}))
    assert MAX_COUNTED == pod.requests.of("cpu")
    assert "spec.containers: 2,001 containers, and at most 1,000 are evaluated" in pod.spec.error


def test_no_containers_ask_for_nothing() -> None:
    """A pod without requests, or without containers, asks for nothing of anything."""
    assert () == _demand({"containers": [container()]}).amounts
    assert () == _demand({"containers": []}).amounts


def test_many_containers_are_counted() -> None:
    """Two hundred containers are two hundred requests."""
    assert 2000 == _cpu({"containers": _asks(*["10m"] * 200)})


def test_an_init_step_may_be_the_hungriest() -> None:
    """Init containers run one after the other: the hungriest counts, if it outdoes the containers."""
    assert 700 == _cpu({"containers": _asks("500m"), "initContainers": _asks("300m", "700m")})
    assert 500 == _cpu({"containers": _asks("500m"), "initContainers": _asks("300m", "200m")})


def test_sidecars_stay() -> None:
    """A sidecar counts with the containers, and with the init steps that come after it."""
    side = container("side", {"cpu": "200m"}, restartPolicy="Always")
    step = container("step", {"cpu": "600m"})
    assert 800 == _cpu({"containers": _asks("500m"), "initContainers": [side, step]})
    assert 700 == _cpu({"containers": _asks("500m"), "initContainers": [step, side]})


def test_overhead_comes_on_top() -> None:
    """What the runtime itself needs is added to the sum."""
    assert 550 == _cpu({"containers": _asks("500m"), "overhead": {"cpu": "50m"}})


def test_pod_level_resources_stand_for_the_sum() -> None:
    """Pod-level requests replace the sum of the containers, for the resources that support them."""
    spec = {"containers": _asks("500m", "500m"), "resources": {"requests": {"cpu": "300m", "x.y/gpu": "4"}}}
    assert (("cpu", 300),) == _demand(spec).amounts


@pytest.mark.parametrize(
    ("given", "allocated", "conditions", "cpu"),
    [
        ("500m", "500m", [], 500),
        ("800m", "500m", [], 800),
        ("500m", "900m", [], 900),
        ("100m", "200m", [], 500),
        ("800m", "100m", DEFERRED, 800),
        ("100m", "100m", DEFERRED, 500),
        ("100m", "200m", INFEASIBLE, 200),
        ("300m", "200m", INFEASIBLE, 300),
    ],
)
def test_a_resize_keeps_room_for_the_largest(given: str, allocated: str, conditions: list[Json], cpu: int) -> None:
    """The largest of request, allocation and what the container has counts; an infeasible request does not."""
    status = {"name": "c0", "resources": {"requests": {"cpu": given}}, "allocatedResources": {"cpu": allocated}}
    found = _cpu({"containers": _asks("500m")}, {"containerStatuses": [status], "conditions": conditions})
    assert cpu == found


def test_a_status_without_resources_says_nothing() -> None:
    """Only a status with the container's resources counts; allocation alone does not."""
    status = {
        "containerStatuses": [{"name": "c0", "allocatedResources": {"cpu": "9"}}, {"name": "gone", "resources": {}}]
    }
    assert 500 == _cpu({"containers": _asks("500m")}, status)


def test_an_empty_status_of_an_infeasible_request_counts_nothing() -> None:
    """A container whose status is empty counts nothing while its request is infeasible."""
    status = {"containerStatuses": [{"name": "c0", "resources": {}}], "conditions": INFEASIBLE}
    assert 0 == _cpu({"containers": _asks("500m")}, status)


def test_sidecars_can_be_resized_and_init_steps_cannot() -> None:
    """The status of a sidecar takes part, that of a plain init container does not."""
    status = {"initContainerStatuses": [{"name": "c0", "resources": {"requests": {"cpu": "2"}}}]}
    assert 2000 == _cpu({"initContainers": _asks("500m", restartPolicy="Always")}, status)
    assert 500 == _cpu({"initContainers": _asks("500m")}, status)


def test_limits_follow_the_resize_too() -> None:
    """Limits are the larger of the spec's and what the container has."""
    spec = {"containers": [container("c0", limits={"cpu": "1"})]}
    status = {"containerStatuses": [{"name": "c0", "resources": {"limits": {"cpu": "2"}}}]}
    assert (("cpu", 2000),) == _demand(spec, status).limits


@pytest.mark.parametrize("cpu", ["7Ei", "8Ei", "12E", "1e100", "9223372036854775808"])
def test_what_no_node_has_is_at_the_cap(cpu: str) -> None:
    """Requests that overflow elsewhere stand at the cap, so that no node fits."""
    assert MAX_AMOUNT == _cpu({"containers": _asks(cpu)})


def test_ephemeral_containers_ask_for_nothing() -> None:
    """A debugging container that was put into a running pod does not change its demand."""
    assert 500 == _cpu({"containers": _asks("500m"), "ephemeralContainers": _asks("9")})


def test_cpu_container_by_container() -> None:
    """Limits with overhead, requests without a limit, and containers with neither; init containers are left out."""
    spec = {
        "containers": [
            container("both", {"cpu": "100m"}, {"cpu": "2"}),
            container("limit", {}, {"cpu": "500m"}),
            container("request", {"cpu": "300m"}),
            container("another", {"cpu": "20m"}),
            container("neither", {"memory": "1Gi"}),
        ],
        "initContainers": [container("init", {"cpu": "9"}), container("side", {"cpu": "7"}, restartPolicy="Always")],
        "overhead": {"cpu": "50m"},
    }
    demand = _demand(spec)
    assert (2550, (300, 20), 1) == (demand.limited_cpu, demand.unlimited_cpu, demand.containers_without_cpu)


def test_limits_are_not_below_requests() -> None:
    """Without a limit, or with a smaller one, the request counts."""
    spec = {"containers": [container("a", {"cpu": "300m", "memory": "1Gi"}, {"cpu": "2"})]}
    assert (2000, 1 << 30, 0) == tuple(map(_demand(spec).limit_of, ("cpu", "memory", "x.y/gpu")))
