"""A synchronous API client for tests and benchmarks.

One keep-alive connection per thread, and a thread pool for operations on many objects.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Document = dict[str, Any]
Documents = list[Document]
Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = 16
TIMEOUT = 60.0
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server returned an error."""

    def __init__(self, request: str, status: int, body: bytes) -> None:
        """Keep the status; the message has the request and the response."""
        super().__init__(f"{request} → {status} {body[:500].decode(errors='replace')}")
        self.status = status


class Client:
    """A small client of one API server."""

    def __init__(self, port: int, tls: ssl.SSLContext, headers: Mapping[str, str] | None = None) -> None:
        """Connect to 127.0.0.1 at this port, authenticated by the TLS context or by headers."""
        self._port = port
        self._tls = tls
        self._headers = dict(headers or {})
        self._own = threading.local()
        self._opened: list[http.client.HTTPSConnection] = []
        self._pool = ThreadPoolExecutor(THREADS)
        self._resources: dict[str, dict[str, Document]] = {}

    def close(self) -> None:
        """Stop the threads and close every connection."""
        self._pool.shutdown(cancel_futures=True)
        for connection in self._opened:
            connection.close()

    def raw(self, method: str, path: str, body: bytes | None = None, content: str = "") -> tuple[int, bytes]:
        """Send one request and return any response; a broken keep-alive connection is replaced once."""
        headers = {**self._headers, "Content-Type": content or "application/json"}
        fresh = not hasattr(self._own, "connection")
        try:
            return self._exchange(method, path, body, headers)
        except (OSError, http.client.HTTPException):
            self._drop()
            if fresh:
                raise
        return self._exchange(method, path, body, headers)

    def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = self._connection()
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def _connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._own, "connection"):
            connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=TIMEOUT, context=self._tls)
            self._own.connection = connection
            self._opened.append(connection)
        kept: http.client.HTTPSConnection = self._own.connection
        return kept

    def _drop(self) -> None:
        self._own.connection.close()
        self._opened.remove(self._own.connection)
        del self._own.connection

    def call(self, method: str, path: str, document: Document | None = None, content: str = "") -> Any:
        """Send one request with a JSON body; return the decoded response or raise ApiError."""
        body = None if document is None else json.dumps(document).encode()
        status, answer = self.raw(method, path, body, content)
        if status >= 300:
            raise ApiError(f"{method} {path}", status, answer)
        return json.loads(answer)

    def get(self, path: str) -> Any:
        """GET a path."""
        return self.call("GET", path)

    def list(self, path: str) -> Documents:
        """The items of a consistent list, from etcd's latest revision."""
        items: Documents = self.call("GET", path)["items"]
        return items

    def patch(self, path: str, change: Document, content: str = MERGE_PATCH) -> Any:
        """Patch an object, by merge patch by default."""
        return self.call("PATCH", path, change, content)

    def delete(self, path: str, grace_seconds: int | None = None) -> Any:
        """Delete an object, immediately with a grace period of 0."""
        return self.call("DELETE", path, None if grace_seconds is None else {"gracePeriodSeconds": grace_seconds})

    def create(self, document: Document) -> Document:
        """Create the object in its collection."""
        created: Document = self.call("POST", self.collection(document), document)
        return created

    def apply(self, document: Document) -> Document:
        """Server-side apply, forcing conflicts."""
        path = f"{self.collection(document)}/{document['metadata']['name']}?fieldManager=rig&force=true"
        applied: Document = self.call("PATCH", path, document, APPLY_PATCH)
        return applied

    def create_many(self, documents: Iterable[Document]) -> Documents:
        """Create all objects concurrently; the responses are in the same order."""
        return [*self.map_concurrently(self.create, documents)]

    def delete_many(self, paths: Iterable[str], grace_seconds: int | None = None) -> None:
        """Delete all paths concurrently."""
        self.map_concurrently(lambda path: self.delete(path, grace_seconds), paths)

    def map_concurrently(self, action: Callable[[Item], Result], items: Iterable[Item]) -> Sequence[Result]:
        """Call the function for each item on the thread pool; the first error is raised."""
        return tuple(self._pool.map(action, items))

    def collection(self, document: Document) -> str:
        """The path of the object's collection, by discovery."""
        version, kind = document["apiVersion"], document["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if kind not in self._resources.get(version, {}):
            found: Documents = self.get(root)["resources"]
            self._resources[version] = {each["kind"]: each for each in found if "/" not in each["name"]}
        resource = self._resources[version][kind]
        if not resource["namespaced"]:
            return f"{root}/{resource['name']}"
        return f"{root}/namespaces/{document['metadata'].get('namespace', 'default')}/{resource['name']}"
