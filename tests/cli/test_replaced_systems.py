"""The files of the five systems that this one replaces: each is checked and shown, or refused by what it is.

They are written here as their projects write them: as ConfigMaps with literal blocks, several to a file, with comments.
"""

from __future__ import annotations

import textwrap
from base64 import b64encode
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.cli.test_config import ran, written
from tests.config.config_files import comparable
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.settings import MetricsServerSettings, PrometheusSettings
from trimtab.core.rescheduling.settings import Mode
from trimtab.core.rescheduling.strategies.load_balancing import LoadBalancing

# --- Rescheduler: a file with several ConfigMaps of one key


class Template(NamedTuple):
    """A template of Rescheduler: interval, thresholds, imbalance and pods per round, switches, weights, bonus, points."""

    interval: str
    thresholds: tuple[float, float]
    moves: tuple[float, int] | None
    strategies: tuple[str, ...] | None
    switches: tuple[bool, bool, bool | None]
    weights: tuple[float, float]
    bonus: float
    excluded: tuple[str, ...]
    points: str = "filter score reserve preBind"
    selector: str | None = None


ALL_THREE = ("LoadBalancing", "ResourceOptimization", "NodeMaintenance")
SYSTEM = ("kube-system", "kube-public", "kube-node-lease")
TEMPLATES = {
    "default": Template("30s", (80.0, 80.0), None, None, (True, True, True), (0.6, 0.4), 10.0, SYSTEM),
    "default-earlier": Template(
        "30s", (80.0, 80.0), (20.0, 10), ALL_THREE, (True, True, None), (0.6, 0.4), 10.0, SYSTEM
    ),
    "production": Template(
        "120s",
        (95.0, 95.0),
        (40.0, 3),
        ALL_THREE[:1],
        (True, False, None),
        (0.8, 0.2),
        3.0,
        (*SYSTEM, "logging"),
        "filter score",
    ),
    "development": Template("15s", (50, 50), (10, 50), ALL_THREE, (True, True, None), (0.5, 0.5), 20, SYSTEM[:1]),
    "hpc": Template(
        "60s", (85.0, 90.0), (15.0, 8), ALL_THREE[:2], (True, True, None), (0.8, 0.2), 15.0, ("gpu-operator",)
    ),
    "memory": Template(
        "45s", (90, 75), (20, 6), ALL_THREE[:2], (True, True, None), (0.3, 0.7), 12, ("redis",), "filter score preBind"
    ),
    "microservices": Template("30s", (80, 80), (25, 15), ALL_THREE, (True, True, None), (0.6, 0.4), 10, ("linkerd",)),
    "multitenant": Template(
        "90s",
        (85, 85),
        (30, 5),
        ALL_THREE[:1],
        (True, False, None),
        (0.6, 0.4),
        8,
        ("tenant-system",),
        selector="tier=critical,tenant.io/protected=true",
    ),
    "schedule-only": Template(
        "0s", (85, 85), None, (), (True, False, False), (0.6, 0.4), 10, SYSTEM[:1], "filter score reserve"
    ),
}


def arguments(template: Template) -> dict[str, Any]:
    scheduling, preventive, controller = template.switches
    args: dict[str, Any] = {
        "cpuThreshold": template.thresholds[0],
        "memoryThreshold": template.thresholds[1],
        "excludedNamespaces": [*template.excluded],
        "enableSchedulingOptimization": scheduling,
        "enablePreventiveRescheduling": preventive,
        "cpuScoreWeight": template.weights[0],
        "memoryScoreWeight": template.weights[1],
        "loadBalanceBonus": template.bonus,
        "reschedulingInterval": template.interval,
        "enableReschedulingController": controller,
        "enabledStrategies": None if template.strategies is None else [*template.strategies],
        "excludedPodSelector": template.selector,
    }
    if template.moves is not None:
        args |= {"imbalanceThreshold": template.moves[0], "maxReschedulePods": template.moves[1]}
    return {key: value for key, value in args.items() if value is not None}


def rescheduler(template: Template) -> str:
    """The inner file, with the comments and blank lines that such files have."""
    points = "".join(f"      {point}:\n        enabled: [name: Rescheduler]\n" for point in template.points.split())
    args = textwrap.indent(yaml.safe_dump(arguments(template), sort_keys=False), "        ")
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\n# 领导者选举配置 🔧\n"
        "leaderElection:\n  leaderElect: true\n  resourceLock: leases\n  resourceNamespace: kube-system\n"
        "  resourceName: rescheduler-scheduler\n\n"
        'clientConnection:\n  kubeconfig: ""  # 使用集群内配置\n  qps: 100\n  burst: 200\n\n'
        f"profiles:\n  - schedulerName: rescheduler-scheduler\n    plugins:\n{points}"
        f"    pluginConfig:\n    - name: Rescheduler\n      args:\n{args}"
    )


def config_map(name: str, key: str, text: str) -> str:
    head = (
        f"---\n# {name}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: kube-system\ndata:\n"
    )
    return f"{head}  {key}: |\n{textwrap.indent(text, '    ', lambda line: True)}"


