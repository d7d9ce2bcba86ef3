"""The logs of all replicas, each line with its pod's name; with `follow` also of pods that come later.

A log stream ends when its container restarts or the connection breaks. It is opened again from the last line that was seen:
every line is asked for with its time, which is cut off before printing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.apps.deploy.api_client import ApiClient, DeployError, Object, refusal
from trimtab.apps.deploy.release import COMPONENT, LABELLER, RESCHEDULER, TRIMTAB
from trimtab.kube.transport import Response, Unreachable
from trimtab.wire.requests import Request, quote

POLL_SECONDS = 2.0
IDLE_SECONDS = 3600.0

Print = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which logs: the last lines of each replica, of all components or of one, from now on or not."""

    namespace: str
    tail: int = 50
    follow: bool = False
    component: str = ""
    timestamps: bool = False


class PodLog:
    """The log of one container, printed line by line."""

    def __init__(self, pod: Object, options: LogOptions, write: Print) -> None:
        self.name: str = pod["metadata"]["name"]
        self._container: str = pod["spec"]["containers"][0]["name"]
        self._options, self._write = options, write
        self._last = ""

    def _request(self) -> Request:
        options = self._options
        query = f"container={quote(self._container)}&timestamps=true" + ("&follow=true" if options.follow else "")
        query += f"&sinceTime={quote(self._last)}" if self._last else f"&tailLines={options.tail}"
        return Request("GET", f"/api/v1/namespaces/{quote(options.namespace)}/pods/{quote(self.name)}/log?{query}")

    async def print(self, client: ApiClient) -> None:
        """Print until the stream ends; raises DeployError if there is no log to read."""
        async with client.transport.stream(self._request(), IDLE_SECONDS) as stream:
            if stream.status != 200:
                raise refusal(
                    Response(stream.status, stream.headers, await stream.body()), f"read the log of {self.name}"
                )
            async for lines in stream.lines():
                for line in lines:
                    self._print_line(line.decode(errors="replace"))

    def _print_line(self, line: str) -> None:
        stamp, _, text = line.partition(" ")
        if self._last and stamp <= self._last:  # the server rounds sinceTime down to whole seconds
            return
        self._last = stamp
        self._write(f"{self.name} {line if self._options.timestamps else text}")


async def print_logs(client: ApiClient, options: LogOptions, write: Print, warn: Print) -> None:
    """The logs of all replicas; raises DeployError if there are none."""
    logs = {pod["metadata"]["uid"]: PodLog(pod, options, write) for pod in await _pods(client, options)}
    if not logs:
        raise await _nothing_to_read(client, options)
    if options.follow:
        await _follow(client, options, logs, write, warn)
        return
    failures = 0
    for log in logs.values():
        try:
            await log.print(client)
        except DeployError as error:
            failures += 1
            warn(str(error))
    if failures:
        raise DeployError(f"{failures} of {len(logs)} logs could not be read: see the reasons above")


async def _nothing_to_read(client: ApiClient, options: LogOptions) -> DeployError:
    """Why there is no pod: the component is not installed, or it has none now."""
    deployments = await client.list_kind("apps/v1", "Deployment", options.namespace, labels=TRIMTAB)
    components = [(each["metadata"].get("labels") or {}).get(COMPONENT) for each in deployments]
    asked = options.component
    if components and asked in (LABELLER, RESCHEDULER) and asked not in components:
        return DeployError(
            f"the {asked} is not installed in namespace {options.namespace}: trimtab deploy upgrade --{asked} adds it"
        )
    which = f"the {options.component}" if options.component else "trimtab"
    return DeployError(f"no pod of {which} is in namespace {options.namespace}: see trimtab deploy status")


async def _pods(client: ApiClient, options: LogOptions) -> list[Object]:
    selector = TRIMTAB + (f",{COMPONENT}={options.component}" if options.component else "")
    return await client.list_kind("v1", "Pod", options.namespace, labels=selector)


async def _follow(client: ApiClient, options: LogOptions, logs: dict[str, PodLog], write: Print, warn: Print) -> None:
    """Until it is cancelled; a stream that ended is opened again as long as its pod exists."""
    streams: dict[str, asyncio.Task[None]] = {}
    said = set[str]()
    try:
        while True:
            for uid, log in logs.items():
                if uid not in streams or streams[uid].done():
                    _report(streams.get(uid), said, warn)
                    streams[uid] = asyncio.create_task(log.print(client))
            await asyncio.sleep(POLL_SECONDS)
            pods = {pod["metadata"]["uid"]: pod for pod in await _pods(client, options)}
            logs = {uid: logs.get(uid) or PodLog(pod, options, write) for uid, pod in pods.items()}
    finally:
        for task in streams.values():
            task.cancel()
        await asyncio.gather(*streams.values(), return_exceptions=True)


def _report(ended: asyncio.Task[None] | None, said: set[str], warn: Print) -> None:
    """Say once why a stream ended; one that ended by itself is no news."""
    error = ended.exception() if ended is not None else None
    if error is None:
        return
    if not isinstance(error, DeployError | Unreachable):
        raise error
    if str(error) not in said:
        said.add(str(error))
        warn(str(error))
