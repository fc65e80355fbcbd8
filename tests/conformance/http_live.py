"""A broker with its management process, for tests that speak HTTP to it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.conformance.live import Broker, free_port, penstock_process
from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Managed:
    """A broker, and where its management process listens."""

    broker: Broker
    http_port: int
    metrics_port: int

    @property
    def base(self) -> str:
        """The address before `/api`."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def metrics(self) -> str:
        """The address of `/metrics`."""
        return f"http://127.0.0.1:{self.metrics_port}/metrics"


@contextmanager
def managed_broker(folder: Path, *options: str) -> Iterator[Managed]:
    """Run `penstock serve --management` in memory."""
    http_port, metrics_port = free_port(), free_port()
    ports = ("--http-port", str(http_port), "--metrics-port", str(metrics_port))
    with penstock_process(folder, "--management", *ports, *options) as broker:
        found = Managed(broker, http_port, metrics_port)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urlopen(found.metrics, timeout=PATIENCE_S):
                    break
            except URLError:
                assert time.monotonic() < end, "the management process does not answer"
                time.sleep(0.05)
        yield found
