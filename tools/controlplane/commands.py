"""Command lines of the control plane's programs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.controlplane.client import Document
from tools.controlplane.credentials import Credentials

LIFECYCLE = "node-lifecycle-controller"
FRONT_PROXY = "front-proxy"


def to_flags(flags: Mapping[str, object]) -> list[str]:
    """`--name=value` for each flag."""
    return [f"--{name}={value}" for name, value in flags.items()]


def etcd(name: str, data: Path, url: str, peer: str) -> list[str]:
    """A single etcd member without fsync, because tests need no durability."""
    flags = {
        "name": name,
        "data-dir": data,
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"{name}={peer}",
        "unsafe-no-fsync": "true",
        "quota-backend-bytes": 8 << 30,
        "log-level": "warn",
    }
    return to_flags(flags)


def apiserver(
    port: int, etcd_url: str, credentials: Credentials, taint_nodes: bool, priority_and_fairness: bool
) -> list[str]:
    """An API server with TLS and RBAC on loopback; without priority and fairness it has no request limits either."""
    flags: dict[str, object] = {
        "etcd-servers": etcd_url,
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": port,
        "endpoint-reconciler-type": "none",
        "service-cluster-ip-range": "10.0.0.0/24",
        "tls-cert-file": credentials.server_cert,
        "tls-private-key-file": credentials.server_key,
        "client-ca-file": credentials.ca_file,
        "authorization-mode": "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-signing-key-file": credentials.token_key,
        "service-account-key-file": credentials.token_key,
        **aggregation(credentials),
    }
    if not taint_nodes:
        # It taints every new node not-ready, and only the node-lifecycle controller would remove the taint.
        flags["disable-admission-plugins"] = "TaintNodesByCondition"
    if not priority_and_fairness:
        flags["enable-priority-and-fairness"] = "false"
        flags["max-requests-inflight"] = flags["max-mutating-requests-inflight"] = 10_000
    return to_flags(flags)


def aggregation(credentials: Credentials) -> dict[str, object]:
    """How the API server authenticates to aggregated API servers and passes on the user."""
    cert, key = credentials.client_certificate(FRONT_PROXY)
    return {
        "proxy-client-cert-file": cert,
        "proxy-client-key-file": key,
        "requestheader-client-ca-file": credentials.ca_file,
        "requestheader-allowed-names": FRONT_PROXY,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    }


def controller_manager(kubeconfig: Path, credentials: Credentials, names: Sequence[str]) -> list[str]:
    """kube-controller-manager with these controllers only."""
    flags = {
        "kubeconfig": kubeconfig,
        "controllers": ",".join(names),
        "service-account-private-key-file": credentials.token_key,
        "root-ca-file": credentials.ca_file,
        "leader-elect": "false",
        "secure-port": 0,
        "kube-api-qps": 1000,
        "kube-api-burst": 1000,
    }
    return to_flags(flags)


def kwok(kubeconfig: Path, files: Sequence[Path], port: int, credentials: Credentials) -> list[str]:
    """kwok as the kubelet of every node, all on one port."""
    flags = {
        "kubeconfig": kubeconfig,
        "config": ",".join(map(str, files)),
        "manage-all-nodes": "true",
        "node-ip": "127.0.0.1",
        "node-port": port,
        "server-address": f"127.0.0.1:{port}",
        "tls-cert-file": credentials.server_cert,
        "tls-private-key-file": credentials.server_key,
        "node-lease-duration-seconds": 40,
    }
    return to_flags(flags)


def kube_scheduler(config: Path, credentials: Credentials, port: int) -> list[str]:
    """kube-scheduler with unauthenticated health and metrics endpoints on loopback."""
    flags = {
        "config": config,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "tls-cert-file": credentials.server_cert,
        "tls-private-key-file": credentials.server_key,
        "authorization-always-allow-paths": "/healthz,/livez,/readyz,/metrics,/metrics/resources",
    }
    return to_flags(flags)


def scheduler_config(given: Document, kubeconfig: Path) -> Document:
    """The given configuration with the kubeconfig, and without leader election unless it is set."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **given,
        "clientConnection": {"kubeconfig": str(kubeconfig), **given.get("clientConnection", {})},
    }
