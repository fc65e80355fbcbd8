"""The broker's end of the pipe to its member: entries go out, what is committed comes in.

Entries are sent by whoever does disk work, mostly the disk's thread; what comes in is read by the
loop, through the poller, and by whoever waits while the loop cannot: at the start, at the end, and
at the bound of what is not committed.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Callable
from errno import EIO
from threading import Lock
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.base.config import Config
from penstock.base.limits import CLUSTER_WINDOW_BYTES
from penstock.server.cluster.frame_reader import FrameReader
from penstock.server.cluster.pipe import (
    COMMITTED,
    CONFIG,
    DONE,
    ENTRY,
    KEPT,
    MARK,
    NODES,
    PLACES,
    PUBLISHES,
    STALLED,
    STOP,
    WAITS,
    Kept,
    Nodes,
    PipeEnded,
    PipeFault,
    Places,
    check_frame,
    count_frame,
    count_of,
    decode_config,
    decode_kept,
    decode_nodes,
    decode_places,
    frame,
    head,
)

RECEIVE_BYTES: Final = 65_536
PARTS_MAX: Final = 1000
"""What the system takes at once is 1,024."""
WAIT_S: Final = 0.1


@mypyc_attr(allow_interpreted_subclasses=True)
class ChildPipe:
    """sent, committed: entries; marks: numbers of MARK that nobody has answered yet; unsafe_bytes:
    of those sent and not committed; is_stop_asked: the member wants a clean stop; is_closing:
    nobody waits for room any more; waits: what a majority waits for, in words; nodes: who has how
    much, as it was said last, config: the configuration to put in force, and places: what the
    other brokers of this node have, None where these were taken; kept: what was said of changed
    settings, in order, until it is taken; ended: why there is no member any
    more, "" while there is.
    on_news: called on any thread when one of these has changed."""

    __slots__ = (
        "_counting",
        "_reader",
        "_receiving",
        "_sending",
        "_sizes",
        "committed",
        "config",
        "ended",
        "is_closing",
        "is_stop_asked",
        "kept",
        "marks",
        "nodes",
        "on_news",
        "places",
        "sent",
        "sock",
        "unsafe_bytes",
        "waits",
    )

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.setblocking(False)
        self.sent = 0
        self.committed = 0
        self.unsafe_bytes = 0
        self.is_stop_asked = False
        self.is_closing = False
        self.ended = ""
        self.waits = ""
        self.nodes: Nodes | None = None
        self.config: Config | None = None
        self.places: Places | None = None
        self.kept: deque[Kept] = deque()
        self.marks: deque[int] = deque()
        self.on_news: Callable[[], None] = _nothing
        self._sizes: deque[int] = deque()
        self._reader = FrameReader(check_frame)
        self._sending = Lock()
        self._receiving = Lock()
        self._counting = Lock()

    # -- out -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises: PipeEnded."""
        if self.ended:
            raise PipeEnded(EIO, self.ended)

    def send_entry(self, parts: list[bytes], publishes: bytes = b"") -> int:
        """Send the next entry; its number. publishes: that are in the log with it as a whole.
        Raises: PipeEnded."""
        size = 0
        for part in parts:
            size += len(part)
        with self._counting:
            # Before it leaves: the answer may be faster than this thread.
            self.sent += 1
            self._sizes.append(size)
            self.unsafe_bytes += size
            number = self.sent
        before = [frame(PUBLISHES, publishes)] if publishes else []
        self._send([*before, head(ENTRY, size), *parts])
        return number

    def send_done(self, count: int) -> None:
        """Entries up to `count` are safe here. Raises: PipeEnded."""
        self._send([count_frame(DONE, count)])

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Raises: PipeEnded."""
        self._send([frame(kind, payload)])

    def tell_stalled(self, ms: int) -> None:
        """Never waits; where nobody reads the frame is dropped."""
        if not self._sending.acquire(blocking=False):
            return
        try:
            # A frame this small is taken whole or not at all.
            self.sock.send(count_frame(STALLED, ms))
        except BlockingIOError:
            pass
        except OSError as error:
            self.end(str(error))
        finally:
            self._sending.release()

    def _send(self, parts: list[bytes]) -> None:
        with self._sending:
            self.check()
            if len(parts) > PARTS_MAX:
                parts = [b"".join(parts)]
            try:
                left = self._sent(parts)
                while left:
                    self._is_ready(select.POLLOUT, WAIT_S)
                    self.check()
                    left = self._sent([left])
            except OSError as error:
                self.end(error.strerror or str(error))
                self.check()

    def _sent(self, parts: list[bytes]) -> bytes:
        """What was not taken."""
        try:
            taken = self.sock.sendmsg(parts)
        except BlockingIOError:
            taken = 0
        size = sum(len(part) for part in parts)
        if taken == size:
            return b""
        return b"".join(parts)[taken:]

    # -- in --------------------------------------------------------------------------------------

    def receive(self) -> bool:
        """Take what has come, without waiting, on any thread; False when it was nothing."""
        found = False
        with self._receiving:
            while not self.ended:
                try:
                    data = self.sock.recv(RECEIVE_BYTES)
                except BlockingIOError:
                    break
                except OSError as error:
                    self.end(error.strerror or str(error))
                    break
                if not data:
                    self.end("its end of the pipe is closed")
                    break
                found = True
                try:
                    for kind, payload in self._reader.feed(data):
                        self._take(kind, payload)
                except PipeFault as fault:
                    self.end(str(fault))
                if len(data) < RECEIVE_BYTES:
                    # What comes later is told of by the poller, the end as well.
                    break
        if found:
            self.on_news()
        return found

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == STOP:
            self.is_stop_asked = True
        elif kind == MARK:
            self.marks.append(count_of(payload))
        elif kind == WAITS:
            self.waits = payload.decode(errors="replace")
        elif kind == NODES:
            self.nodes = decode_nodes(payload)
        elif kind == CONFIG:
            self.config = decode_config(payload)
        elif kind == PLACES:
            self.places = decode_places(payload)
        elif kind == KEPT:
            self.kept.append(decode_kept(payload))
        elif kind == COMMITTED:
            count = count_of(payload)
            with self._counting:
                if count > self.sent:
                    raise PipeFault(f"{count} entries are said to be committed, of {self.sent}")
                for _ in range(count - self.committed):
                    self.unsafe_bytes -= self._sizes.popleft()
                self.committed = max(count, self.committed)
        else:
            raise PipeFault(f"a frame of kind {kind}, which is not for a broker")

    def wait_room(self) -> None:
        """Return when no more is under way than may be. Raises: PipeEnded."""
        while self.unsafe_bytes > CLUSTER_WINDOW_BYTES.default and not self.is_closing:
            self.check()
            self._wait(WAIT_S)

    def wait_committed(self, count: int, ms: int) -> bool:
        """Whether so many entries are committed, within `ms` milliseconds."""
        end = time.monotonic() + ms / 1000
        while self.committed < count and not self.ended:
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._wait(min(left, WAIT_S))
        return self.committed >= count

    def _wait(self, seconds: float) -> None:
        # Somebody else may take what this one is woken for; so it looks again after a moment.
        if self._is_ready(select.POLLIN, seconds):
            self.receive()

    def _is_ready(self, mask: int, seconds: float) -> bool:
        # Any descriptor can be polled; `select` knows the first 1,024 only.
        poll = select.poll()
        poll.register(self.sock, mask)
        return len(poll.poll(seconds * 1000)) > 0

    def end(self, why: str) -> None:
        """There is no member any more."""
        if not self.ended:
            self.ended = why or "it is gone"
            self.on_news()

    def close(self) -> None:
        self.ended = self.ended or "it was closed"
        self.sock.close()


def _nothing() -> None:
    """Nobody listens yet."""
