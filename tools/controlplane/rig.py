"""Starts, disturbs and stops a real control plane on loopback.

    with Rig(kwok=True, controllers=WORKLOADS) as rig:
        rig.admin.create_many(node(f"node-{n}") for n in range(10))

    absent ── start ──▶ serving ── kill_apiserver ──▶ down ── start_apiserver ──▶ serving (same port, same data)
                           └───────────── stop ─────────┴──▶ absent

etcd and kube-apiserver always run; kube-controller-manager, kwok, metrics-server and kube-scheduler are optional. All of them
end with the block or with the process. Prometheus needs no control plane: see prometheus.py.
"""

import http.client
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane import audit, build, commands, metrics_server
from tools.controlplane.client import ApiError, Client, Document
from tools.controlplane.credentials import Credentials
from tools.controlplane.process import PortTaken, Process, Startable, free_port, retry_port_taken, wait_ready

FOLDER_VARIABLE = "TRIMTAB_CONTROLPLANE"
FEWER_COLLECTIONS = {
    "GOGC": "400"
}  # saves a sixth of the CPU time; kube-scheduler, which is measured, keeps its default
WORKLOADS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
)


class NotBuilt(Exception):
    """The control plane is not in the cache."""


def controlplane_folder() -> Path:
    """The folder of the built control plane; NotBuilt, with the remedy, if there is none.

    TRIMTAB_CONTROLPLANE names that of another Kubernetes release, see tools/compat.
    """
    if named := os.environ.get(FOLDER_VARIABLE):
        if not (Path(named) / "kube-apiserver").exists():
            raise NotBuilt(f"{FOLDER_VARIABLE}={named} has no kube-apiserver: make compat prints the folders it builds")
        return Path(named)
    folder = build.folder()
    if not folder.is_dir():
        raise NotBuilt("the real control plane is not built: make controlplane builds it")
    return folder