EXAMPLES = "".join(
    config_map(f"rescheduler-config-{name}", "config.yaml", rescheduler(each)) for name, each in TEMPLATES.items()
) + config_map("configuration-examples-guide", "README.md", "# How to apply\n\n| a | b |\n")


@pytest.mark.parametrize("name", TEMPLATES)
def test_rescheduler_templates(tmp_path: Path, name: str) -> None:
    """Each is chosen from the file of examples, valid as it stands, read by metrics-server, and shown with every argument."""
    file, key = written(tmp_path, EXAMPLES), f"rescheduler-config-{name}"
    checked = ran("config", "check", file, "--key", key)
    assert (0, "") == (checked.exit_code, checked.stderr)
    assert checked.stdout.endswith("valid; profiles: rescheduler-scheduler; metric sources: metrics-server\n")
    shown = ran("config", "show", file, "--key", key).stdout
    (profile,) = next(yaml.safe_load_all(shown))["profiles"]
    kept = next(each["args"] for each in profile["pluginConfig"] if each["name"] == "Rescheduler")
    template = TEMPLATES[name]
    interval = {"120s": "2m", "60s": "1m"}.get(template.interval, template.interval)
    assert {**arguments(template), "reschedulingInterval": interval} == {key: kept[key] for key in arguments(template)}
    found = [
        point for point, lists in profile["plugins"].items() if {"name": "Rescheduler"} in lists.get("enabled", ())
    ]
    assert {*template.points.split()} - {"score"} == {*found}
    assert comparable(parse(rescheduler(template), "a")) == comparable(parse(shown, "b"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_rescheduler_moves(name: str) -> None:
    """Moves are planned only where a file has the switch; with it every template's values take effect, and none is moved."""
    template = TEMPLATES[name]
    assert (template.switches[2] is True) == (parse(rescheduler(template), "a").settings.rescheduling is not None)
    switched = template._replace(switches=(*template.switches[:2], True))
    found = parse(rescheduler(switched), "a").settings.rescheduling
    if template.strategies == ():
        assert found is None
        return
    assert found is not None
    imbalance, moves = template.moves or (20.0, 10)
    cpu, memory = template.thresholds
    interval = float(template.interval.removesuffix("s"))
    assert (Mode.OBSERVE, interval, moves) == (found.mode, found.interval, found.max_moves)
    assert ({"cpu": cpu / 100, "memory": memory / 100}, template.excluded) == (found.limits, found.excluded_namespaces)
    assert (template.strategies or ALL_THREE) == tuple(each.name for each in found.strategies)
    assert LoadBalancing(imbalance) in found.strategies
    assert (template.selector is not None) == (found.excluded_pod_selector is not None)


def test_rescheduler_examples_without_a_choice(tmp_path: Path) -> None:
    """The file of examples lists what it holds, without the guide."""
    refused = ran("config", "check", written(tmp_path, EXAMPLES))
    assert 2 == refused.exit_code
    assert all(f"rescheduler-config-{name}/config.yaml" in refused.stderr for name in TEMPLATES)
    assert "guide" not in refused.stderr


def test_rescheduler_alone(tmp_path: Path) -> None:
    """A ConfigMap of its own needs no choice, and measures by metrics-server."""
    file = written(tmp_path, config_map("rescheduler-config", "config.yaml", rescheduler(TEMPLATES["default"])))
    assert 0 == ran("config", "check", file).exit_code
    (source,) = parse(Path(file).read_bytes(), file).trimtab.sources
    assert isinstance(source, MetricsServerSettings)


# --- real-usage-scheduler: the file, and the Secret that it is delivered in


def real_usage(plugin: str, name: str) -> str:
    return textwrap.dedent(f"""\
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        leaderElection:
          leaderElect: false
        clientConnection:
          kubeconfig: "/etc/kubernetes/scheduler.conf"
        profiles:
        - schedulerName: {name}
          plugins:
            score:
              enabled:
              - name: {plugin}
              disabled:
              - name: "*"
          pluginConfig:
          - name: {plugin}
            args:
              prometheusApiAddr: http://10.96.0.102:9090
              queryMetricTimeSeconds: 10
              queryMetricIntervalSeconds: 10
        """)


@pytest.mark.parametrize("plugin", ["MemRealUsage", "CpuRealUsage"])
@pytest.mark.parametrize("encoded", [False, True])
def test_real_usage(tmp_path: Path, plugin: str, encoded: bool) -> None:
    """The Secret with kubeconfig and configuration is read as the file is, its Prometheus becomes the source."""
    text, kubeconfig = real_usage(plugin, "real-usage"), "apiVersion: v1\nkind: Config\nclusters: []\n"
    data = {"scheduler.conf": kubeconfig, f"{plugin}-scheduler-conf.yaml": text}
    values = {key: b64encode(value.encode()).decode() for key, value in data.items()} if encoded else data
    carrier = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data" if encoded else "stringData": values,
    }
    checked = ran("config", "check", written(tmp_path, yaml.safe_dump(carrier)))
    assert 0 == checked.exit_code
    assert checked.stdout.endswith("valid; profiles: real-usage; metric sources: prometheus\n")
    configuration = parse(yaml.safe_dump(carrier), "f.yaml")
    assert comparable(parse(text, "f.yaml")) == comparable(configuration)
    (source,) = configuration.trimtab.sources
    assert isinstance(source, PrometheusSettings)
    assert ("http://10.96.0.102:9090", 10.0) == (source.url, source.interval)


# --- the extended scheduler guide: a v1beta2 file


GUIDE = """\
apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: custom-scheduler
  plugins:
    queueSort: {enabled: [{name: PrioritySort}]}
    preFilter: {enabled: [{name: NodeResourcesFit}, {name: NodePorts}]}
    filter: {enabled: [{name: NodeUnschedulable}, {name: NodeName}, {name: TaintToleration}, {name: NodeAffinity}]}
    score: {enabled: [{name: NodeResourcesBalancedAllocation, weight: 1}, {name: ImageLocality, weight: 1}]}
    bind: {enabled: [{name: DefaultBinder}]}
"""


def test_guide(tmp_path: Path) -> None:
    """It is valid with a note on its version; as shown it is a file of v1 without one, for kube-scheduler, too."""
    file = written(tmp_path, config_map("custom-scheduler-config", "config.yaml", GUIDE))
    checked, shown = ran("config", "check", file), ran("config", "show", file).stdout
    assert (0, True) == (checked.exit_code, "v1beta2 is deprecated" in checked.stdout)
    assert "# For Trimtab and kube-scheduler" in shown
    again = ran("config", "check", written(tmp_path, shown))
    assert (0, False) == (again.exit_code, "deprecated" in again.stdout)


# --- dynamic-Scheduler: rule.yaml with a job of a Chinese name


RULES = """\
PromJob:
  Name: "测试环境k8s资源节点监控"
Rulename:
  ## 过去一分钟之内的node的cpu使用率
  Node_cpu1:
    Promsql: "(1-(sum(rate(node_cpu_seconds_total{job='测试',mode='idle'}[1m]))by(instance)))*100"
    Threshold: 70
  Node_mem:
    Promsql: "(1 - (node_memory_MemAvailable_bytes{job='测试'} / (node_memory_MemTotal_bytes{job='测试'})))* 100"
    Threshold: 70
"""


def test_rules(tmp_path: Path) -> None:
    """rule.yaml is valid, and as shown it is a TrimtabConfiguration that is valid, too."""
    file = written(tmp_path, RULES)
    assert 0 == ran("config", "check", file).exit_code
    shown = ran("config", "show", file, "-prom=http://121.40.0.1:49090")
    assert (0, "") == (shown.exit_code, shown.stderr)
    again = ran("config", "check", written(tmp_path, shown.stdout))
    assert (0, True) == (again.exit_code, "metric sources: prometheus" in again.stdout)
    assert "status" in shown.stdout
    assert "presure" in shown.stdout


# --- everything else that these projects ship


OTHERS = {
    "a kind cluster": ("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: []\n", "kind create cluster"),
    "a Deployment of 2020": ("apiVersion: extensions/v1beta1\nkind: Deployment\n", "kubectl apply -f"),
    "RBAC, then more": (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n---\napiVersion: v1\nkind: Namespace\n",
        "this is a ClusterRole of rbac.authorization.k8s.io/v1",
    ),
    "alerts": ("apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n", "kubectl apply -f"),
    "a ServiceMonitor": ("apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\n", "kubectl apply -f"),
    "a gang": ("apiVersion: scheduling.k8s.io/v1alpha1\nkind: PodGroup\n", "docs/gangs.md"),
    "a dashboard": (config_map("dash", "dash.json", '{"panels": []}'), "no key of this ConfigMap holds"),
    "Prometheus": (config_map("prometheus-config", "prometheus.yml", "global: {}\n"), "no key of this ConfigMap holds"),
    "a log level that nothing reads": (
        config_map("scheduler-config", "logging.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\n"),
        "no key of this ConfigMap holds",
    ),
    "recording rules": ("groups:\n- name: for-usage-scheduler\n  rules: []\n", "rule_files"),
    "a kubeconfig": ("apiVersion: v1\nkind: Config\n", "--kubeconfig"),
    "a kustomization": ("resources:\n- rbac.yaml\n- config.yaml\n", "kubectl apply -k"),
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("verb", ["check", "show"])
def test_other_files(tmp_path: Path, verb: str, what: str) -> None:
    """One sentence says what it is and what reads it, and the exit code is 2."""
    content, words = OTHERS[what]
    result = ran("config", verb, written(tmp_path, content))
    assert (2, "", 1) == (result.exit_code, result.stdout, len(result.stderr.splitlines()))
    assert words in result.stderr
