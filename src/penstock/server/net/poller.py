"""Which sockets are ready: one epoll set of our own inside the asyncio loop.

The loop watches one descriptor, the set itself. When it is ready, all ready clients are served in
one go, the scheduler runs, and the set is asked again while there is input and the slice lasts, so
a message costs neither a loop iteration nor an asyncio handle. Where there is no epoll, every
socket is watched by the loop itself, which behaves the same and is slower.

Publishers never starve behind a backlog (scenario 91): while a socket has more input than one read
takes, at most BIAS times as much content goes out of queues as comes in, so that reading has its
turn before the slice is over; with nobody waiting to be read, deliveries go on for the whole slice.

Nor do clients starve behind those who come in (`is_entering`): a login costs as much as hundreds of
messages, so a few have their turn in a round, the longest waiting first; the others wait.

Output waits until input pauses or GATHER_NS has passed since the first message of the group, so
that messages arriving together leave together; a single message leaves at once.
"""

import asyncio
import select
import socket
from itertools import islice
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.actor import NO_STOP, Scheduler

SLICE_NS: Final = 5_000_000
"""The loop gets its turn after this long."""

LINGER_S: Final = 0.001
"""Having served somebody, wait this long for more before going back to the loop: in a conversation
the next message costs one system call then, and no iteration of the loop."""

