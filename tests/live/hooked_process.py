"""Runs Trimtab as a process whose event loop can be blocked, whose wall clock can be stepped, or whose log nobody reads."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.live import trimtab_process
from tests.live.fault_proxy import FaultProxy
from tools.controlplane.process import Process, free_port
from tools.controlplane.rig import Rig

HOOKS = Path(__file__).with_name("hooks")
ESTABLISHED = "01"
PIPE_BYTES = 4096


class HookedProcess(Process):
    """`trimtab run` with hooks, if asked for by way of a proxy."""

    def __init__(self, rig: Rig, config: Path, name: str, proxy: FaultProxy | None = None) -> None:
        kubeconfig = rig.service_account_kubeconfig("trimtab", "trimtab")
        self._clock, self._block = rig.workspace / f"{name}.clock", rig.workspace / f"{name}.block"
        url = f"http://127.0.0.1:{free_port()}"
        source = proxy.kubeconfig(kubeconfig) if proxy is not None else kubeconfig
        command = trimtab_process.run_command(config, source, url, name)
        environment = {
            "PYTHONPATH": f"{HOOKS}:{trimtab_process.PYTHONPATH}",
            "TRIMTAB_TEST_CLOCK": str(self._clock),
            "TRIMTAB_TEST_BLOCK": str(self._block),
        }
        super().__init__(command, rig.workspace / f"{name}.log", environment, url)

    def step_wall_clock(self, seconds: float) -> None:
        """From now on its wall clock is so much ahead of ours."""
        changed = self._clock.with_suffix(".new")
        changed.write_text(str(seconds))
        changed.replace(self._clock)

    def block(self, seconds: float) -> None:
        """Block its event loop for so long, beginning now."""
        self._block.write_text(str(seconds))
        os.kill(self.pid, signal.SIGUSR1)

    def connection_timers(self, server: str) -> list[str]:
        """The kernel's timer of each open connection to this server: 02 is that of keep-alive, 00 none."""
        port = f"{int(server.rpartition(':')[2]):04X}"
        own = {str(each.readlink()) for each in Path(f"/proc/{self.pid}/fd").iterdir() if each.is_symlink()}
        table = [line.split() for line in Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]]
        return [
            fields[5].partition(":")[0]
            for fields in table
            if fields[2].endswith(f":{port}") and fields[3] == ESTABLISHED and f"socket:[{fields[9]}]" in own
        ]


class UnreadProcess:
    """`trimtab run` at level debug, whose log is a small pipe that nobody reads."""

    def __init__(self, rig: Rig, config: Path) -> None:
        kubeconfig = rig.service_account_kubeconfig("trimtab", "trimtab")
        url = f"http://127.0.0.1:{free_port()}"
        command = trimtab_process.run_command(config, kubeconfig, url, "unread", "--log-level", "debug")
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._log = os.fdopen(reading)
        environment = {**os.environ, "PYTHONPATH": trimtab_process.PYTHONPATH}
        self._child = subprocess.Popen(command, stderr=writing, env=environment)
        os.close(writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.wait()
        self._log.close()

    def terminate_and_read(self) -> list[str]:
        """All lines of its log, once it has ended."""
        self._child.terminate()
        return self._log.readlines()
