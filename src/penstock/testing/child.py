"""The broker's process, started by penstock.testing.broker by the words of START.

It reads one line of JSON from its standard input, {"folder": ..., "settings": {...}, "data": ...,
"port": ...} with "" for no data and 0 for any port, and writes one to its standard output when
clients may come, {"port": ..., "control": ...}, or {"error": ...}. Its standard input stays open,
and its end is the end of the broker: a test run that is killed leaves nothing behind.
"""

import asyncio
import gc
import json
import os
import shutil
import signal
import sys
from dataclasses import replace
from typing import Any

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.server.boot.config_file import config_from
from penstock.server.boot.node import Node, serve

WHERE = "settings of the broker for tests"
GIVEN = {"data_dir": "Broker(data=...)"}
FIXED = ("host", "port", "tls_port", "control_socket")
"""What the fixture chooses itself."""


def configured(folder: str, settings: dict[str, Any], data: str = "", port: int = 0) -> Config:
    """In memory, or kept in `data`, on a free port of this machine, or on that one. Raises:
    OperatorError."""
    for key in FIXED:
        if key in settings:
            raise OperatorError(f"{WHERE}: {key} is chosen by the broker for tests; leave it out")
    for key, word in GIVEN.items():
        if key in settings:
            raise OperatorError(f"{WHERE}: {key} is said otherwise, with {word}")
    # Tests do not depend on how full the disk of the machine is.
    config = config_from(WHERE, {"disk_free_min": "0", **settings})
    control = os.path.join(folder, "control")
    return replace(config, host="127.0.0.1", port=port, data_dir=data, control_socket=control)


def say(answer: dict[str, object]) -> None:
    """One line of JSON for whoever started this process."""
    print(json.dumps(answer), flush=True)


class Started:
    """What this process is for. is_abandoned: whoever started it is gone, and nobody else removes
    `folder`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.is_abandoned = False

    def announce(self, node: Node) -> None:
        """Clients may come, and this process ends with its standard input."""
        node.loop.add_reader(sys.stdin.fileno(), self._abandoned, node)
        assert node.control is not None, "it has started"
        say({"port": node.listeners[0].port, "control": str(node.control.path)})

    def _abandoned(self, node: Node) -> None:
        node.loop.remove_reader(sys.stdin.fileno())
        self.is_abandoned = True
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    gc.freeze()
    gc.enable()
    request = json.loads(sys.stdin.readline())
    started = Started(request["folder"])
    try:
        config = configured(started.folder, request["settings"], request["data"], request["port"])
        asyncio.run(serve(config, started.announce))
    except OperatorError as error:
        say({"error": str(error)})
        sys.exit(2)
    if started.is_abandoned:
        shutil.rmtree(started.folder, ignore_errors=True)
