"""The clients of the live flow rows, each in a process of its own so that none slows another.

A peer is a function that runs until its parent says stop, and then hands back what it counted. All
speak through Penstock's own blocking client; a flood writes prepared frames, because there the
broker and not the client must be what is slow.
"""

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Final

from penstock.client.io_blocking import Channel, Connection, connect

Counts = dict[str, float]
SPAWN: Final = multiprocessing.get_context("spawn")
NS_PER_MS: Final = 1e6
SILENT_S_MAX: Final = 120
"""Ten of them may start at once on two slow processors."""


class Peer:
    """One child process. `ask()` gives its counts so far; leaving the block ends it."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=work, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> "Peer":
        self._answer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._pipe.send("stop")
        except OSError:
            # It has ended already; what it said last has been read.
            self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def ask(self) -> Counts:
        """What it counted so far. Raises: RuntimeError when it has failed."""
        self._pipe.send("ask")
        return self._answer()

    def _answer(self) -> Counts:
        if not self._pipe.poll(SILENT_S_MAX):
            raise RuntimeError(f"a client process says nothing for {SILENT_S_MAX} s")
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise RuntimeError("a client process has failed; see its traceback above") from None
        assert isinstance(answer, dict), "peers answer with counts"
        return answer


def is_over(pipe: Pipe, counts: Counts) -> bool:
    """Answer what the parent asks; True once it says stop."""
    while pipe.poll():
        if pipe.recv() == "stop":
            return True
        pipe.send(dict(counts))
    return False


def publish_frames(url: str, queue: str, size: int) -> bytes:
    """The bytes of one publish of `size` body bytes to `queue` on channel 1."""
    with connect(url) as connection:
        channel = connection.channel()
        session = connection.session
        session.publish(channel.number, "", queue, b"x" * size)
        frames = session.output(time.monotonic_ns())
        connection.drop()
    return frames


def settle(connection: Connection, channel: int, quiet_ms: int = 300) -> None:
    """Go on until the broker has confirmed nothing more on `channel` for `quiet_ms`."""
    left = connection.session.unconfirmed(channel)
    quiet_since = time.monotonic()
    while left > 0 and time.monotonic() - quiet_since < quiet_ms / 1000:
        connection.process(20)
        now_left = connection.session.unconfirmed(channel)
        if now_left != left:
            left, quiet_since = now_left, time.monotonic()


def flood(pipe: Pipe, url: str, queue: str, size: int) -> None:
    """Publish to `queue` without confirms as fast as the socket takes it. Counts: bytes."""
    frame = publish_frames(url, queue, size)
    piece = frame * max(1, 65536 // len(frame))
    connection = connect(url, name=f"flood-{queue}")
    connection.channel()
    sock, _ = connection.detach()
    sock.setblocking(True)
    sock.settimeout(0.05)
    counts: Counts = {"bytes": 0.0, "stalled_s": 0.0}
    pipe.send(counts)
    at = 0
    while not is_over(pipe, counts):
        began = time.monotonic()
        try:
            sent = sock.send(piece[at:])
        except TimeoutError:
            counts["stalled_s"] += time.monotonic() - began
            continue
        counts["bytes"] += sent
        at = (at + sent) % len(piece)
    sock.close()


def drain(pipe: Pipe, url: str, queue: str, prefetch: int) -> None:
    """Consume `queue`, acknowledging; prefetch 0: without acknowledgements. Counts: messages."""
    counts: Counts = {"messages": 0.0}
    with connect(url, name=f"drain-{queue}") as connection:
        channel = connection.channel()
        if prefetch:
            channel.qos(prefetch)
        channel.consume(queue, no_ack=not prefetch)
        pipe.send(counts)
        waiting = channel.inbox.deliveries
        while not is_over(pipe, counts):
            connection.process(20)
            last = None
            while waiting:
                last = waiting.popleft()
                counts["messages"] += 1
            if last is not None and prefetch:
                channel.ack(last, multiple=True)
        connection.drop()


class Window:
    """Publishes to one queue with at most `size` of them unconfirmed."""

    def __init__(self, connection: Connection, channel: Channel, queue: str, size: int) -> None:
        self.connection = connection
        self.channel = channel
        self.queue = queue
        self.size = size
        self.count = 0

    def room(self) -> int:
        """Publishes that may go out now."""
        return self.size - self.connection.session.unconfirmed(self.channel.number)

    def publish(self, body: bytes) -> None:
        self.connection.session.publish(self.channel.number, "", self.queue, body)
        self.count += 1

    def confirmed(self) -> int:
        return self.count - self.connection.session.unconfirmed(self.channel.number)


def alternate(pipe: Pipe, url: str, stopped: str, running: str, window: int, size: int) -> None:
    """One connection, a channel for each queue, one publish here and one there, each with its
    own confirm window; `stopped` "" publishes to `running` alone. Counts: confirmed of each."""
    body = b"x" * size
    counts: Counts = {"running": 0.0, "stopped": 0.0}
    with connect(url, name="alternate") as connection:
        windows = []
        for queue in (stopped, running):
            if queue:
                channel = connection.channel()
                channel.confirm_select()
                windows.append(Window(connection, channel, queue, window))
        pipe.send(counts)
        while not is_over(pipe, counts):
            rooms = [one.room() for one in windows]
            for _ in range(max(rooms)):
                for index, one in enumerate(windows):
                    if rooms[index] > 0:
                        rooms[index] -= 1
                        one.publish(body)
            connection.process(20)
            for one in windows:
                counts["running" if one.queue == running else "stopped"] = float(one.confirmed())
        connection.drop()


def acknowledge(pipe: Pipe, url: str, source: str, stopped: str, prefetch: int, size: int) -> None:
    """One connection whose publishes to `stopped` are held, consuming `source` on a channel of its
    own: milliseconds from an ack of a full window to the delivery it makes room for."""
    counts: Counts = {"messages": 0.0, "held": 0.0, "last_ms": 0.0, "worst_ms": 0.0, "sum_ms": 0.0}
    body = b"x" * size
    with connect(url, name="acknowledge") as connection:
        publishing = connection.channel()
        publishing.confirm_select()
        held = Window(connection, publishing, stopped, 401)
        consuming = connection.channel()
        consuming.qos(prefetch)
        while held.room() > 0:
            held.publish(body)
        settle(connection, publishing.number)
        consuming.consume(source)
        waiting = consuming.inbox.deliveries
        while len(waiting) < prefetch:
            connection.process(100)
        counts["held"] = float(held.count - held.confirmed())
        pipe.send(counts)
        while not is_over(pipe, counts):
            delivery = waiting.popleft()
            began = time.monotonic_ns()
            consuming.ack(delivery)
            while len(waiting) < prefetch:
                connection.process(1000)
            took_ms = (time.monotonic_ns() - began) / NS_PER_MS
            counts["messages"] += 1
            counts["last_ms"] = took_ms
            counts["sum_ms"] += took_ms
            counts["worst_ms"] = max(counts["worst_ms"], took_ms)
            counts["held"] = float(held.count - held.confirmed())
        connection.drop()


def trickle(pipe: Pipe, url: str, queue: str, pause_ms: float) -> None:
    """Publish one confirmed message after another, `pause_ms` apart. Counts: confirmed, and when
    the last confirm came (monotonic seconds)."""
    counts: Counts = {"confirmed": 0.0, "last_s": 0.0, "blocked": 0.0}
    with connect(url, name="trickle") as connection:
        channel = connection.channel()
        channel.confirm_select()
        pipe.send(counts)
        while not is_over(pipe, counts):
            if connection.session.unconfirmed(channel.number) == 0:
                channel.publish("", queue, b"x")
            connection.process(5)
            counts["blocked"] = 0.0 if connection.blocked_reason is None else 1.0
            if connection.session.unconfirmed(channel.number) == 0:
                counts["confirmed"] += 1
                counts["last_s"] = time.monotonic()
                time.sleep(pause_ms / 1000)
        connection.drop()
