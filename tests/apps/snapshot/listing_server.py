"""A fake API server that lists the cluster with planted secrets, and refuses what it is told to."""

from __future__ import annotations

from collections.abc import Collection

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from tests.wire.json_objects import Json
from tests.wire.planted_secrets import cluster
from trimtab.apps.snapshot.objects import listings
from trimtab.wire.requests import Request


def listing_server(
    objects: dict[str, list[Json]] | None = None,
    forbidden: Collection[str] = (),
    absent: Collection[str] = ("podgroups",),
) -> FakeTransport:
    """Serves these objects, by default those of `planted_secrets`; what is forbidden or absent is named by kind."""
    served = cluster() if objects is None else objects
    kinds = {each.path: each.kind for each in listings()}

    def answer(request: Request) -> FakeResponse:
        path = request.path.partition("?")[0]
        if request.method != "GET" or path not in (*kinds, "/version"):
            return json_response({"kind": "Status", "message": f"unexpected {request.method} {path}"}, 400)
        if path == "/version":
            return json_response({"gitVersion": "v1.35.0"})
        kind = kinds[path]
        if kind in forbidden:
            return json_response({"kind": "Status", "message": f'User "ann" cannot list resource "{kind}"'}, 403)
        if kind in absent:
            return json_response({"kind": "Status", "message": "not found"}, 404)
        body = {"kind": "AnyList", "metadata": {"resourceVersion": "9"}, "items": served.get(kind, [])}
        return json_response(body)

    return FakeTransport(answer)
