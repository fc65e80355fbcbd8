"""What is true of publishers, sampled from outside: whether the broker reads what they have sent.

The kernel says how many bytes lie in the broker's end of each connection, unread (/proc/net/tcp). A
broker that holds a publisher does not read them; one that does not hold it reads them soon. So a
publisher that always has something to send was held between two looks at which as many bytes lay
there as it sends in BEHIND_S, and from when they began to gather: less, by itself, may be a broker
that has had no processor. Of a rate limit the kernel knows too late, because the broker reads
64 KiB ahead of it: there a publisher is held from when its oldest publish has had no answer for
BEHIND_S, until what it sent is read again.
"""

import socket
import time
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.outside.wire import Connection, Loop, Publisher, publish_bytes

LOOK_S: Final = 0.02
BEHIND_S: Final = 0.06
TABLE: Final = Path("/proc/net/tcp")
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
        self.stepped_at = time.monotonic()
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


class Truth:
    """Of each victim, by its local port: moments of looks, and bytes that lay unread at each."""

    def __init__(self, loop: Loop, port: int) -> None:
        self.port = f"{port:04X}"
        self.at: list[float] = []
        self.unread: dict[int, list[int]] = {}
        self.answered: dict[int, Victim] = {}
        self.waited: dict[int, list[int]] = {}
        self.looked_at = 0.0
        loop.before.append(self.look)

    def watch(self, victim: Victim) -> None:
        self.unread[victim.local_port] = [0] * len(self.at)

    def by_answers(self, victim: Victim) -> None:
        """That it is held is seen first in its confirms: what it waits for is kept as well."""
        self.answered[victim.local_port] = victim
        self.waited[victim.local_port] = [0] * len(self.at)

    def look(self, now: float) -> None:
        """Look again, every LOOK_S."""
        if now - self.looked_at < LOOK_S:
            return
        self.looked_at = now
        found = dict.fromkeys(self.unread, 0)
        for line in TABLE.read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(":" + self.port):
                client = int(words[2].rpartition(":")[2], 16)
                if client in found:
                    found[client] = int(words[4].rpartition(":")[2], 16)
        for client, victim in self.answered.items():
            waited = now - victim.sent_at[0] if victim.sent_at else 0.0
            self.waited[client].append(round(waited * victim.pace * len(victim.one)))
        self.at.append(time.monotonic())
        for client, unread in found.items():
            self.unread[client].append(unread)

    def held_s(self, victim: Victim, begin: float, end: float) -> float:
        """Seconds of [begin, end], monotonic, in which the broker did not read from it."""
        unread = self.unread[victim.local_port]
        behind = victim.pace * len(victim.one) * BEHIND_S
        held = 0.0
        first = max(1, bisect_left(self.at, begin))
        last = min(len(self.at), bisect_left(self.at, end) + 1)
        waited = self.waited.get(victim.local_port, unread)
        # From the end, so that what leads up to being behind is met after it.
        is_held = False
        for index in range(last - 1, first - 1, -1):
            before, now = waited[index - 1], waited[index]
            is_read = unread[index] < behind
            is_begun = is_held and 0 < before <= now
            is_held = before >= behind and now >= behind and (is_held or not is_read)
            is_held = is_held or is_begun
            if is_held:
                held += max(0.0, min(end, self.at[index]) - max(begin, self.at[index - 1]))
        return held

    def longest_gap(self, begin: float, end: float) -> float:
        """Seconds of [begin, end] in which this program itself did not look."""
        first, last = bisect_left(self.at, begin), bisect_left(self.at, end)
        looks = self.at[max(0, first - 1) : last + 1]
        return max((b - a for a, b in pairwise(looks)), default=0.0)
