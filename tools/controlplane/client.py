"""Decides how tests and benchmarks speak to the API server as its administrator; leaves what they say to them.

Synchronous, one keep-alive connection a thread, and a pool of threads for many objects at once.
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
    """The API server answered with an error."""

    def __init__(self, request: str, status: int, body: bytes) -> None:
        """Keep the status, and say all that is known in the message."""
        super().__init__(f"{request} → {status} {body[:500].decode(errors='replace')}")
        self.status = status


class Client:
    """A small client of one API server."""

    def __init__(self, port: int, tls: ssl.SSLContext, headers: Mapping[str, str] | None = None) -> None:
        """Speak to 127.0.0.1 at this port; the context says as whom, or the headers do."""
        self._port = port
        self._tls = tls
        self._headers = dict(headers or {})
        self._own = threading.local()
        self._opened: list[http.client.HTTPSConnection] = []
        self._pool = ThreadPoolExecutor(THREADS)
        self._resources: dict[str, dict[str, Document]] = {}

    def close(self) -> None:
        """End the threads and close every connection."""
        self._pool.shutdown(cancel_futures=True)
        for connection in self._opened:
            connection.close()

    def raw(self, method: str, path: str, body: bytes | None = None, content: str = "") -> tuple[int, bytes]:
        """One request, whatever the answer; a kept connection that turns out dead is replaced once."""
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
        """One request with a JSON body; the decoded answer, or ApiError."""
        body = None if document is None else json.dumps(document).encode()
        status, answer = self.raw(method, path, body, content)
        if status >= 300:
            raise ApiError(f"{method} {path}", status, answer)
        return json.loads(answer)

    def get(self, path: str) -> Any:
        """One object, or whatever the path answers with."""
        return self.call("GET", path)

    def list(self, path: str) -> Documents:
        """The items of a consistent list: straight from etcd's newest revision."""
        items: Documents = self.call("GET", path)["items"]
        return items

    def patch(self, path: str, change: Document, content: str = MERGE_PATCH) -> Any:
        """Change an object, by merge patch unless told otherwise."""
        return self.call("PATCH", path, change, content)

    def delete(self, path: str, grace_seconds: int | None = None) -> Any:
        """Delete an object, at once with a grace of 0."""
        return self.call("DELETE", path, None if grace_seconds is None else {"gracePeriodSeconds": grace_seconds})

    def create(self, document: Document) -> Document:
        """Create the object in its collection."""
        created: Document = self.call("POST", self.collection(document), document)
        return created

    def apply(self, document: Document) -> Document:
        """Server-side apply, taking over every field that the document names."""
        path = f"{self.collection(document)}/{document['metadata']['name']}?fieldManager=rig&force=true"
        applied: Document = self.call("PATCH", path, document, APPLY_PATCH)
        return applied

    def create_many(self, documents: Iterable[Document]) -> Documents:
        """Create all of them over many connections at once; the answers in the same order."""
        return [*self.map_concurrently(self.create, documents)]

    def delete_many(self, paths: Iterable[str], grace_seconds: int | None = None) -> None:
        """Delete all of them over many connections at once."""
        self.map_concurrently(lambda path: self.delete(path, grace_seconds), paths)

    def map_concurrently(self, action: Callable[[Item], Result], items: Iterable[Item]) -> Sequence[Result]:
        """Do one thing to many items on the pool; the first error is raised."""
        return tuple(self._pool.map(action, items))

    def collection(self, document: Document) -> str:
        """The path of the collection that an object of this kind belongs to, as discovery tells it."""
        version, kind = document["apiVersion"], document["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if kind not in self._resources.get(version, {}):
            found: Documents = self.get(root)["resources"]
            self._resources[version] = {each["kind"]: each for each in found if "/" not in each["name"]}
        resource = self._resources[version][kind]
        if not resource["namespaced"]:
            return f"{root}/{resource['name']}"
        return f"{root}/namespaces/{document['metadata'].get('namespace', 'default')}/{resource['name']}"