class Rig(Startable):
    """One control plane with its own ports, data, certificates and processes."""

    workspace: Path
    binaries: Path
    url: str
    admin: Client
    admin_kubeconfig: Path
    credentials: Credentials
    etcd: Process
    apiserver: Process
    controller_manager: Process
    kwok: Process

    def __init__(
        self,
        folder: Path | None = None,
        *,
        controllers: Sequence[str] = (),
        kwok: bool = False,
        stages: Path | None = None,
        priority_and_fairness: bool = True,
        audited: bool = True,
        metered: bool = False,
        workspace: Path | None = None,
    ) -> None:
        """Set the options; nothing runs yet. A given workspace is kept, with its logs; a temporary one is removed.

        `stages` replaces kwok's default stages: what its kubelets do with pods and nodes.
        """
        self.binaries = folder or controlplane_folder()
        self._stages = stages or self.binaries / "kwok-stages.yaml"
        self._controllers = tuple(controllers)
        self._with_kwok = kwok
        self._fair = priority_and_fairness
        self._audited = audited
        self._metered = metered
        self._kept = workspace is not None
        self.workspace = workspace or Path(tempfile.mkdtemp(prefix="trimtab-rig-"))
        self._environment = {"HOME": str(self.workspace)}
        self._processes: list[Process] = []
        self._audit_logs: list[audit.AuditLog] = []  # one for each start of the API server

    def start(self) -> None:
        """Start all requested programs and wait until pods can be created."""
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.credentials = Credentials(self.workspace)
        self.etcd = retry_port_taken(self._start_etcd)
        retry_port_taken(self._start_apiserver_somewhere)
        self.ensure_namespace("default")
        if self._controllers:
            flags = commands.controller_manager(self.admin_kubeconfig, self.credentials, self._controllers)
            self.controller_manager = self._launch("kube-controller-manager", flags)
        if self._with_kwok:
            self.kwok = retry_port_taken(self._start_kwok)

    def stop(self) -> None:
        """Stop every process, then remove the workspace unless it was given."""
        for process in reversed(self._processes):
            process.kill()
        self._processes.clear()
        if hasattr(self, "admin"):
            self.admin.close()
        if not self._kept:
            shutil.rmtree(self.workspace, ignore_errors=True)

    # Processes.

    def _launch(self, part: str, flags: Iterable[str], url: str = "") -> Process:
        command = [str(self.binaries / part), *flags]
        environment = self._environment if part == "kube-scheduler" else self._environment | FEWER_COLLECTIONS
        process = Process(command, self.workspace / f"{part}.log", environment, url)
        self._processes.append(process)
        return process

    def _ready(self, process: Process, answers: Callable[[], bool]) -> Process:
        """Wait until the process is ready; drop it if it exits instead."""
        try:
            return wait_ready(process, answers)
        except (PortTaken, RuntimeError):
            self._processes.remove(process)
            raise

    def _start_etcd(self) -> Process:
        # The name distinguishes it from another rig's etcd that may have taken the port first.
        self._etcd_port, self._etcd_peer = free_port(), free_port()
        shutil.rmtree(self.workspace / "etcd", ignore_errors=True)
        return self._run_etcd()

    def _run_etcd(self) -> Process:
        name, url = self.workspace.name, f"http://127.0.0.1:{self._etcd_port}"
        flags = commands.etcd(name, self.workspace / "etcd", url, f"http://127.0.0.1:{self._etcd_peer}")
        process = self._launch("etcd", flags, url)
        return self._ready(process, lambda: name in str(self._etcd_call("/v3/cluster/member/list", {})))

    def _start_apiserver_somewhere(self) -> Process:
        if hasattr(self, "admin"):
            self.admin.close()
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.admin = Client(self._port, self.credentials.tls("admin", "system:masters"))
        self.admin_kubeconfig = self.client_kubeconfig("admin", "system:masters")
        return self.start_apiserver()

    def start_apiserver(self) -> Process:
        """Start the API server, after a kill on the same port and data, and wait until it is ready."""
        tainting = commands.LIFECYCLE in self._controllers
        flags = commands.apiserver(self._port, self.etcd.url, self.credentials, tainting, self._fair)
        if self._audited:
            # One log per start, so that a line truncated by a crash is never joined with the next one.
            log = self.workspace / f"audit-{len(self._audit_logs) + 1}.log"
            self._audit_logs.append(audit.AuditLog(log))
            flags += audit.flags(self.workspace / "audit-policy.json", log)
        self.apiserver = self._launch("kube-apiserver", flags, self.url)
        return self._ready(self.apiserver, lambda: self.admin.raw("GET", "/readyz")[0] == 200)

    def kill_apiserver(self) -> None:
        """Crash the API server."""
        self.apiserver.kill()
        self._processes.remove(self.apiserver)

    def kill_etcd(self) -> None:
        """Crash etcd."""
        self.etcd.kill()
        self._processes.remove(self.etcd)

    def restart_etcd(self) -> None:
        """After a kill, on the same port and data."""
        self.etcd = self._run_etcd()

    def fill_etcd(self, full: bool) -> None:
        """Raise the alarm by which a full etcd refuses every write, or end it."""
        member = self._etcd_call("/v3/cluster/member/list", {})["members"][0]["ID"]
        action = "ACTIVATE" if full else "DEACTIVATE"
        self._etcd_call("/v3/maintenance/alarm", {"action": action, "memberID": member, "alarm": "NOSPACE"})

    def _start_kwok(self) -> Process:
        port = free_port()
        files = (self._stages, self.binaries / "kwok-metrics.yaml")[: 1 + self._metered]
        flags = commands.kwok(self.admin_kubeconfig, files, port, self.credentials)
        process = self._launch("kwok", flags, f"https://127.0.0.1:{port}")
        return self._ready(process, lambda: bool(self.scrape(process, "/healthz")))

    def start_metrics_server(self) -> Process:
        """Start the real metrics-server behind the API server; the rig must be `metered`."""
        return retry_port_taken(self._start_metrics_server_somewhere)

    def _start_metrics_server_somewhere(self) -> Process:
        port = free_port()
        flags = metrics_server.flags(port, self.admin_kubeconfig, self.credentials)
        process = self._launch("metrics-server", flags, f"https://127.0.0.1:{port}")
        self._ready(process, lambda: bool(self.scrape(process, "/livez")))
        self.ensure_namespace(metrics_server.NAMESPACE)
        self.apply(metrics_server.registration(port, self.credentials))
        return self._ready(process, lambda: self.admin.raw("GET", metrics_server.ROOT)[0] == 200)

    def start_kube_scheduler(self, config: Path | Document | None = None) -> Process:
        """Start the real kube-scheduler with this configuration (file or document), as system:kube-scheduler.

        Leader election is off unless the configuration enables it. `scrape` reads its metrics.
        """
        given: Document = yaml.safe_load(config.read_text()) if isinstance(config, Path) else dict(config or {})
        path = self.workspace / "kube-scheduler.json"
        path.write_text(json.dumps(commands.scheduler_config(given, self.client_kubeconfig("system:kube-scheduler"))))
        return retry_port_taken(lambda: self._start_scheduler_somewhere(path))

    def _start_scheduler_somewhere(self, config: Path) -> Process:
        port = free_port()
        flags = commands.kube_scheduler(config, self.credentials, port)
        process = self._launch("kube-scheduler", flags, f"https://127.0.0.1:{port}")
        return self._ready(process, lambda: bool(self.scrape(process, "/healthz")))

    # Credentials.

    def client_kubeconfig(self, user: str, group: str = "nobody") -> Path:
        """A kubeconfig with a certificate for this user, who has no role unless the group has one."""
        return self.credentials.certificate_kubeconfig(self.url, user, group)

    def anonymous_kubeconfig(self) -> Path:
        """A kubeconfig without credentials."""
        return self.credentials.kubeconfig(self.url, "anonymous", {})

    def service_account_token(self, namespace: str, name: str, seconds: int = 7200) -> str:
        """A fresh token of this service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.admin.call("POST", path, {"spec": {"expirationSeconds": seconds}})
        token: str = answer["status"]["token"]
        return token

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a fresh token of this service account."""
        token = self.service_account_token(namespace, name)
        return self.credentials.kubeconfig(self.url, f"{namespace}-{name}", {"token": token})

    # Operations for tests and benchmarks.

    def ensure_namespace(self, name: str) -> None:
        """Create the namespace and its default service account, which pods need, if they do not exist."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        for document in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, account):
            try:
                self.admin.create(document)
            except ApiError as error:
                if error.status != 409:
                    raise

    def apply(self, source: Path | Iterable[Document]) -> list[Document]:
        """Server-side apply of a YAML file or of documents, in their order."""
        documents = yaml.safe_load_all(source.read_text()) if isinstance(source, Path) else source
        return [self.admin.apply(document) for document in documents if document]

    def kubectl(self, *arguments: str) -> str:
        """The output of kubectl, run as administrator."""
        command = [str(self.binaries / "kubectl"), f"--kubeconfig={self.admin_kubeconfig}", *arguments]
        environment = {**os.environ, **self._environment}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def compact_etcd(self) -> int:
        """Compact etcd at the current revision, which it returns; watches from older ones then get 410.

        The API server still serves them from its cache until it is restarted.
        """
        revision = int(self._etcd_call("/v3/kv/range", {"key": "AA=="})["header"]["revision"])
        self._etcd_call("/v3/kv/compaction", {"revision": revision, "physical": True})
        return revision

    def _etcd_call(self, path: str, question: Mapping[str, object]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=60)
        return json.loads(_answer(connection, "POST", path, json.dumps(question)))

    def audit_events(self) -> list[Document]:
        """All audit events so far, over all starts of the API server, in order."""
        return [event for log in self._audit_logs for event in log.events()]

    def scrape(self, process: Process, path: str = "/metrics") -> str:
        """GET an unauthenticated page of a process that serves TLS."""
        port = int(process.url.rpartition(":")[2])
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=self.credentials.tls())
        return _answer(connection, "GET", path).decode()


def _answer(connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None) -> bytes:
    """Send one request and close the connection."""
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise http.client.HTTPException(f"{method} {path} → {answer.status} {content[:500]!r}")
    return content
