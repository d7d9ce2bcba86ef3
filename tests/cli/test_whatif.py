"""`trimtab whatif`: questions, what is printed, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_doctor import kubeconfig as kubeconfig
from tests.sim.snapshot_clusters import budget, replica, used, worker, write_cluster
from tests.wire.json_objects import Json
from trimtab.cli import main, whatif
from trimtab.sim.snapshot_document import History, PastUsage, Usage
from trimtab.sim.snapshot_file import read_snapshot

NODES = [worker("n-1", zone="a"), worker("n-2", zone="b")]
PODS = [replica("web-1", "n-1"), replica("web-2", "n-1", cpu="2"), replica("web-3", "n-2")]
N_1 = {"kubernetes.io/hostname": "n-1"}
MANIFEST = "kind: Pod\nmetadata: {name: big}\nspec: {containers: [{name: a, resources: {requests: {cpu: '3'}}}]}\n"


def ask(folder: Path, *question: str, pods: list[Json] | None = None, **options: Any) -> Result:
    """Ask about a snapshot of two nodes of four cores; by default its pods request three of them on n-1, one on n-2."""
    file = write_cluster(folder, NODES, PODS if pods is None else pods, **options)
    return CliRunner().invoke(main, ["whatif", "--snapshot", str(file), *question])


def squeezed(text: str) -> str:
    """With single spaces."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_a_drain_with_room(tmp_path: Path) -> None:
    """Exit code 0; a table of now and then, the hottest nodes, and where pods would go."""
    done = ask(tmp_path, "--drain", "n-1")
    assert 0 == done.exit_code, done.output
    found = squeezed(done.stdout)
    assert found.startswith("What if n-1 were drained?\n\nNo further pod would be pending.\n\nnow then\n")
    for line in ("schedulable nodes 2 1", "evicted or preempted pods 0 2", "n-2 25% 100% 12% 38%"):
        assert line in found
    assert found.endswith("Placed:\nshop/web (2 pods) → n-2 (2)")
    assert "note: 3 running pods were not measured and count with their requests\n" == done.stderr


def test_a_drain_without_room(tmp_path: Path) -> None:
    """Exit code 1; pending pods by workload, with kube-scheduler's message."""
    done = ask(tmp_path, "--drain", "n-1", pods=[*PODS, replica("other", "n-2", owner="other")])
    assert 1 == done.exit_code
    assert "1 further pod would be pending.\n" in done.stdout
    assert (
        "  shop/web: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are "
        "available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.\n"
    ) in done.stdout


def test_a_drain_that_does_not_finish(tmp_path: Path) -> None:
    """Exit code 1; the budget in the way, and the pod that nobody would create again."""
    objects = {"poddisruptionbudgets": [budget("keep", "web", 0)]}
    done = ask(tmp_path, "--drain", "n-1", pods=[*PODS, replica("debug", "n-1", cpu="1m", owner="")], objects=objects)
    assert 1 == done.exit_code
    assert "The drain would not finish: 2 pods cannot be evicted.\n" in done.stdout
    assert "  shop/web-1 on n-1: shop/keep\n  shop/web-2 on n-1: shop/keep\n" in done.stdout
    assert "1 pod without a controller would be lost.\n" in done.stdout and "\n  shop/debug\n" in done.stdout


def test_a_history_that_is_shorter_than_the_change(tmp_path: Path) -> None:
    """It repeats: the node is drained, and the highest demand is there."""
    history = History(0.0, 5.0, {}, {"shop/web-1": PastUsage((500.0, 700.0))})
    done = ask(tmp_path, "--drain", "n-1", history=history)
    assert "evicted or preempted pods 0 2" in squeezed(done.stdout) and "Highest demand on a node" in done.stdout


def test_more_nodes(tmp_path: Path) -> None:
    """Exit code 0; a pending pod finds room on the new node."""
    done = ask(tmp_path, "--add-nodes", "1", pods=[*PODS, replica("wide", cpu="4", owner="")])
    assert 0 == done.exit_code
    assert "What if there were 1 node more?\n\n1 pending pod would find room.\n" in done.stdout
    assert "  shop/wide → n-1-copy-1\n" in done.stdout


def test_fewer_nodes(tmp_path: Path) -> None:
    """The emptiest node is named, and its pods find room."""
    done = ask(tmp_path, "--remove-nodes", "1")
    assert 0 == done.exit_code and "What if n-2 were removed?\n" in done.stdout
    assert "  shop/web → n-1\n" in done.stdout


def test_new_pods(tmp_path: Path) -> None:
    """Several files, of which one pod fits; the others are pending, hence exit code 1."""
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(MANIFEST)
    done = ask(tmp_path, *(part for file in files for part in ("--pod", str(file))))
    assert 1 == done.exit_code
    assert f"What if the pods of {files[0]} and {files[1]} were created?\n" in done.stdout
    assert "1 further pod would be pending.\n" in done.stdout and "  default/big → n-2\n" in done.stdout


