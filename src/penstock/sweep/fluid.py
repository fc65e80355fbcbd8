"""The fluid model: messages as a liquid, all connections moved at once in steps of time.

    due -> socket -> [ hop 1: connection to channel ] -> [ hop 2: channel to queue ] -> rest -> gone
One array element is one publisher, one connection, one channel; another set of arrays is the
queues. The rules are those of flow/credit, flow/hop and the depth mark of
flow/room, on real numbers:

    credit     balance falls with what is handed over; what is done is granted back in quanta
    room       what its depth mark leaves of a queue is what its publishers may hand over to it
    fair       what a queue can take, and its room, goes to its publishers in max-min equal parts
    program    writes what is due while it has room in its socket and unconfirmed publishes left
    hop 1      parking profiles: what hop 2 has no credit for stays; others: goes on, grants wait

    invariant  window = balance + in flight + done + deferred, for each hop, up to rounding
Not here: the processor (every actor is as fast as it likes), chance within a step, sizes (all
messages of a publisher have the mean one), alarms, accounts, rate limits, adaptive windows.
Latencies are read off the curves of what was written, confirmed and delivered, of some publishers.
Cost: about 50 passes over the arrays a step; a million connections for three seconds take two or
three minutes of one processor.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

UNLIMITED: Final = 1e18
EMPTY: Final = 1e-9
FAIR_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Crowd:
    """Arrays with one element a publisher. rate: messages/s; first_s: when the
    first is due; burst: messages that fall due together; catch_up_s: what is due is forgotten after
    it, UNLIMITED for never; room: messages its socket holds; unconfirmed_max; queue: index."""

    rate: Reals
    first_s: Reals
    burst: Reals
    catch_up_s: Reals
    room: Reals
    unconfirmed_max: Reals
    queue: Wholes


@dataclass(frozen=True, slots=True)
class Queues:
    """Arrays with one element a queue. service, drain: messages/s it takes, and its consumers do;
    commit_s: it takes in groups this often, 0 for at once; mark: depth mark in messages, UNLIMITED
    for none; at_rest: bytes of a message."""

    service: Reals
    drain: Reals
    commit_s: Reals
    mark: Reals
    at_rest: Reals


@dataclass(frozen=True, slots=True)
class Rules:
    """window, more_after: of both hops, UNLIMITED for none; is_parking: see Profile."""

    window: float
    more_after: float
    is_parking: bool


@dataclass(slots=True)
class Curves:
    """What was seen at the end of each step: at_s; of the watched publishers meant, written and
    confirmed; of their queues taken and gone, all cumulative; in all held_bytes, delivered
    messages, and sent ones."""

    at_s: list[float] = field(default_factory=list)
    meant: list[Reals] = field(default_factory=list)
    written: list[Reals] = field(default_factory=list)
    confirmed: list[Reals] = field(default_factory=list)
    taken: list[Reals] = field(default_factory=list)
    gone: list[Reals] = field(default_factory=list)
    held_bytes: list[float] = field(default_factory=list)
    delivered: list[float] = field(default_factory=list)


class Fluid:
    """One run. watched: indices of publishers whose curves are kept. Owner: the caller, who calls
    `step` for each moment in turn and reads the public arrays between."""

    def __init__(self, publishers: Crowd, queues: Queues, rules: Rules, watched: Wholes) -> None:
        self.publishers = publishers
        self.queues = queues
        self.rules = rules
        self.watched = watched
        self.watched_queues = publishers.queue[watched]
        self.curves = Curves()
        count, many = len(publishers.rate), len(queues.service)
        self.at_s = 0.0
        self.meant = np.zeros(count)
        self.forgotten = np.zeros(count)
        self.written = np.zeros(count)
        self.confirmed = np.zeros(count)
        self.socket = np.zeros(count)
        self.first = _Hop(count, rules)
        self.second = _Hop(count, rules)
        self.rest = np.zeros(many)
        self.taken = np.zeros(many)
        self.gone = np.zeros(many)
        self.budget = np.zeros(many)
        self._is_slow = bool((queues.service < UNLIMITED).any() or (queues.commit_s > 0).any())

    def step(self, dt_s: float, is_publishing: bool) -> None:
        """Let `dt_s` seconds pass; without `is_publishing` nothing new falls due."""
        before_s = self.at_s
        self.at_s += dt_s
        if is_publishing:
            self._write()
        self._read()
        self._route()
        took = self._take(before_s, dt_s)
        self._drain(dt_s)
        self._note()
        # Capacity that was not used is lost, except for a group that has not been committed yet.
        self.budget = np.where(took, 0.0, self.budget)

    def held(self) -> Reals:
        """Messages in each queue and on the way to it, behind the sockets."""
        return self.rest + self._sum(self.first.in_flight + self.second.in_flight)

    # -- the way of a message ---------------------------------------------------------------------

    def _write(self) -> None:
        """Programs write what is due."""
        own = self.publishers
        passed = np.maximum(0.0, self.at_s - own.first_s) * own.rate
        bursts = np.where(self.at_s >= own.first_s, np.floor(passed / own.burst) + 1, 0.0)
        self.meant = np.where(own.burst > 1, bursts * own.burst, passed)
        due = self.meant - self.forgotten - self.written
        excess = np.maximum(0.0, due - own.rate * own.catch_up_s)
        self.forgotten += excess
        may = np.minimum(
            own.room - self.socket, own.unconfirmed_max - self.written + self.confirmed
        )
        writes = np.clip(due - excess, 0.0, np.maximum(0.0, may))
        self.written += writes
        self.socket += writes

    def _read(self) -> None:
        """Connections read while their channels take publishes."""
        reads = np.minimum(self.socket, np.maximum(0.0, self.first.balance))
        self.socket -= reads
        self.first.charge(reads)

    def _route(self) -> None:
        """Channels hand on to queues."""
        moved = self.first.in_flight
        is_open = self.second.balance > 0
        if self.rules.is_parking:
            moved = np.minimum(moved, np.maximum(0.0, self.second.balance))
            # What the depth mark leaves is shared by those who have something for it (flow/room).
            held = self.rest + self._sum(self.second.in_flight)
            room = np.maximum(0.0, self.queues.mark - held)
            moved = self._shares(moved, room, self.publishers.queue)
            is_open = np.ones_like(is_open)
        self.second.charge(moved)
        self.first.repay(moved)
        self.first.grant(is_open)
        self.first.release(np.where(is_open, self.first.deferred, 0.0))

    def _take(self, before_s: float, dt_s: float) -> Flags:
        """Queues take what they have time for; returns which of them had their turn."""
        wanted = self.second.in_flight
        turns = np.ones(len(self.rest), dtype=bool)
        if self._is_slow:
            queues = self.queues
            self.budget += queues.service * dt_s
            each = np.maximum(queues.commit_s, dt_s)
            turns = (queues.commit_s <= dt_s) | (
                np.floor(self.at_s / each) > np.floor(before_s / each)
            )
            wanted = self._shares(wanted, np.where(turns, self.budget, 0.0), self.publishers.queue)
        self.second.repay(wanted)
        self.confirmed += wanted
        arrived = self._sum(wanted)
        self.taken += arrived
        self.rest += arrived
        self.second.grant(np.ones(len(wanted), dtype=bool))
        return turns

    def _drain(self, dt_s: float) -> None:
        """Consumers work."""
        gone = np.minimum(self.rest, self.queues.drain * dt_s)
        self.rest -= gone
        self.gone += gone

    # -- helpers ----------------------------------------------------------------------------------

    def _sum(self, values: Reals) -> Reals:
        """By queue, of values by publisher."""
        return self._count(values, self.publishers.queue)

    def _count(self, values: Reals, queue: Wholes) -> Reals:
        """By queue, of values by some publishers, who belong to `queue`."""
        return np.bincount(queue, values, len(self.rest)).astype(np.float64, copy=False)

    def _shares(self, wanted: Reals, room: Reals, queue: Wholes) -> Reals:
        """Max-min equal parts of `room`, by queue, for who wants something of it."""
        given = np.zeros_like(wanted)
        left = room
        for _ in range(FAIR_ROUNDS):
            open_wants = wanted - given
            hungry = open_wants > EMPTY
            mouths = self._count(hungry.astype(np.float64), queue)
            each = np.where(mouths > 0, left / np.maximum(mouths, 1.0), 0.0)
            part = np.where(hungry, np.minimum(open_wants, each[queue]), 0.0)
            given += part
            left = np.maximum(0.0, left - self._count(part, queue))
        return given

    def _note(self) -> None:
        curves, some = self.curves, self.watched
        curves.at_s.append(self.at_s)
        curves.meant.append(self.meant[some] - self.forgotten[some])
        curves.written.append(self.written[some])
        curves.confirmed.append(self.confirmed[some])
        curves.taken.append(self.taken[self.watched_queues])
        curves.gone.append(self.gone[self.watched_queues])
        curves.held_bytes.append(float(np.dot(self.held(), self.queues.at_rest)))
        curves.delivered.append(float(self.gone.sum()))


class _Hop:
    """The books of one kind of hop, see flow/hop: an element a connection."""

    __slots__ = ("balance", "deferred", "done", "in_flight", "more_after")

    def __init__(self, count: int, rules: Rules) -> None:
        self.more_after = rules.more_after
        self.balance = np.full(count, rules.window)
        self.in_flight = np.zeros(count)
        self.done = np.zeros(count)
        self.deferred = np.zeros(count)

    def charge(self, messages: Reals) -> None:
        self.balance -= messages
        self.in_flight += messages

    def repay(self, messages: Reals) -> None:
        self.in_flight = self.in_flight - messages
        self.done += messages

    def grant(self, is_open: Flags) -> None:
        """Give back what is done, in whole quanta; keep it where the receiver is held."""
        if self.more_after >= UNLIMITED:
            self.balance += self.done
            self.done[:] = 0.0
            return
        granted = np.floor((self.done + EMPTY) / self.more_after) * self.more_after
        self.done -= granted
        self.balance += np.where(is_open, granted, 0.0)
        self.deferred += np.where(is_open, 0.0, granted)

    def release(self, messages: Reals) -> None:
        self.deferred = np.maximum(0.0, self.deferred - messages)
        self.balance += messages
