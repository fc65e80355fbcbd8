"""The lab's programs against a running broker: all publishers and consumers in one process.

One thread and one selector, as in `penstock perf`; what the programs do is the simulator's own code
(lab/peers), only their bytes go through real sockets.
"""

import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from multiprocessing.connection import Connection as Pipe
from typing import Final

from penstock.lab.live_child import begin_child
from penstock.lab.peers import (
    URL,
    DeclaringPeer,
    Peer,
    PeerFailed,
    consumers_of,
    publishers_of,
)
from penstock.lab.result import PeerTally
from penstock.lab.workload import Workload
from penstock.perf.link import LoadConnection, watch
from penstock.server.net.listener import raise_limit
from penstock.simulation.machine.dice import Dice

NS_PER_S: Final = 1_000_000_000
SET_UP_S: Final = 30.0
SEND_BUFFER_BYTES: Final = 65_536
"""A program's own socket buffer, so that what waits in kernels is as much as in the simulator."""
SELECT_FILES_MAX: Final = 1000
"""select counts in microseconds but knows only file numbers below 1024; epoll in milliseconds."""
FILES: Final = 8192


@dataclass(frozen=True, slots=True)
class Ready:
    """All programs are connected."""


@dataclass(frozen=True, slots=True)
class Go:
    """Begin at `start_ns`, measure from `from_ns` to `to_ns`, wait for confirms until `until_ns`,
    all of the machine's monotonic clock."""

    start_ns: int
    from_ns: int
    to_ns: int
    until_ns: int


def play(workload: Workload, seed: int, port: int, pipe: Pipe) -> None:
    """Connect all programs, say Ready; on Go play, send the Tally. A failure is sent as text."""
    begin_child()
    raise_limit(FILES)
    try:
        loop = PeerLoop(port)
        dice = Dice(seed)
        tally = PeerTally()
        loop.gather([DeclaringPeer(workload, URL, tally, time.monotonic_ns())])
        publishers = publishers_of(workload, dice, tally, time.monotonic_ns())
        consumers = consumers_of(workload, tally, time.monotonic_ns())
        loop.gather([*consumers, *publishers])
        pipe.send(Ready())
        go = pipe.recv()
        if not isinstance(go, Go):
            # The run has ended before it began.
            return
        tally.begin(go.start_ns, go.from_ns, go.to_ns)
        loop.run(go.start_ns)
        for peer in (*consumers, *publishers):
            peer.begin(go.start_ns)
        loop.wake()
        loop.run(go.to_ns)
        pipe.send(Ready())
        confirming = [one for one in publishers if one.spec.confirms_max]
        for publisher in publishers:
            publisher.stop()
        while any(one.open for one in confirming) and time.monotonic_ns() < go.until_ns:
            loop.run(time.monotonic_ns() + NS_PER_S // 50)
        for publisher in confirming:
            publisher.give_up(time.monotonic_ns())
        pipe.send(tally)
        loop.close()
    except (OSError, PeerFailed) as error:
        # The broker is gone, or does not do as it should: the command says so in a line.
        pipe.send(f"{type(error).__name__}: {error}")
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        raise


class PeerSocket:
    """One program with its socket. mask: what the selector watches; turn_ns: its next turn, -1 for
    none."""

    __slots__ = ("link", "mask", "number", "peer", "turn_ns")

    def __init__(self, number: int, peer: Peer, link: LoadConnection) -> None:
        self.number = number
        self.peer = peer
        self.link = link
        self.mask = 0
        self.turn_ns = -1


class PeerLoop:
    """All programs of a run, against the broker at `port` of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.places: list[PeerSocket] = []
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._heap: list[tuple[int, int]] = []

    def gather(self, peers: Sequence[Peer]) -> None:
        """Connect `peers` and wait until all are set up.

        Raises: OSError, PeerFailed, TimeoutError."""
        end_s = time.monotonic() + SET_UP_S
        for peer in peers:
            sock = socket.create_connection(("127.0.0.1", self.port), SET_UP_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            sock.setblocking(False)
            place = PeerSocket(len(self.places), peer, LoadConnection(sock, peer.session))
            self.places.append(place)
            self._act(place, time.monotonic_ns())
        while not all(peer.is_ready for peer in peers):
            if time.monotonic() > end_s:
                raise TimeoutError(f"not all programs were set up in {SET_UP_S} s")
            self.run(time.monotonic_ns() + NS_PER_S // 100)
        self._choose_selector()

    def _choose_selector(self) -> None:
        if max(place.link.fileno() for place in self.places) >= SELECT_FILES_MAX:
            return
        self._selector.close()
        self._selector = selectors.SelectSelector()
        for place in self.places:
            place.mask = 0
            self._watch(place)

    def wake(self) -> None:
        """All programs have begun."""
        for place in self.places:
            self._act(place, time.monotonic_ns())

    def run(self, until_ns: int) -> None:
        """Let all programs work until `until_ns`. Raises: PeerFailed."""
        heap = self._heap
        now_ns = time.monotonic_ns()
        while now_ns < until_ns:
            next_ns = min(heap[0][0], until_ns) if heap else until_ns
            wait_s = max(0, next_ns - now_ns) / NS_PER_S
            for key, mask in self._selector.select(wait_s):
                self._serve(key.data, mask)
            now_ns = time.monotonic_ns()
            while heap and heap[0][0] <= now_ns:
                due_ns, number = heappop(heap)
                place = self.places[number]
                if place.turn_ns == due_ns:
                    place.turn_ns = -1
                    self._act(place, now_ns)
            now_ns = time.monotonic_ns()

    def _serve(self, place: PeerSocket, mask: int) -> None:
        now_ns = time.monotonic_ns()
        if mask & selectors.EVENT_READ:
            place.peer.take(place.link.read(now_ns), now_ns)
        self._act(place, now_ns)

    def _act(self, place: PeerSocket, now_ns: int) -> None:
        peer = place.peer
        link = place.link
        link.write(now_ns)
        peer.has_room = len(link.unsent) == 0
        peer.turn(now_ns)
        link.write(now_ns)
        peer.has_room = len(link.unsent) == 0
        next_ns = peer.next_ns()
        if next_ns is not None and (place.turn_ns < 0 or next_ns < place.turn_ns):
            place.turn_ns = next_ns
            heappush(self._heap, (next_ns, place.number))
        self._watch(place)

    def _watch(self, place: PeerSocket) -> None:
        wanted = selectors.EVENT_READ if place.peer.wants_input() else 0
        if place.link.unsent:
            wanted |= selectors.EVENT_WRITE
        watch(self._selector, place.link.sock, place.mask, wanted, place)
        place.mask = wanted

    def close(self) -> None:
        """Close every socket; the broker is about to end anyway."""
        self._selector.close()
        for place in self.places:
            place.link.close()
