"""How long messages live: of entries, and of messages that were paged without one.

    dead at `now`  <=>  expires_ns <= now     (a lifetime of 0: < now, so it lives for one instant)
A lifetime is the shorter of the queue's and the message's own. That of a paged message is made anew
when it is read, from its own and from a mark: when it came, and what its queue gave it. There is
one mark for all that came in the same turn:

    mark   everything from its position up to the next mark's
A queue keeps MARKS_MAX of them at most. Beyond, the marks become coarser: one stands for all that
came within `grain_ns`, with the time of the last of them. So a message may die late by a 2000th of
the time that lies between the first and the last one, and never early.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.base.limits import PAGED_MARKS
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import expiration
from penstock.queues.entry import FLAG_EXPIRATION, VALUES_AT, Entry, flags_of
from penstock.queues.rules import LIFETIME_MS_MAX, NEVER, NS_PER_MS

MARKS_MAX: Final = PAGED_MARKS.default


class ArrivalMark:
    """first_ns, came_ns: when the first and the last of them came, monotonic, may lie before the
    machine's start; is_known: if not, only the disk knows that; ttl_ns: what the queue gives them,
    NEVER for no end; since_ns: that does not begin before this; is_given_later: it is for those
    only that have no lifetime of their own."""

    __slots__ = (
        "came_ns",
        "first_ns",
        "is_given_later",
        "is_known",
        "position",
        "since_ns",
        "ttl_ns",
    )

    def __init__(
        self, position: i64, came_ns: i64, is_known: bool, ttl_ns: i64, since_ns: i64
    ) -> None:
        self.position: i64 = position
        self.first_ns: i64 = came_ns
        self.came_ns: i64 = came_ns
        self.is_known = is_known
        self.ttl_ns: i64 = ttl_ns
        self.is_given_later = False
        self.since_ns: i64 = since_ns

    def is_like(self, ttl_ns: i64, is_given_later: bool) -> bool:
        """Whether it may stand for others with this lifetime as well."""
        return self.is_known and self.ttl_ns == ttl_ns and self.is_given_later == is_given_later

    def take_in(self, later: "ArrivalMark") -> None:
        """It stands for `later`, which is known as well, from now on; where they differ nobody dies
        early by the queue's lifetime, but everybody who had one dies."""
        self.came_ns = later.came_ns
        if later.ttl_ns > self.ttl_ns:
            self.ttl_ns = later.ttl_ns
        if later.since_ns > self.since_ns:
            self.since_ns = later.since_ns
        self.is_given_later = self.is_given_later and later.is_given_later


class Arrivals:
    """most: marks there may be; marks: in order of their positions; what lies before the first one
    is gone; grain_ns: one is for all that came within this, 0.. ."""

    __slots__ = ("grain_ns", "marks", "most")

    def __init__(self, most: i64) -> None:
        self.most: i64 = most
        self.marks: deque[ArrivalMark] = deque()
        self.grain_ns: i64 = 0

    def note(self, position: i64, came_ns: i64, ttl_ns: i64) -> None:
        """The message at `position` has come, behind all others."""
        marks = self.marks
        if marks:
            last = marks[-1]
            if last.is_like(ttl_ns, False) and came_ns - last.first_ns <= self.grain_ns:
                last.came_ns = came_ns
                last.since_ns = came_ns
                return
        marks.append(ArrivalMark(position, came_ns, True, ttl_ns, came_ns))
        self._bound()

    def note_first(self, position: i64, came_ns: i64, ttl_ns: i64) -> None:
        """The message at `position`, right before all others, leaves memory again."""
        marks = self.marks
        if marks:
            first = marks[0]
            if first.is_like(ttl_ns, False) and first.came_ns - came_ns <= self.grain_ns:
                first.position = position
                first.first_ns = came_ns
                return
        marks.appendleft(ArrivalMark(position, came_ns, True, ttl_ns, came_ns))
        self._bound()

    def note_unknown(self, position: i64, ttl_ns: i64, since_ns: i64) -> None:
        """What lies from `position` on came before anybody noted when."""
        self.marks.append(ArrivalMark(position, 0, False, ttl_ns, since_ns))

    def at(self, position: i64) -> ArrivalMark:
        """The mark of the message at `position`; what lies before is not asked for any more."""
        marks = self.marks
        while len(marks) > 1 and marks[1].position <= position:
            marks.popleft()
        return marks[0]

    def give(self, ttl_ns: i64, now_ns: i64) -> None:
        """The queue has another lifetime: it begins now for those who have none, and changes for
        nobody who has."""
        if ttl_ns == NEVER:
            return
        for mark in self.marks:
            if mark.ttl_ns == NEVER:
                mark.ttl_ns = ttl_ns
                mark.since_ns = now_ns
                mark.is_given_later = True

    def _bound(self) -> None:
        """Too many: those that are alike become half as many, and if they are not, all do."""
        marks = self.marks
        if len(marks) <= self.most:
            return
        known = [mark for mark in marks if mark.is_known]
        grain_ns: i64 = 2 * (known[-1].came_ns - known[0].first_ns) // self.most + 1
        if grain_ns > self.grain_ns:
            self.grain_ns = grain_ns
        self._merge(False)
        if len(self.marks) > self.most:
            self._merge(True)

    def _merge(self, is_forced: bool) -> None:
        kept: deque[ArrivalMark] = deque()
        last: ArrivalMark | None = None
        for mark in self.marks:
            if (
                last is not None
                and last.is_known
                and mark.is_known
                and mark.came_ns - last.first_ns <= self.grain_ns
                and (is_forced or last.is_like(mark.ttl_ns, mark.is_given_later))
            ):
                last.take_in(mark)
            else:
                kept.append(mark)
                last = mark
        self.marks = kept