GATHER_NS: Final = 200_000
BIAS: Final = 2
"""RabbitMQ's CONSUMER_BIAS_RATIO (5.2): publishers keep at least half the rate of deliveries."""
BIAS_GATHER_NS: Final = 2_000_000
"""Longest reading on without sending, to catch up with deliveries."""
BACKLOG_NS: Final = 20_000_000
"""A publisher whose socket was full so lately is about to fill it again."""
BIAS_BYTES: Final = 262_144
"""How much either side may be ahead, so that nothing long past is made up for."""
EVENTS_PER_POLL: Final = 256
ENTRIES_PER_POLL: Final = 4
"""Each costs about half a millisecond, compiled."""
READ: Final = 1
WRITE: Final = 4
GONE: Final = 0x18
EACH_WRITE: Final = 1 << 31
"""EPOLLET: a descriptor is ready once for every write, whether it is read or not."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Watched:
    """A socket that is watched. Nominal base."""

    __slots__ = ()

    def readable(self) -> bool:
        """There is input; False if it cannot be taken before the scheduler has run."""
        raise NotImplementedError

    def is_entering(self) -> bool:
        """What comes from it is dear, and others go first: a client that is not logged in yet."""
        return False

    def writable(self) -> None:
        """There is room for output."""
        raise NotImplementedError

    def watch_again(self) -> None:
        """Nothing of it was watched while it waited; its turn to come in has come."""

    def pause_if_stuck(self) -> None:
        """The scheduler has run since `readable` said False."""
        raise NotImplementedError

    def gone(self) -> None:
        """The peer has gone away while nothing was read."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Poller:
    """Watches sockets and runs the scheduler. Nominal base. Owner: the node.

    is_more_likely: set by a socket that gave a full read, because more is behind it, as has_backlog
    is, which nothing else sets."""

    __slots__ = ("has_backlog", "is_more_likely", "is_requested", "loop", "scheduler")

    def __init__(self, loop: asyncio.AbstractEventLoop, scheduler: Scheduler) -> None:
        self.loop = loop
        self.scheduler = scheduler
        self.is_requested = False
        self.is_more_likely = False
        self.has_backlog = False

    def watch(self, sock: socket.socket, watched: Watched, interest: int) -> None:
        """Begin, with `interest` READ, WRITE, both or neither."""
        raise NotImplementedError

    def change(self, sock: socket.socket, watched: Watched, interest: int) -> None:
        raise NotImplementedError

    def unwatch(self, sock: socket.socket) -> None:
        raise NotImplementedError

    def watch_bell(self, fd: int, bell: Watched) -> bool:
        """Call `bell.readable` whenever something is written to `fd`, an eventfd or a pipe; True if
        that need not be read there to be told of the next time."""
        raise NotImplementedError

    def unwatch_bell(self, fd: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Watch nothing any more."""

    def request(self) -> None:
        """See to it that the scheduler runs before the loop waits again."""
        if not self.is_requested:
            self.is_requested = True
            self.loop.call_soon(self.run)

    def run(self) -> None:
        """One slice of the scheduler."""
        self.is_requested = False
        if self.scheduler.run(SLICE_NS):
            self.request()


class EpollPoller(Poller):
    """Linux: see the top of the file. entering: by descriptor those that come in and have input,
    the longest waiting first; they are not watched until they had their turn."""

    __slots__ = (
        "accepted_bytes",
        "backlog_ns",
        "delivered_bytes",
        "entering",
        "epoll",
        "watched",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, scheduler: Scheduler) -> None:
        super().__init__(loop, scheduler)
        self.accepted_bytes: i64 = 0
        self.backlog_ns: int = -BACKLOG_NS
        self.delivered_bytes: i64 = 0
        self.entering: dict[int, Watched] = {}
        self.epoll = select.epoll()
        self.watched: dict[int, Watched] = {}
        loop.add_reader(self.epoll.fileno(), self.ready)

    def watch(self, sock: socket.socket, watched: Watched, interest: int) -> None:
        self.watched[sock.fileno()] = watched
        self.epoll.register(sock.fileno(), interest)

    def change(self, sock: socket.socket, watched: Watched, interest: int) -> None:
        self.epoll.modify(sock.fileno(), interest)

    def unwatch(self, sock: socket.socket) -> None:
        self.watched.pop(sock.fileno(), None)
        self.entering.pop(sock.fileno(), None)
        # The disk outlives the poller, so that all its work is done at a stop.
        if not self.epoll.closed:
            self.epoll.unregister(sock.fileno())

    def watch_bell(self, fd: int, bell: Watched) -> bool:
        self.watched[fd] = bell
        self.epoll.register(fd, READ | EACH_WRITE)
        return True

    def unwatch_bell(self, fd: int) -> None:
        self.watched.pop(fd, None)
        if not self.epoll.closed:
            self.epoll.unregister(fd)

    def close(self) -> None:
        self.loop.remove_reader(self.epoll.fileno())
        self.epoll.close()

    def ready(self) -> None:
        """Some sockets are ready: serve them until input pauses or the slice is over."""
        scheduler = self.scheduler
        clock = scheduler.clock
        began_ns = clock.monotonic_ns()
        scheduler.heard_ns = began_ns
        group_ns = began_ns
        wait_s = 0.0
        while True:
            events: list[tuple[int, int]] = self.epoll.poll(wait_s, EVENTS_PER_POLL)
            if wait_s > 0.0:
                if not events:
                    return
                wait_s = 0.0
                group_ns = clock.monotonic_ns()
                scheduler.heard_ns = group_ns
            self.is_more_likely = len(events) > 1
            self.has_backlog = False
            stuck = self._serve(events)
            now_ns = clock.monotonic_ns()
            if self.has_backlog:
                self.backlog_ns = now_ns
            is_biased = now_ns - self.backlog_ns < BACKLOG_NS
            ahead: i64 = self._ahead_bytes(is_biased)
            gather_ns = BIAS_GATHER_NS if self.has_backlog and ahead > 0 else GATHER_NS
            if self.is_more_likely and not stuck and now_ns - group_ns < gather_ns:
                scheduler.heard_ns = scheduler.run_actors(now_ns + SLICE_NS)
                continue
            if is_biased:
                scheduler.stop_at_bytes = scheduler.outputs.delivered_bytes - ahead
            if scheduler.run(SLICE_NS):
                self.request()
            scheduler.stop_at_bytes = NO_STOP
            for one in stuck:
                one.pause_if_stuck()
            group_ns = clock.monotonic_ns()
            scheduler.flushed_ns = group_ns
            if group_ns - began_ns >= SLICE_NS or self.is_requested:
                if self.entering:
                    self.request()
                return
            if self.entering:
                scheduler.heard_ns = group_ns
            else:
                wait_s = LINGER_S

    def run(self) -> None:
        """One slice of the scheduler, and whoever is ready by now is served first."""
        self.is_requested = False
        # What was asked for before the end may come after it.
        if not self.epoll.closed:
            self.ready()

    def _ahead_bytes(self, is_biased: bool) -> i64:
        """By how much deliveries are ahead of BIAS times what queues took, as long as sockets have
        more input than one read takes; it counts from now when none has."""
        delivered: i64 = self.scheduler.outputs.delivered_bytes
        accepted: i64 = self.scheduler.accepted_bytes
        ahead: i64 = delivered - self.delivered_bytes - BIAS * (accepted - self.accepted_bytes)
        if is_biased and -BIAS_BYTES <= ahead <= BIAS_BYTES:
            return ahead
        if not is_biased:
            ahead = 0
        elif ahead > 0:
            ahead = BIAS_BYTES
        else:
            ahead = -BIAS_BYTES
        self.delivered_bytes = delivered - ahead
        self.accepted_bytes = accepted
        return ahead

    def _serve(self, events: list[tuple[int, int]]) -> list[Watched]:
        stuck: list[Watched] = []
        entering = self.entering
        for fd, mask in events:
            watched = self.watched.get(fd)
            if watched is None:
                continue
            if fd in entering:
                continue
            if mask & READ:
                if watched.is_entering():
                    entering[fd] = watched
                    self.epoll.modify(fd, mask & WRITE)
                elif not watched.readable():
                    stuck.append(watched)
            elif mask & GONE:
                watched.gone()
                continue
            if mask & WRITE:
                watched.writable()
        for fd in list(islice(entering, ENTRIES_PER_POLL)):
            # What one of them does may be the end of another.
            first = entering.pop(fd, None)
            if first is not None:
                first.watch_again()
                if not first.readable():
                    stuck.append(first)
        return stuck


class LoopPoller(Poller):
    """Anywhere: the loop watches every socket."""

    __slots__ = ("interests",)

    def __init__(self, loop: asyncio.AbstractEventLoop, scheduler: Scheduler) -> None:
        super().__init__(loop, scheduler)
        self.interests: dict[int, int] = {}

    def watch(self, sock: socket.socket, watched: Watched, interest: int) -> None:
        self.interests[sock.fileno()] = 0
        self.change(sock, watched, interest)

    def change(self, sock: socket.socket, watched: Watched, interest: int) -> None:
        fd = sock.fileno()
        before = self.interests[fd]
        self.interests[fd] = interest
        if interest & READ and not before & READ:
            self.loop.add_reader(fd, self._readable, watched)
        elif before & READ and not interest & READ:
            self.loop.remove_reader(fd)
        if interest & WRITE and not before & WRITE:
            self.loop.add_writer(fd, self._writable, watched)
        elif before & WRITE and not interest & WRITE:
            self.loop.remove_writer(fd)

    def unwatch(self, sock: socket.socket) -> None:
        self.interests.pop(sock.fileno(), None)
        self.loop.remove_reader(sock.fileno())
        self.loop.remove_writer(sock.fileno())

    def watch_bell(self, fd: int, bell: Watched) -> bool:
        self.loop.add_reader(fd, self._readable, bell)
        return False

    def unwatch_bell(self, fd: int) -> None:
        self.loop.remove_reader(fd)

    def _readable(self, watched: Watched) -> None:
        if not watched.readable():
            watched.pause_if_stuck()
        self.request()

    def _writable(self, watched: Watched) -> None:
        watched.writable()
        self.request()


def make_poller(loop: asyncio.AbstractEventLoop, scheduler: Scheduler) -> Poller:
    """The best one this machine has."""
    if hasattr(select, "epoll"):
        return EpollPoller(loop, scheduler)
    return LoopPoller(loop, scheduler)
