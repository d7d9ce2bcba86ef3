"""Every problem of a scenario's workloads and their pods is reported, with its line, column, field and remedy.

The places of problems are marked in the texts by », in the order in which they are reported.
"""

import pytest

from tests.sim.scenario_file.scenario_texts import HEAD, NODES, check, problems_of_body


@pytest.mark.parametrize(
    ("workload", "complaints"),
    [
        ("»{}", ["workloads[0]: name is missing: write a name"]),
        (
            "{name: x, kind: »Deploymnt}",
            [
                (
                    "workloads[0].kind: 'Deploymnt' is not one of DaemonSet, Deployment, Job, Pod, StatefulSet "
                    "(did you mean Deployment?)"
                )
            ],
        ),
        ("»{name: x, kind: Job}", ["workloads[0]: lifetime is missing: a Job's pods finish, write after how long"]),
        (
            "{name: x, kind: DaemonSet, replicas: »2}",
            [
                (
                    "workloads[0].replicas: a DaemonSet has none: remove it, or choose kind Deployment or "
                    "StatefulSet or Job or Pod"
                )
            ],
        ),
        (
            '{name: x, created: »"07:00"}',
            [
                (
                    "workloads[0].created: 07:00 is before the scenario begins (08:00): hours go on after "
                    'midnight, so "26:00" is two at night of the second day'
                )
            ],
        ),
        (
            "{name: x, created: 20m, deleted: »10m}",
            ["workloads[0].deleted: is not after created (08:20): times must be in order"],
        ),
        (
            "{name: x}, {name: y}, »{name: x}",
            ["workloads[2]: namespace default has a workload x already, in line 6: rename one"],
        ),
        ("{name: x, usage: {cpu: 250m}}, {name: x, namespace: other}", []),
        (
            "{name: x, requests: {cpu: »1x}, usage: {cpu: 50%}}",
            ['workloads[0].requests.cpu: \'1x\' is not a quantity: write it as "500m" or "2Gi"'],
        ),
        (
            "{name: x, requests: {cpu: »2}, limits: {cpu: 1}}",
            ["workloads[0].requests.cpu: 2 is above the limit 1: lower it"],
        ),
        (
            "{name: x, usage: {cpu: »50%}}",
            [
                (
                    "workloads[0].usage.cpu: is a share of the pod's cpu request, which is 0: write a quantity "
                    'such as "250m"'
                )
            ],
        ),
        (
            "{name: x, scale: [{at: 20m, replicas: 2}, {at: »10m, replicas: 3}]}",
            ["workloads[0].scale[1].at: is before 08:20, the time of what comes before: times must be in order"],
        ),
        ("{name: x, rollout: [{at: 20m, »lifetime: 1m}]}", ["workloads[0].rollout[0].lifetime: unknown field"]),
        (
            "{name: x, requests: {cpu: 1}, autoscaling: {maxReplicas: 6, target: 50%, interval: »1us}}",
            ["workloads[0].autoscaling.interval: 1e-06s is too short: write 1s or more"],
        ),
        (
            "{name: x, replicas: »9, requests: {cpu: 1}, autoscaling: {minReplicas: 3, maxReplicas: 6, target: 50%}}",
            ["workloads[0].replicas: 9 is not between minReplicas, 3, and maxReplicas, 6"],
        ),
        (
            "{name: x, disruptionBudget: »{minAvailable: 1, maxUnavailable: 1}}",
            ["workloads[0].disruptionBudget: has both minAvailable and maxUnavailable: remove one"],
        ),
        (
            "{name: x, requests: {memory: 1Gi}, usage: {memory: »50%}, rollout: [{at: 10m, requests: {cpu: 2}}]}",
            [
                "workloads[0].usage.memory: is a share of the pod's memory request, which is 0: write a quantity such as "
                '"100Mi" (in the rollout of line 6)'
            ],
        ),
        (
            "{name: x, requests: {cpu: 1}, usage: {cpu: »-5%}}",
            ["workloads[0].usage.cpu: '-5%' is not a percentage: write one such as \"85%\", zero or more"],
        ),
        (
            "{name: x, maxSurge: »-5%}",
            ["workloads[0].maxSurge: '-5%' is not a percentage: write one such as \"85%\", zero or more"],
        ),
        (
            "{name: x, requests: {foo bar: »3, gpu: »1, nvidia.com/gpu: »1.5}}",
            [
                "workloads[0].requests.foo bar: 'foo bar' is not a resource of containers: write cpu, memory, or one such as "
                "nvidia.com/gpu",
                "workloads[0].requests.gpu: 'gpu' is not a resource of containers: write cpu, memory, or one such as "
                "nvidia.com/gpu",
                "workloads[0].requests.nvidia.com/gpu: nvidia.com/gpu is counted in whole numbers: write one",
            ],
        ),
        ("{name: x, disruptionBudget: »{}}", ["workloads[0].disruptionBudget: needs minAvailable or maxUnavailable"]),
        *(
            (
                f"{{name: x, maxSurge: »{surge}{missing}}}",
                ["workloads[0].maxSurge: maxSurge and maxUnavailable are both 0, so no rollout could begin: raise one"],
            )
            for surge, missing in ((0, ", maxUnavailable: 0"), ("0%", ", maxUnavailable: 0%"), (0, ""))
        ),
        (
            "{name: x, startDelay: »[4s, 1s]}",
            ["workloads[0].startDelay: expected one duration, or the shortest and the longest as [1s, 4s]"],
        ),
    ],
)
def test_workloads(workload: str, complaints: list[str]) -> None:
    """Problems of workloads."""
    check(f"{HEAD}{NODES}workloads: [{workload}]\n", complaints)