def test_a_new_pod_with_a_node_name(tmp_path: Path) -> None:
    """It runs there, whatever the scheduler would say; a node that is not there is an error."""
    file = tmp_path / "pinned.yaml"
    file.write_text(MANIFEST.replace("spec: {", "spec: {nodeName: n-1, "))
    done = ask(tmp_path, "--pod", str(file))
    assert 0 == done.exit_code and "  default/big → n-1\n" in done.stdout
    file.write_text(MANIFEST.replace("spec: {", "spec: {nodeName: n-9, "))
    done = ask(tmp_path, "--pod", str(file))
    assert 2 == done.exit_code and "trimtab: --pod: there is no node 'n-9'" in done.stderr


def test_another_policy(tmp_path: Path) -> None:
    """How many pods would run elsewhere; where each of them would be is left to --json."""
    policy = tmp_path / "policy.yaml"
    stock = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    policy.write_text(json.dumps(stock))
    done = ask(tmp_path, "--policy", str(policy), pods=[replica(f"web-{number}", "n-1") for number in range(4)])
    assert 0 == done.exit_code, done.output
    assert f"What if {policy} had placed every pod?\n" in done.stdout
    assert "2 pods would run on another node.\n" in done.stdout and "Placed:" not in done.stdout


def test_a_policy_sees_load_between_the_steps_of_a_history(tmp_path: Path) -> None:
    """Steps of half an hour are longer than samples are trusted live; the pods of a busy node go elsewhere."""
    pods = [replica("idle", "n-1", kind="DaemonSet", owner="a"), replica("busy", "n-2", kind="DaemonSet", owner="b")]
    series = {"shop/idle": PastUsage((10.0,) * 9), "shop/busy": PastUsage((3900.0,) * 9)}
    pods += [replica(f"web-{number}", "n-2", cpu="100m") for number in range(8)]  # nothing is measured for the first
    done = ask(tmp_path, "--policy", "PeakRisk", pods=pods, history=History(0.0, 1800.0, {}, series))
    assert "7 pods would run on another node.\n" in done.stdout


def test_a_shipped_policy(tmp_path: Path) -> None:
    """By its name, as `trimtab simulate` takes it."""
    done = ask(tmp_path, "--policy", "LeastAllocated", pods=[replica(f"web-{number}", "n-1") for number in range(4)])
    assert 0 == done.exit_code, done.output
    assert "What if LeastAllocated had placed every pod?\n" in done.stdout
    assert "2 pods would run on another node.\n" in done.stdout


def test_failures_of_zones(tmp_path: Path) -> None:
    """One may fail, the other must not: exit code 1."""
    done = ask(tmp_path, "--zones", pods=[*PODS, replica("web-4", "n-1"), replica("web-5", "n-2", cpu="500m")])
    assert 1 == done.exit_code
    assert "zone a (1 node) must not fail: 1 pod would be pending; fullest node then: n-2, CPU" in done.stdout
    assert (
        "\n  shop/web: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)." in done.stdout
    )
    assert "zone b (1 node) must not fail" in done.stdout
    done = ask(tmp_path, "--zones", pods=PODS)
    assert (0, 2) == (done.exit_code, done.stdout.count("may fail: all pods find room"))


def test_a_failure_that_loses_a_pod(tmp_path: Path) -> None:
    """Exit code 1, as for a drain: nobody creates the pod again, though there is room for it."""
    done = ask(tmp_path, "--zones", pods=[replica("debug", "n-1", owner="")])
    assert 1 == done.exit_code
    assert "zone a (1 node) must not fail: 1 pod without a controller would be lost" in done.stdout
    assert "\n  shop/debug: lost, because no controller creates it again\nzone b (1 node) may fail" in done.stdout


def test_a_pod_that_is_lost_in_any_case(tmp_path: Path) -> None:
    """A pod of high priority preempts it with and without the change, which is not to blame."""
    pods = [replica("debug", "n-1", cpu="3", owner=""), replica("other", "n-2", cpu="3", priority=9)]
    done = ask(tmp_path, "--add-nodes", "1", pods=[*pods, replica("urgent", cpu="3", priority=5, nodeSelector=N_1)])
    assert 0 == done.exit_code, done.output
    assert "evicted or preempted pods 1 1" in squeezed(done.stdout) and "lost" not in done.stdout.lower()


