"""A validating webhook that holds a binding until the test releases it, for exact races without patching anything."""

from __future__ import annotations

import json
import ssl
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from tools.controlplane.client import Document
from tools.controlplane.credentials import base64_of
from tools.controlplane.rig import Rig

NAME = "hold-bindings.trimtab.test"
TIMEOUT = 25.0
REGISTRATION_DELAY = 2.0  # the API server learns of a new webhook by a watch
SERVICE_ACCOUNTS_ONLY = (
    "request.userInfo.username.startsWith('system:serviceaccount:')"  # the test itself may bind freely
)


class BindingWebhook:
    """Lets `free` bindings through, then holds every further one until `release` or `refuse`; `held` says that one waits."""

    resource = "pods/binding"

    def __init__(self, rig: Rig, pass_first: int = 0) -> None:
        self._rig = rig
        self._free = pass_first
        self._count = 0
        self._lock = threading.Lock()
        self.held = threading.Event()
        self._go = threading.Event()
        self._allowed = True

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._answering())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._rig.credentials.server_cert, self._rig.credentials.server_key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self._rig.apply([self._registration()])
        time.sleep(REGISTRATION_DELAY)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._rig.admin.delete(f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}")
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def release(self) -> None:
        """Release the held binding and let all others pass."""
        self._go.set()

    def deny(self) -> None:
        """Deny the held binding: the API server may still process the request of a client that has died."""
        self._allowed = False
        self._go.set()

    def admit(self, request: Document) -> bool:
        """Whether what the API server asks about is allowed."""
        return self.admit_or_hold()

    def admit_or_hold(self) -> bool:
        """Whether the binding is allowed, once that is decided."""
        with self._lock:
            self._count += 1
            free = self._count <= self._free
        if free:
            return True
        self.held.set()
        self._go.wait(TIMEOUT)
        return self._allowed

    def _registration(self) -> dict[str, object]:
        url = f"https://127.0.0.1:{self._server.server_address[1]}/"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [self.resource]}
        webhook = {
            "name": NAME,
            "clientConfig": {"url": url, "caBundle": base64_of(self._rig.credentials.ca_file)},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
            "matchConditions": [{"name": "service-accounts-only", "expression": SERVICE_ACCOUNTS_ONLY}],
            "timeoutSeconds": 30,
        }
        kind = "ValidatingWebhookConfiguration"
        metadata = {"name": NAME}
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "webhooks": [webhook],
        }

    def _answering(self) -> type[BaseHTTPRequestHandler]:
        point = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                allowed = point.admit(asked["request"])
                review = {
                    "apiVersion": "admission.k8s.io/v1",
                    "kind": "AdmissionReview",
                    "response": {"uid": asked["request"]["uid"], "allowed": allowed},
                }
                body = json.dumps(review).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                with suppress(OSError):  # an API server that was killed meanwhile no longer listens
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Answer