@pytest.mark.parametrize(
    ("pod", "complaints"),
    [
        ("{»tolerationz: []}", ["workloads[0].pod.tolerationz: unknown field (did you mean tolerations?)"]),
        (
            "{affinity: {»nodeAfinity: {}}}",
            ["workloads[0].pod.affinity.nodeAfinity: unknown field (did you mean nodeAffinity?)"],
        ),
        (
            "{tolerations: [{key: »5}]}",
            ["workloads[0].pod.tolerations[0].key: expected a string, got the number 5: put it in quotes"],
        ),
        (
            "{topologySpreadConstraints: [{maxSkew: »0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}",
            ["workloads[0].pod.topologySpreadConstraints[0].maxSkew: 0 is not above zero; correct the field"],
        ),
        (
            "{containers: [{resources: {requests: {cpu: 2, nvidia.com/gpu: »x}}}]}",
            [
                (
                    "workloads[0].pod.containers[0].resources.requests.nvidia.com/gpu: 'x' is not a quantity: "
                    'write it as "500m" or "2Gi"'
                )
            ],
        ),
        (
            "{containers: [{resources: {requests: {nvidia.com/gpu: »2}, limits: {nvidia.com/gpu: 1}}}]}",
            ["workloads[0].pod.containers[0].resources.requests.nvidia.com/gpu: 2 is above the limit 1: lower it"],
        ),
        ("{nodeName: »a}", ["workloads[0].pod.nodeName: the scheduler decides that here: remove it"]),
        ("{volumes: »[]}", ["workloads[0].pod.volumes: volumes are not simulated: remove them"]),
        ("{labels: {app: »-x-}}", ["workloads[0].pod.labels.app: app=-x- is not a valid label"]),
        ("{containers: [{command: [x], env: [], image: x}], restartPolicy: Always, hostNetwork: true}", []),
    ],
)
def test_pods(pod: str, complaints: list[str]) -> None:
    """Problems of a PodSpec, at any depth; what Kubernetes has and does not matter here is accepted."""
    check(f"{HEAD}{NODES}workloads: [{{name: x, pod: {pod}}}]\n", complaints)


def test_resources_in_two_places() -> None:
    """Requests of the workload are those of the first container, which may have none of its own."""
    body = "workloads: [{name: x, requests: {cpu: 1}, pod: {containers: [{resources: {requests: {cpu: 2}}}]}}]\n"
    expected = "s.yaml:6:33: workloads[0].requests: set it here or as resources of the first container, not both"
    assert [expected] == problems_of_body(body)
