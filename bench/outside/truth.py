"""What is true of publishers, as they see it themselves: whether their publishes are answered.

A publisher that is not held has its confirms soon. One whose oldest publish has had no answer for
BEHIND_S was held since it sent that one, until it is answered, whatever the broker did with it:
left it unread in the kernel, parked it, or put it into a mailbox from which nothing is taken.
Where it is the disk that is slow each answer is late, also to one that is not held: there it was
held while as many bytes as it sends in UNREAD_S lay in the broker's end of its connection
(/proc/net/tcp).
"""

import socket
import struct
from bisect import bisect_left
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.outside.wire import Connection, Loop, Publisher, method, publish_bytes

LOOK_S: Final = 0.02
BEHIND_S: Final = 0.1
UNREAD_S: Final = 0.06
TABLE: Final = Path("/proc/net/tcp")
PULSE_S: Final = 0.05
QOS_OK: Final = (60, 11)
KERNEL_BYTES: Final = 32_768
WINDOW_BYTES: Final = 32_000_000
STEP_S_MAX: Final = 0.05


class Victim(Publisher):
    """A publisher at a steady pace, which does not make up for the time in which it was held.

    pace: messages a second; its window of unconfirmed ones is larger than what hops to a queue let
    through, so that it is held when they are closed, and small enough to be read soon after."""

    def __init__(
        self,
        loop: Loop,
        port: int,
        name: str,
        queue: str,
        *,
        pace: float,
        body_bytes: int = 200,
        exchange: str = "",
        is_persistent: bool = False,
        user: str = "guest",
        vhost: str = "/",
    ) -> None:
        self.pace = pace
        self.name = name
        self.owing = 0.0
        self.stepped_at = loop.now()
        body = bytes(body_bytes)
        connection = Connection(loop, port, name=name, user=user, password=user, vhost=vhost)
        self.socket_bytes = max(KERNEL_BYTES, 8 * body_bytes)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.socket_bytes)
        window = min(max(2000, round(pace)), max(20, WINDOW_BYTES // body_bytes))
        super().__init__(loop, port, queue, body=body, window=window, connection=connection)
        self.one = publish_bytes(1, exchange, queue, body, is_persistent=is_persistent)
        self.local_port = int(connection.sock.getsockname()[1])

    def step(self, now: float) -> None:
        """Publish what the pace allows since the last time."""
        if self.is_stopped or self.connection.closed:
            return
        self.owing += min(now - self.stepped_at, STEP_S_MAX) * self.pace
        self.stepped_at = now
        count = min(int(self.owing), self.window - self.owed())
        self.owing = min(self.owing, 1.0 + count)
        if count <= 0 or self.connection.outbox_bytes > 4 * self.socket_bytes:
            return
        self.owing -= count
        self.sent_at.extend([now] * count)
        self.sent += count
        self.connection.send(self.one * count)


class Pulse:
    """Asks the broker for something small, again and again: whether it is at work at all, which is
    not so where others use the processor. sent_at: of the question that has no answer yet."""

    def __init__(self, loop: Loop, port: int) -> None:
        self.connection = Connection(loop, port, name="pulse")
        self.connection.channel()
        self.connection.handlers[1, *QOS_OK] = lambda _: self.sent_at.clear()
        self.sent_at: deque[float] = deque()
        self.asked = 0.0
        loop.before.append(self.step)

    def step(self, now: float) -> None:
        if not self.sent_at and now - self.asked >= PULSE_S and not self.connection.closed:
            self.asked = now
            self.sent_at.append(now)
            self.connection.send(method(1, 60, 10, struct.pack(">IHB", 0, 0, 0)))


Watched = Victim | Pulse


class Truth:
    """Of each victim the waits of its oldest publish that were too long, as (sent, seen) in
    monotonic seconds, those that overlap as one; at: moments of looks; read: when all that some
    victims had sent was last read; late: since then, of those with too much unread."""

    def __init__(self, loop: Loop, port: int) -> None:
        self.port = f"{port:04X}"
        self.at: list[float] = []
        self.read: dict[Victim, float] = {}
        self.waits: dict[Watched, list[tuple[float, float]]] = {}
        self.late: dict[Watched, float] = {}
        self.looked_at = 0.0
        # After reading, or an answer that has come would count as late.
        loop.after.append(self.look)

    def watch(self, victim: Watched) -> None:
        self.waits[victim] = []

    def by_reading(self, victim: Victim) -> None:
        """That it is held is seen in what lies unread."""
        self.read[victim] = victim.loop.now()

    def look(self, now: float) -> None:
        """Look again, every LOOK_S."""
        if now - self.looked_at < LOOK_S:
            return
        self.looked_at = now
        self.at.append(now)
        if self.read:
            self._look_at_sockets(now)
        for victim, waits in self.waits.items():
            sent = victim.sent_at[0] if victim.sent_at else now
            if isinstance(victim, Victim) and victim in self.read:
                sent = self.late.get(victim, now)
            if now - sent >= BEHIND_S:
                if waits and sent <= waits[-1][1]:
                    sent = waits.pop()[0]
                waits.append((sent, now))

    def _look_at_sockets(self, now: float) -> None:
        unread: dict[int, int] = {}
        for line in TABLE.read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(":" + self.port):
                unread[int(words[2].rpartition(":")[2], 16)] = int(words[4].rpartition(":")[2], 16)
        self.late.clear()
        for victim, since in self.read.items():
            bytes_ = unread.get(victim.local_port, 0)
            if bytes_ == 0:
                self.read[victim] = now
            elif bytes_ >= victim.pace * len(victim.one) * UNREAD_S:
                self.late[victim] = since

    def held_s(self, victim: Watched, begin: float, end: float) -> float:
        """Seconds of [begin, end], monotonic, in which a publish of it waited."""
        return sum(max(0.0, min(end, seen) - max(begin, sent)) for sent, seen in self.waits[victim])

    def longest_gap(self, begin: float, end: float) -> float:
        """Seconds of [begin, end] in which this program itself did not look."""
        first, last = bisect_left(self.at, begin), bisect_left(self.at, end)
        looks = self.at[max(0, first - 1) : last + 1]
        return max((b - a for a, b in pairwise(looks)), default=0.0)
