"""Every field of a `TrimtabConfiguration`, with what it does; reading their values is left to others."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.config.config_node import ConfigNode
from trimtab.config.fields import Field, Support, children

GROUP = "trimtab.dev"
VERSION = f"{GROUP}/v1alpha1"
KIND = "TrimtabConfiguration"

_ABOUT = {
    "apiVersion": f"must be {VERSION}",
    "kind": f"must be {KIND}",
    "sources[].name": "what logs and metrics call the source; each needs its own",
    "sources[].prometheus.url": "where its HTTP API is; no name or password in it, no link-local or metadata address",
    "sources[].prometheus.interval": "15s unless set: how often it is asked; 1s to 1h",
    "sources[].prometheus.timeout": "10s unless set: how long an answer may take; at most the interval",
    "sources[].prometheus.nodeLabel": "`auto` unless set: the label whose value is the node's name or address",
    "sources[].prometheus.metrics": "which built-in queries are asked: nodeCPU, nodeMemory, podCPU and podMemory unless "
    "set; also psi and memoryAvailable",
    "sources[].prometheus.queries[].name": "`cpu` or `memory`, in place of the built-in query; any other name is a metric "
    "of your own",
    "sources[].prometheus.queries[].query": "PromQL, asked once for all nodes or pods; `$window` and `$interval` are filled "
    "in",
    "sources[].prometheus.queries[].of": "`nodes` unless set, or `pods`",
    "sources[].prometheus.queries[].unit": "for cpu: percent, ratio, cores or millicores; for memory: percent, ratio or "
    "bytes; for others none",
    "sources[].prometheus.queries[].statistic": "`latest` unless set; mean or deviation if the query itself works them out",
    "sources[].prometheus.queries[].window": "the span that a value speaks for; a moment unless set",
    "sources[].prometheus.bearerTokenFile": "a file with a token, read again when it changes",
    "sources[].prometheus.basicAuth.username": "the name to log in with",
    "sources[].prometheus.basicAuth.passwordFile": "a file with its password",
    "sources[].prometheus.tls.caFile": "whom to believe, in PEM; the system's authorities unless set",
    "sources[].prometheus.tls.certFile": "the certificate to show, in PEM; needs keyFile",
    "sources[].prometheus.tls.keyFile": "its key; needs certFile",
    "sources[].prometheus.tls.serverName": "the name to find in its certificate, if not the one in the url",
    "sources[].prometheus.tls.insecureSkipVerify": "false unless set; true believes anybody",
    "sources[].prometheus.allowAddresses": "IP addresses and networks to be asked although they are link-local or the like",
    "sources[].prometheus.rateWindow": "2m unless set: the span that rates in built-in queries cover; at least four "
    "scrape intervals",
    "sources[].prometheus.matchLabels": "labels that all series of built-in queries must have, such as `cluster: eu-1` "
    "where many clusters share it",
    "sources[].metricsServer.interval": "30s unless set: how often metrics.k8s.io is asked; 1s to 1h",
    "sources[].metricsServer.timeout": "10s unless set; at most the interval",
    "sources[].replay.path": "a file of recorded readings, one JSON object a line",
    "sources[].replay.interval": "15s unless set: how often a recorded cycle is played",
    "load.freshFor": "2m unless set: how old a sample may be to count in full",
    "load.staleAfter": "5m unless set: from this age on a sample counts for nothing; not less than freshFor",
    "load.window": "15m unless set: the span of a node's mean and deviation; at most 1h",
    "load.mostMissing": "0.5 unless set: where a larger share of nodes has no data, `trimtab doctor` calls it a problem; "
    "moves will heed it",
    "load.estimates": "how pods that were never measured are guessed, first rule first: siblings, cluster, koordinator "
    "unless set; also trimaran, volcano, requests",
    "labels": "pressure labels, see [labels.md](labels.md); none unless set",
    "logging.format": "`text` unless set, or `json`",
    "logging.level": "`info` unless set; debug, warning or error",
    "logging.decisions": "true unless set: one line for every decision",
    "metrics.nodeUsage": "false unless set: also serve what each node uses, two series a node",
}
TRIMTAB_FIELDS = tuple(Field(path, Support.SUPPORTED, about) for path, about in _ABOUT.items())


def known_fields(node: ConfigNode, schema: str, further: Iterable[str] = ()) -> dict[str, ConfigNode]:
    """The fields that stand at a place; unknown ones are reported."""
    return node.fields({*children(schema, TRIMTAB_FIELDS), *further}) or {}
