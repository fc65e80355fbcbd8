"""A broker child with a member that does as little as may be, and what its entries make."""

from __future__ import annotations

from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from penstock.base.config import Config
from penstock.replication.operations import decode
from penstock.server.cluster import pipe
from penstock.server.cluster.follower_files import FollowerFiles
from penstock.server.machine.spawn import spawn_child
from tests.conformance.live import free_port
from tests.patience import PATIENCE_S
from tests.unit.server.cluster.member_bed import Follower, Member

PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Led:
    """The broker that leads, on `data`. follower: who applies its entries; commits: see Member."""

    def __init__(
        self,
        data: Path,
        follower: Follower | None,
        commits: str = Member.APPLIED,
        **settings: object,
    ) -> None:
        self.data = data
        self.process, sock = spawn_child()
        self.member = Member(sock, follower, commits)
        try:
            self.member.wait_for(pipe.WARM)
            self.port = free_port()
            config = Config(port=self.port, data_dir=str(data), **settings)  # type: ignore[arg-type]
            self.member.send(pipe.frame(pipe.START, pipe.encoded(pipe.Start(config))))
        except BaseException:
            self.kill()
            raise

    def wait_ready(self) -> pipe.Ready:
        ready = pipe.decode_ready(self.member.wait_for(pipe.READY))
        assert ready.port == self.port
        return ready

    def connect(self) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(
            "127.0.0.1", self.port, blocked_connection_timeout=PATIENCE_S, heartbeat=0
        )
        return pika.BlockingConnection(parameters)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()
        self.member.close()

    def stop(self) -> int:
        """In order; the exit code."""
        self.member.send(pipe.frame(pipe.STOP))
        code = self.process.wait(PATIENCE_S)
        self.member.thread.join()
        return code


def made_of(entries: list[bytes], directory: Path) -> None:
    """Apply them to a new directory, whose database is closed again."""
    directory.mkdir()
    files = FollowerFiles(directory)
    files.rows()
    for entry in entries:
        for one in decode(entry):
            files.apply(one)
        files.commit()
    files.close()


def taken(channel: BlockingChannel, queue: str) -> list[bytes]:
    """What is ready in a queue, in order."""
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def streamed(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """The first messages of a stream."""
    channel.basic_qos(prefetch_count=100)
    read = channel.consume(
        queue, arguments={"x-stream-offset": "first"}, inactivity_timeout=PATIENCE_S
    )
    found: list[bytes] = []
    for _ in range(count):
        method, _, body = next(read)
        assert method is not None, f"{len(found)} of {count} came"
        found.append(body)
        channel.basic_ack(method.delivery_tag)
    channel.cancel()
    return found
