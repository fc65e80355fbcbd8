"""A real broker in a process of its own, and the `penstock` command asked about it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import pika
from click import Command
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.cli.flow import flow
from tests.patience import PATIENCE_S


class Said(NamedTuple):
    """What a command printed, and its exit status."""

    out: str
    error: str
    status: int


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """port: where it listens; control: its control socket."""

    port: int
    control: str

    @property
    def url(self) -> str:
        """For Penstock's own client."""
        return f"amqp://127.0.0.1:{self.port}?connection_timeout={PATIENCE_S * 1000:.0f}"

    def connect(self, vhost: str = "/", name: str = "") -> pika.BlockingConnection:
        """A connection of pika's, as patient as the tests are."""
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1",
                self.port,
                vhost,
                blocked_connection_timeout=PATIENCE_S,
                socket_timeout=PATIENCE_S,
                stack_timeout=PATIENCE_S,
                client_properties={"connection_name": name} if name else None,
            )
        )

    def said(self, command: Command, *verb: str, options: tuple[str, ...] = ()) -> Said:
        """`penstock COMMAND VERB OPTIONS`, in this process: a new one takes longer than all it
        does."""
        done = CliRunner().invoke(command, [*verb, "--control", self.control, *options])
        if isinstance(done.exception, OperatorError):
            return Said(done.stdout, str(done.exception), 2)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Said(done.stdout, done.stderr, done.exit_code)

    def flow(self, *words: str) -> Said:
        """`penstock flow WORDS`."""
        return self.said(flow, words[0], options=words[1:])

    def json(self, *words: str) -> dict[str, object]:
        """The same with --format json."""
        said = self.flow(*words, "--format", "json")
        return msgspec.json.decode(said.out, type=dict[str, object])


PENSTOCK = (sys.executable, "-W", "error", "-m", "penstock.cli.main")
ENVIRONMENT = {**os.environ, "PYTHONIOENCODING": "utf-8"}


@contextmanager
def broker_process(directory: Path, config: str = "", data: str = "") -> Iterator[BrokerProcess]:
    """A broker on a free port, until the block ends. data: its directory, "" for memory."""
    control = str(directory / "control.sock")
    where = ("--data", data) if data else ("--memory",)
    words = ["serve", *where, "--port", "0", "--control", control]
    if config:
        path = directory / "penstock.toml"
        path.write_text(config, encoding="utf-8")
        words += ["--config", str(path)]
    with subprocess.Popen(
        [*PENSTOCK, *words],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=ENVIRONMENT,
    ) as process:
        try:
            assert process.stdout is not None
            port = 0
            # The line about the control socket comes when both can be asked.
            for line in process.stdout:
                _, found, rest = line.partition("amqp://127.0.0.1:")
                port = int(rest.split()[0]) if found else port
                if "control" in line:
                    break
            assert port > 0, "the broker has ended while it was starting"
            yield BrokerProcess(port, control)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
