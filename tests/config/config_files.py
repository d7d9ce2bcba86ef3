"""Configuration files for these tests, and short ways to parse them."""

from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError
from trimtab.config.kube_scheduler import parse

TRIMTAB_HEAD = "apiVersion: trimtab.dev/v1alpha1\nkind: TrimtabConfiguration\n"
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FILE = "f.yaml"

FULL = (
    HEAD
    + """\
leaderElection:
  leaderElect: true
  leaseDuration: 20s
  renewDeadline: 15s
  retryPeriod: 2500ms
  resourceLock: leases
  resourceName: mine
  resourceNamespace: team-a
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
  qps: 12.5
  burst: 7
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
profiles:
- schedulerName: packing
  plugins:
    multiPoint:
      enabled: [{name: ImageLocality, weight: 4}]
      disabled: [{name: PodTopologySpread}]
    score:
      enabled: [{name: NodeResourcesFit, weight: 9}]
      disabled: [{name: TaintToleration}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/toy]
      ignoredResourceGroups: [example.org]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 3}, {name: nvidia.com/gpu}]
        requestedToCapacityRatio:
          shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]
  - name: NodeAffinity
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeAffinityArgs
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{key: pool, operator: In, values: [a, b]}]
          - matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 5
          preference: {matchExpressions: [{key: rank, operator: Gt, values: ["3"]}]}
- schedulerName: plain
"""
)

TRIMTAB_FULL = (
    TRIMTAB_HEAD
    + """\
sources:
- name: main
  prometheus:
    url: https://prometheus.monitoring.svc:9090/prom
    interval: 20s
    timeout: 5s
    nodeLabel: node
    metrics: [nodeMemory, podCPU, psi]
    queries:
    - name: cpu
      query: 1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[$window]))
      unit: ratio
      window: 5m
    - {name: queue, query: "sum by (pod) (queue_length)", of: pods, statistic: mean, window: 90s}
    bearerTokenFile: /etc/trimtab/token
    tls: {caFile: /etc/trimtab/ca.pem, certFile: /etc/trimtab/cert.pem, keyFile: /etc/trimtab/key.pem, serverName: prom}
    allowAddresses: [169.254.10.0/24]
    rateWindow: 4m
    matchLabels: {cluster: eu-1}
- {name: second, prometheus: {url: "http://10.96.0.102:9090", basicAuth: {username: me, passwordFile: /etc/pw}}}
- {name: server, metricsServer: {interval: 45s}}
load: {freshFor: 90s, staleAfter: 4m, window: 10m, mostMissing: 0.3, estimates: [siblings, trimaran]}
logging: {format: json, level: debug, decisions: false}
metrics: {nodeUsage: true}
"""
)


def parse_body(body: str) -> Configuration:
    """The configuration of a file with the usual header."""
    return parse(HEAD + body, FILE)


def problems_of(content: str | bytes) -> list[str]:
    """The problems of a file, one line each; none if it is valid."""
    try:
        parse(content, FILE)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def problems_of_body(body: str) -> list[str]:
    """The same for a file with the usual header, which has two lines."""
    return problems_of(HEAD + body)


def notes_of_body(body: str) -> list[str]:
    """The notes on a valid file, without those on unsupported default plugins."""
    return [str(note) for note in parse_body(body).notes if "not supported yet" not in note.message]


def comparable(configuration: Configuration) -> tuple[object, ...]:
    """A configuration as comparable values; profiles themselves compare by identity. preScore goes with score."""
    profiles = [
        (
            each.name,
            each.pre_enqueues,
            each.queue_sort,
            each.pre_filters,
            each.filters,
            each.post_filters,
            each.scores,
            each.reserves,
            each.permits,
            each.pre_binds,
            each.gang_plugin,
            each.tie_break,
        )
        for each in configuration.settings.profiles
    ]
    settings = configuration.settings
    rest = (settings.initial_backoff, settings.max_backoff, settings.load)
    return (profiles, *rest, configuration.leader_election, configuration.client_connection, configuration.trimtab)
