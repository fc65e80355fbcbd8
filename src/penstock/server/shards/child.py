"""One member of a node with several: started by the parent (cli/shard_child).

It stops in order when the parent is gone or wants it to: then its pipe ends. While this node leads
its shard, a broker of its own process serves it (server/cluster/child).
"""

import asyncio
import signal
import socket
import sys
from contextlib import suppress
from typing import Final

import msgspec

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.server.boot.log_lines import log_of
from penstock.server.cluster.coordinator import CoordinatorThread
from penstock.server.cluster.etcd import EtcdStore
from penstock.server.cluster.member import MemberNode
from penstock.server.cluster.member_answers import MemberAnswers
from penstock.server.cluster.member_sockets import MemberSockets
from penstock.server.cluster.run_member import make_member
from penstock.server.cluster.settings import member_settings
from penstock.server.cluster.siblings import Lead, Siblings
from penstock.server.control.control_client import cluster_path
from penstock.server.control.control_socket import ControlSocket
from penstock.server.machine.clock import SystemClock
from penstock.server.machine.settle import settle_process
from penstock.server.net.listener import raise_limit
from penstock.server.shards.pipe import Said, Start, Told
from penstock.server.workers.pipe import line_of

LINE_BYTES_MAX: Final = 1 << 26
"""Of all places together: some hundred thousand virtual hosts."""


def main(fd: int) -> int:
    """The exit code: 0 after a clean stop, 1 with a sentence."""
    # Ctrl-C stops the parent, which then stops this one in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    return asyncio.run(_serve(sock))


async def _serve(sock: socket.socket) -> int:
    reader, writer = await asyncio.open_connection(sock=sock, limit=LINE_BYTES_MAX)
    member: ShardMember | None = None
    try:
        line = await reader.readline()
        if not line:
            return 0
        member = ShardMember(msgspec.json.decode(line, type=Start), writer)
        await member.run(reader)
    except OperatorError as fault:
        is_final = member is not None and member.node.is_final
        with suppress(OSError):
            writer.write(line_of(Said(str(fault), is_final=is_final)))
            await writer.drain()
        if member is not None and member.has_served:
            print(f"Error: {fault}", file=sys.stderr, flush=True)
        return 1
    finally:
        writer.close()
    return 0


class ShardMember:
    """A member, and what its parent tells it. has_served: it has listened."""

    def __init__(self, start: Start, writer: asyncio.StreamWriter) -> None:
        """Raises: OperatorError."""
        self.start = start
        self.writer = writer
        self.has_served = False
        self.config = config = start.config
        raise_limit(config.connections_max * 2)
        log = log_of(config, SystemClock())
        log.who = f"worker {start.worker}: "
        base = member_settings(config)
        self.settings = base.of_shard(start.worker)
        groups = {one: base.of_shard(one).group for one in range(start.count)}
        siblings = Siblings(
            start.worker,
            groups,
            base.name,
            base.tls,
            start.receive,
            start.send,
            start.places,
            self._say,
        )
        siblings.hear(start.leads, start.places)
        sockets = MemberSockets(config, start.inherited)
        try:
            self.node = make_member(config, self.settings, sockets, log, siblings)
        except BaseException:
            sockets.close()
            raise

    def _say(self, lead: Lead) -> None:
        self.writer.write(line_of(Said(lead=lead)))

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Until the parent wants a stop, or is gone. Raises: OperatorError."""
        node, config, settings = self.node, self.config, self.settings
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, node.stop)
        # The parent reads it, and says what to put in force.
        loop.add_signal_handler(signal.SIGHUP, _nothing)
        hearing = loop.create_task(self._hear(reader, node))
        asked = cluster_path(node.sockets.port, config.control_socket)
        control = ControlSocket(asked, MemberAnswers(node).answer)
        store = EtcdStore(settings.endpoints, settings.prefix, settings.etcd_files)
        try:
            await node.start(CoordinatorThread(store, settings.name, node.me.boot_id, node))
            await control.start()
            settle_process()
            self.has_served = True
            self.writer.write(line_of(Said()))
            await node.over.wait()
        finally:
            hearing.cancel()
            await control.close()
            await node.close()
        if node.failure is not None:
            raise node.failure

    async def _hear(self, reader: asyncio.StreamReader, node: MemberNode) -> None:
        """What the parent says, until it says no more."""
        try:
            while line := await reader.readline():
                self._told(msgspec.json.decode(line, type=Told), node)
        except (OSError, ValueError) as fault:
            # What cannot be read is of a parent that is none any more.
            node.log.error("the parent cannot be heard", fault)
        finally:
            node.stop()

    def _told(self, told: Told, node: MemberNode) -> None:
        if told.leads is not None and told.places is not None:
            node.told(told.leads, told.places)
        if told.covers is not None:
            node.cover({one for one, by in told.covers.items() if by == self.start.worker})
        if told.config is not None:
            self._put_in_force(told.config, node)

    def _put_in_force(self, config: Config, node: MemberNode) -> None:
        node.reread = lambda: config
        node.hang_up()


def _nothing() -> None:
    """A signal that is for another process."""