def test_an_interrupt_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130: with 1, CI would take it for one."""

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trimtab.sim.whatif.simulate", interrupted)
    done = ask(tmp_path, "--drain", "n-1")
    assert (130, "") == (done.exit_code, done.stdout)
    assert "trimtab: interrupted: there is no answer" in done.stderr


def test_json(tmp_path: Path) -> None:
    """The same as data, on standard output alone; the exit code is the same."""
    done = ask(tmp_path, "--drain", "n-1", "--json")
    found = json.loads(done.stdout)
    assert ("n-1 were drained", False, None) == (found["question"], found["worse"], found["moved"])
    assert (2, 1) == (found["before"]["nodes"], found["after"]["nodes"])
    assert [{"pod": "shop/web-1-1", "workload": "shop/web", "node": "n-2"}] == found["after"]["placed"][:1]
    zones = json.loads(ask(tmp_path, "--zones", "--json").stdout)
    assert ["zone a", "zone b"] == [each["domain"] for each in zones["answers"]]


def test_measured_pods(tmp_path: Path) -> None:
    """Nothing to note where everything was measured; the peaks are what was measured."""
    usage = Usage({}, {f"shop/web-{number}": used(200) for number in (1, 2, 3)})
    done = ask(tmp_path, "--drain", "n-1", usage=usage)
    assert "" == done.stderr and "n-2 5% 15% 6% 19%" in squeezed(done.stdout)


def test_what_the_snapshot_lacks_is_noted(tmp_path: Path) -> None:
    """Its own notes, and the kinds that it could not list."""
    done = ask(tmp_path, "--drain", "n-1", missing=("persistentvolumes",), notes=("query x failed \x1b[2J",))
    assert "note: query x failed \\x1b[2J\n" in done.stderr
    assert "note: without persistentvolumes, which could not be listed" in done.stderr
    for question in (("--zones",), ("--drain", "n-1")):
        done = ask(tmp_path, *question, missing=("namespaces",))
        assert "note: nothing is scheduled without namespaces: a plugin reads them for every pod\n" in done.stderr


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ((), "ask one question: --drain, --add-nodes, --remove-nodes, --pod, --policy or --zones"),
        (("--zones", "--drain", "n-1"), "ask one question"),
        (("--drain", "n-11"), "trimtab: --drain: there is no node 'n-11' (did you mean n-1?)\n"),
        (
            ("--remove-nodes", "2"),
            "trimtab: --remove-nodes: the cluster has 2 worker nodes, and at least one must stay\n",
        ),
        (("--add-nodes", "0"), "Invalid value for '--add-nodes'"),
        (("--pod", "{tmp}/none.yaml"), "none.yaml: cannot be read: No such file or directory\n"),
        (("--pod", "{tmp}/bad.yaml"), "bad.yaml:1:1: spec.containers: a pod needs at least one container\n"),
        (("--policy", "PeekRisk"), "there is no such policy (did you mean PeakRisk?)"),
        (("--policy", "{tmp}/none.yaml"), "cannot be read: No such file or directory"),
        (("--policy", "{tmp}/bad.yaml"), "bad.yaml"),
        (("--config", "{tmp}/none.yaml", "--zones"), "cannot be read: No such file or directory"),
    ],
)
def test_bad_input(question: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """Exit code 2, and a sentence that says what is wrong."""
    (tmp_path / "bad.yaml").write_text("kind: Pod\n")
    done = ask(tmp_path, *(each.format(tmp=tmp_path) for each in question))
    assert (2, "") == (done.exit_code, done.stdout)
    assert message in done.stderr and "Traceback" not in done.output


def test_a_snapshot_without_nodes(tmp_path: Path) -> None:
    """Exit code 2: there is nothing to simulate."""
    file = write_cluster(tmp_path, [])
    done = CliRunner().invoke(main, ["whatif", "--snapshot", str(file), "--zones"])
    assert (2, f"trimtab: {file} has no nodes, so there is nothing to simulate\n") == (done.exit_code, done.output)


@pytest.mark.parametrize("kept", [0, 1, 60, 400, -5])
def test_a_snapshot_that_is_cut_short(kept: int, tmp_path: Path) -> None:
    """Exit code 2, and the file is named."""
    file = write_cluster(tmp_path, NODES, PODS)
    file.write_bytes(file.read_bytes()[:kept])
    done = CliRunner().invoke(main, ["whatif", "--snapshot", str(file), "--zones"])
    assert 2 == done.exit_code and done.output.startswith(f"trimtab: {file}: ")


def test_the_live_cluster(tmp_path: Path, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --snapshot the cluster of the kubeconfig is read; if it cannot be reached, that is said, with exit code 2."""
    done = CliRunner().invoke(main, ["whatif", "--kubeconfig", kubeconfig, "--zones"])
    assert 2 == done.exit_code and "trimtab: the API server cannot be reached" in done.output
    cluster = read_snapshot(write_cluster(tmp_path, NODES, PODS))
    monkeypatch.setattr(whatif, "_snapshot_now", lambda configuration, credentials: cluster)
    done = CliRunner().invoke(main, ["whatif", "--kubeconfig", kubeconfig, "--drain", "n-2"])
    assert 0 == done.exit_code, done.output
