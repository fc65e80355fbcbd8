"""The broker of a node that leads, a process started by its member (cli/broker_child).

It imports everything, says so, and waits: as long as it is not told to start it opens nothing. Then
it is the broker that `penstock serve` runs, on files whose changes are recorded.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.session.handover import NOT_ELSEWHERE
from penstock.broker.store.mirrors import MemberLink, MirrorNode
from penstock.server.boot.log_lines import log_of
from penstock.server.boot.node import MakeTokens, Node
from penstock.server.boot.reload import settings_to_change
from penstock.server.cluster.child_pipe import ChildPipe
from penstock.server.cluster.frame_reader import HEAD
from penstock.server.cluster.pipe import (
    COUNT,
    FAILED,
    MIRRORED,
    READY,
    START,
    WARM,
    Nodes,
    PipeEnded,
    PipeFault,
    Places,
    Ready,
    Shard,
    Start,
    decode_start,
    encoded,
    frame,
)
from penstock.server.cluster.position import LeaderPosition
from penstock.server.cluster.recorded_files import RecordedFiles
from penstock.server.cluster.recorder import Recorder
from penstock.server.cluster.setting_keeper import PipeKeeper
from penstock.server.machine.clock import SystemClock
from penstock.server.machine.settle import settle_process
from penstock.server.net.listener import raise_limit

TICK_S = 0.5


class PipeMember(MemberLink):
    """Tells the member over the pipe, which may be gone: then the broker stops anyway."""

    def __init__(self, pipe: ChildPipe) -> None:
        self.pipe = pipe

    def mirrored(self, is_mirrored: bool) -> None:
        with suppress(PipeEnded):
            self.pipe.send(MIRRORED, COUNT.pack(is_mirrored))


class Neighbours:
    """The other brokers of this node, to which connections go whose virtual hosts are theirs."""

    def __init__(self, node: Node, shard: Shard) -> None:
        self.node = node
        self.number = shard.number
        self.hear(shard.places)
        send = {number: socket.socket(fileno=fd) for number, fd in shard.send.items()}
        node.join(socket.socket(fileno=shard.receive), send, self.worker_of)
        assert node.handover is not None, "it has just joined"
        node.handover.is_login_wanted = True

    def hear(self, told: Places) -> None:
        self.places = told.places
        own = os.getpid()
        self.node.probe.others = tuple(pid for pid in told.pids if pid != own)

    def worker_of(self, vhost: str) -> int:
        """Which other one has it, NOT_ELSEWHERE for none."""
        number = self.places.get(vhost, NOT_ELSEWHERE)
        return NOT_ELSEWHERE if number == self.number else number


MakerOf = Callable[[Config], MakeTokens | None]
"""What verifies tokens, for a configuration that wants any."""


def main(fd: int, maker_of: MakerOf) -> int:
    """The exit code: 0 after a clean stop, or when it was never started; 1 with a sentence."""
    # Whoever stops the member's group stops the member, which then stops this one in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    try:
        sock.sendall(frame(WARM))
        payload = _wait_start(sock)
    except OSError:
        return 0
    if payload is None:
        return 0
    pipe = ChildPipe(sock)
    try:
        asyncio.run(run(decode_start(payload), pipe, maker_of))
    except (OperatorError, PipeFault) as fault:
        print(f"Error: {fault}", file=sys.stderr, flush=True)
        with suppress(PipeEnded):
            pipe.send(FAILED, str(fault).encode())
        return 1
    finally:
        pipe.close()
    return 0


def _wait_start(sock: socket.socket) -> bytes | None:
    """What START brings; None when the member goes away first. Raises: OSError."""
    head = _exactly(sock, HEAD.size)
    if head is None:
        return None
    size, kind = HEAD.unpack(head)
    payload = _exactly(sock, size - 1)
    return payload if kind == START else None


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


async def run(start: Start, pipe: ChildPipe, maker_of: MakerOf) -> None:
    """A broker until the member wants a stop, or is gone. Raises: OperatorError."""
    loop = asyncio.get_running_loop()
    # A file that gets another name cannot be copied while it does.
    config = replace(start.config, store_spare_segments=0)
    raise_limit(config.connections_max)
    asked = asyncio.Event()
    path = Path(config.data_dir)
    # Who leads no epoch is a test's broker.
    position = LeaderPosition(path, start.epoch, start.base) if start.epoch else None
    recorder = Recorder(path, pipe, position)
    files = RecordedFiles(recorder, asked.set)
    log = log_of(config, SystemClock())
    if start.shard is not None:
        log.who = f"worker {start.shard.number}: "
    node = Node(config, loop, log, maker_of(config), files)
    node.inherited = start.inherited
    mirrors = node.broker.context.mirrors
    mirrors.own = config.cluster_node
    mirrors.member = PipeMember(pipe)
    node.broker.node_name = f"penstock@{config.cluster_node}"
    # A quorum queue has its replicas here, so there is nothing to warn of.
    node.broker.kind_notes.is_said = True

    def hear(nodes: Nodes) -> None:
        others = [one for one in nodes.rows if one.name != mirrors.own]
        is_in_sync = any(one.is_in_sync for one in nodes.rows if one.name == mirrors.own)
        mirrors.update(
            [MirrorNode(one.name, one.count, one.is_in_sync, one.is_online) for one in others],
            is_in_sync,
            nodes.words,
        )

    files.on_nodes = hear
    changes = node.broker.changes
    keeper = PipeKeeper(changes, pipe, log)
    if start.shard is None:
        changes.keeper = keeper
    else:
        files.on_places = Neighbours(node, start.shard).hear
    node.on_failure = asked.set
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    loop.add_signal_handler(signal.SIGHUP, node.hang_up)
    try:
        await node.start()
        keeper.take_over(start.settings)
        recorder.is_starting = False
        pipe.send(READY, encoded(_ready(node)))
    except (OperatorError, PipeEnded) as error:
        await node.stop()
        raise files.failure() or error from error
    settle_process()
    if pipe.is_stop_asked or pipe.ended:
        # It came while the loop was busy with the start.
        node.failure = files.failure()
        asked.set()
    ticking = loop.create_task(_tick(files, node, pipe, keeper))
    await asked.wait()
    ticking.cancel()
    await node.stop()
    if node.failure is not None:
        raise node.failure


async def _tick(files: RecordedFiles, node: Node, pipe: ChildPipe, keeper: PipeKeeper) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        files.tick()
        node.broker.replicas = pipe.waits
        keeper.look()
        config, pipe.config = pipe.config, None
        if config is not None:
            before, after = node.config, replace(config, store_spare_segments=0)
            node.hang_up(after)
            if node.config is after:
                keeper.follow(settings_to_change(before, after)[0])


def _ready(node: Node) -> Ready:
    ready = Ready()
    if node.listener is not None:
        ready.port = node.listener.port
    if node.tls_listener is not None:
        ready.tls_port = node.tls_listener.port
    if node.control is not None:
        ready.control = str(node.control.path)
    if node.keeping is not None:
        back = node.keeping.restored
        ready.queues, ready.exchanges = back.queues, back.exchanges
        ready.bindings = back.bindings
        ready.messages = node.keeping.stores.count + node.keeping.streams.count
    return ready
