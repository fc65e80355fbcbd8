"""The management process of a broker: started with it, watched, started anew when it ends.

It is a process of its own, so that nothing it does, and no fault of it, is felt by a message. It
looks itself whether the broker is still there, and ends with it, however that went.
"""

import asyncio
import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.actors.log import Log

MODES: Final = ("auto", "on", "off")
USUAL_PORT: Final = 5672
NEEDED: Final = ("uvicorn", "starlette", "prometheus_client", "python_multipart")
FIRST_REST_S: Final = 1.0
LONGEST_REST_S: Final = 60.0
FAULT_STATUS: Final = 2
"""An operator's fault, as a port that is taken: said once, and not tried again."""
STOP_S: Final = 3.0


def is_management_wanted(config: Config) -> bool:
    """Raises: OperatorError when it is wanted and cannot be had."""
    if config.management not in MODES:
        raise OperatorError(f"management = '{config.management}': one of {', '.join(MODES)}")
    missing = [one for one in NEEDED if find_spec(one) is None]
    if config.management == "on" and missing:
        raise OperatorError(
            f"management is on and {missing[0]} is not installed; "
            "pip install 'penstock-mq[management]', or --no-management"
        )
    is_usual = config.port == USUAL_PORT
    return config.management == "on" or (config.management == "auto" and is_usual and not missing)


class ManagementChild:
    """control: path of the broker's control socket; amqp: URL of where it takes clients, "" for
    what it says itself when it is asked; cluster: control socket of the cluster's member."""

    def __init__(
        self, config: Config, control: str, log: Log, amqp: str = "", cluster: str = ""
    ) -> None:
        self.config = config
        self.control = control
        self.amqp = amqp
        self.cluster = cluster
        self.log = log
        self.process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        rest_s = FIRST_REST_S
        while True:
            try:
                self.process = await asyncio.create_subprocess_exec(*self._command())
                status = await self.process.wait()
            except OSError as error:
                self.log.error("the management process cannot be started", error)
                return
            if status == FAULT_STATUS:
                self.log.warning("the management process has ended: see its line above")
                return
            self.log.warning(
                f"the management process has ended (status {status}); it is started anew in "
                f"{rest_s:.0f} s"
            )
            await asyncio.sleep(rest_s)
            rest_s = min(LONGEST_REST_S, rest_s * 2)

    def _command(self) -> list[str]:
        config = self.config
        found = [
            *(sys.executable, "-m", "penstock.cli.main", "management", "--control", self.control),
            *("--http-host", config.management_host),
            *("--http-port", str(config.management_port)),
            *("--metrics-port", str(config.metrics_port), "--parent", str(os.getpid())),
        ]
        if self.amqp:
            found += ["--amqp", self.amqp]
        if self.cluster:
            found += ["--cluster", self.cluster]
        if config.management_cert:
            found += ["--http-cert", config.management_cert]
        if config.management_key:
            found += ["--http-key", config.management_key]
        return found

    async def stop(self) -> None:
        """Ask it to end, and wait a moment."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        process = self.process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
