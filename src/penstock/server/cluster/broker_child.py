"""The broker of a node as a process of its own: one that waits, has imported everything already,
and starts when the node leads."""

import asyncio
import subprocess
from typing import Final

import msgspec

from penstock.base.config import Config
from penstock.server.cluster.frame_reader import FrameReader
from penstock.server.cluster.member_events import ChildEvents
from penstock.server.cluster.pipe import (
    CHANGED,
    COMMITTED,
    CONFIG,
    DONE,
    ENTRY,
    FAILED,
    KEPT,
    MARK,
    MARKED,
    MIRRORED,
    NODES,
    PLACES,
    PUBLISHES,
    READY,
    STALLED,
    START,
    STOP,
    WAITS,
    WARM,
    Kept,
    Nodes,
    PipeFault,
    Places,
    Ready,
    Start,
    check_frame,
    count_frame,
    count_of,
    decode_changed,
    encoded,
    frame,
)
from penstock.server.machine.spawn import spawn_child

PATIENCE_S: Final = 10.0
"""From the end of its pipe to that of the process."""


class PipeEnd(asyncio.Protocol):
    """What the loop watches for the pipe. over: when it has ended."""

    def __init__(self, child: "BrokerChild") -> None:
        self.child = child
        self.over: asyncio.Future[None] = child.loop.create_future()

    def data_received(self, data: bytes) -> None:
        self.child.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set_result(None)


class BrokerChild:
    """One process. is_warm: it has imported everything; is_started, is_stopping: it was told to."""

    def __init__(self, events: ChildEvents, handles: tuple[int, ...]) -> None:
        """handles: descriptors that it inherits. Raises: OSError."""
        self.loop = asyncio.get_running_loop()
        self.events = events
        self.process, self.sock = spawn_child(pass_fds=handles)
        self.sock.setblocking(False)
        self.frames = FrameReader(check_frame)
        self.transport: asyncio.Transport | None = None
        self.unsent: list[bytes] = []
        self.publishes = b""
        self.is_warm = False
        self.is_started = False
        self.is_stopping = False
        self.is_deposed = False
        self.waits_said = ""
        self.nodes_said: Nodes | None = None
        self.task = self.loop.create_task(self._run())

    async def _run(self) -> None:
        pipe = PipeEnd(self)
        self.transport, _ = await self.loop.create_unix_connection(lambda: pipe, sock=self.sock)
        try:
            self.transport.write(b"".join(self.unsent))
            self.unsent.clear()
            await pipe.over
        finally:
            self.transport.close()
        code = await self.loop.run_in_executor(None, self._wait)
        self.events.ended(code == 0 and self.is_stopping and not self.is_deposed)

    def _wait(self) -> int:
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def received(self, data: bytes) -> None:
        """The pipe has something to say. Entries that came together are told together."""
        assert self.transport is not None, "it is what has received"
        entries: list[tuple[bytes, bytes]] = []
        try:
            for kind, payload in self.frames.feed(data):
                if kind == ENTRY:
                    entries.append((payload, self.publishes))
                    self.publishes = b""
                    continue
                if kind == PUBLISHES:
                    self.publishes = payload
                    continue
                self._tell(entries)
                self._take(kind, payload)
            self._tell(entries)
        except PipeFault:
            # It is of no use any more; that it ends is what counts.
            self.process.kill()
            self.transport.abort()

    def _tell(self, entries: list[tuple[bytes, bytes]]) -> None:
        if entries and not self.is_deposed:
            self.events.recorded(entries[:])
        entries.clear()

    def _take(self, kind: int, payload: bytes) -> None:
        if self.is_deposed:
            # Nobody may believe it any more.
            return
        if kind == WARM:
            self.is_warm = True
        elif kind == DONE:
            self.events.synced(count_of(payload))
        elif kind == MARKED:
            self.events.marked(count_of(payload))
        elif kind == READY:
            self.events.ready(msgspec.json.decode(payload, type=Ready))
        elif kind == FAILED:
            self.events.failed(payload.decode(errors="replace"))
        elif kind == STALLED:
            self.events.stalled(count_of(payload))
        elif kind == MIRRORED:
            self.events.mirrored(count_of(payload) > 0)
        elif kind == CHANGED:
            self.events.changed_settings(decode_changed(payload))

    def _send(self, data: bytes) -> None:
        if self.transport is None:
            self.unsent.append(data)
        else:
            self.transport.write(data)

    def start(self, start: Start) -> None:
        """Open the data directory and serve."""
        self.is_started = True
        self._send(frame(START, encoded(start)))

    def committed(self, count: int) -> None:
        """So many of its entries are where they have to be."""
        self._send(count_frame(COMMITTED, count))

    def waits(self, words: str) -> None:
        """What a majority waits for, "" for nothing; for its `why`. Said when it is another."""
        if words != self.waits_said:
            self.waits_said = words
            self._send(frame(WAITS, words.encode()))

    def nodes(self, nodes: Nodes) -> None:
        """How far every node is. Said when it is another."""
        if nodes != self.nodes_said:
            self.nodes_said = nodes
            self._send(frame(NODES, encoded(nodes)))

    def places(self, places: Places) -> None:
        """What the other brokers of this node have."""
        if self.is_started:
            self._send(frame(PLACES, encoded(places)))

    def kept(self, kept: Kept) -> None:
        """What has become of changed settings."""
        self._send(frame(KEPT, encoded(kept)))

    def mark(self, number: int) -> None:
        """`marked` comes behind the entries of all that it has written."""
        self._send(count_frame(MARK, number))

    def stop(self) -> None:
        """In order: `ended` comes when everything is written."""
        self.is_stopping = True
        self._send(frame(STOP))

    def kill(self) -> None:
        """At once; what it says from now on is not heard."""
        self.is_deposed = True
        self.process.kill()

    def hang_up(self, config: Config) -> None:
        """Put `config` in force, open the log anew, and read certificates again."""
        if self.is_started:
            self._send(frame(CONFIG, encoded(config)))