class Lifetimes:
    """Hook of a queue with rules. ttl_ms: what the queue gives, NEVER for no end; uneven_count:
    ready entries whose lifetime is not the queue's."""

    __slots__ = ("ttl_ms", "uneven_count")

    def __init__(self, ttl_ms: i64) -> None:
        self.ttl_ms: i64 = ttl_ms
        self.uneven_count: i64 = 0

    def ttl_ns(self) -> i64:
        """What the queue gives, in nanoseconds, NEVER for no end."""
        ttl_ms: i64 = self.ttl_ms
        return NEVER if ttl_ms == NEVER or ttl_ms >= LIFETIME_MS_MAX else ttl_ms * NS_PER_MS

    def begin(self, entry: Entry, now_ns: i64) -> None:
        """The lifetime of `entry`, which is not ready, begins at `now_ns`."""
        lifetime_ms: i64 = self.ttl_ms
        entry.came_ns = now_ns
        entry.is_uneven = False
        if (flags_of(entry.message) & FLAG_EXPIRATION) != 0:
            own: i64 = own_lifetime_ms(entry.message)
            if own < LIFETIME_MS_MAX and (lifetime_ms == NEVER or own < lifetime_ms):
                lifetime_ms = own
                entry.is_uneven = True
        entry.is_fleeting = lifetime_ms == 0
        if lifetime_ms == NEVER or lifetime_ms >= LIFETIME_MS_MAX:
            entry.expires_ns = NEVER
        else:
            entry.expires_ns = now_ns + lifetime_ms * NS_PER_MS

    def entered(self, entry: Entry) -> None:
        """`entry` is ready."""
        if entry.is_uneven:
            self.uneven_count += 1

    def left(self, entry: Entry) -> None:
        """`entry` is not ready any more."""
        if entry.is_uneven:
            self.uneven_count -= 1

    def change(self, entry: Entry, now_ns: i64) -> None:
        """The queue has another lifetime: it begins now for `entry`, which is ready, if it has
        none."""
        self.left(entry)
        if entry.expires_ns == NEVER:
            self.begin(entry, now_ns)
        entry.is_uneven = True
        self.entered(entry)

    def given(self, entry: Entry) -> i64:
        """What the queue gives `entry` from the beginning of its lifetime on, in nanoseconds; NEVER
        where that is its own."""
        if entry.expires_ns == NEVER:
            return NEVER
        lifetime_ns: i64 = entry.expires_ns - entry.came_ns
        if (flags_of(entry.message) & FLAG_EXPIRATION) != 0:
            own: i64 = own_lifetime_ms(entry.message)
            if own < LIFETIME_MS_MAX and own * NS_PER_MS == lifetime_ns:
                return NEVER
        return lifetime_ns

    def recall(self, entry: Entry, mark: ArrivalMark, came_ns: i64) -> None:
        """`entry`, whose message came at `came_ns` and was read, gets the lifetime that it would
        have had all along."""
        entry.came_ns = came_ns
        expires_ns: i64 = NEVER
        if mark.ttl_ns != NEVER:
            expires_ns = (came_ns if came_ns > mark.since_ns else mark.since_ns) + mark.ttl_ns
            if expires_ns < 1:
                expires_ns = 1
        entry.is_fleeting = mark.ttl_ns == 0
        if (flags_of(entry.message) & FLAG_EXPIRATION) != 0:
            own: i64 = own_lifetime_ms(entry.message)
            own_ns: i64 = came_ns + own * NS_PER_MS
            is_shorter = own_ns < expires_ns or mark.is_given_later
            if own < LIFETIME_MS_MAX and (expires_ns == NEVER or is_shorter):
                # Dead since before the machine was started is dead.
                expires_ns = own_ns if own_ns > 0 else 1
                entry.is_uneven = True
                entry.is_fleeting = own == 0
        entry.expires_ns = expires_ns


def own_lifetime_ms(message: Message) -> i64:
    """How long `message`, which has an expiration, asks to live, LIFETIME_MS_MAX for ever."""
    text = expiration(message.raw, VALUES_AT, int(message.header_bytes) + 7)
    if not text:
        return LIFETIME_MS_MAX
    own = int(text)
    return own if own < LIFETIME_MS_MAX else LIFETIME_MS_MAX
