"""How long a client waits for our answers, and in which stage. This module is compiled.

The time of a channel, or of a connection with all its channels, is cut at two kinds of events:
requests that came in, and answers that went out.

    what ends with an answer    is a wait: something was unanswered, and nothing more was sent
    everything else             is the client's own time

So who sends on while answers are due waits for none of it, however much is unanswered. What came
together with more that is not read yet, or was followed by more at once, is no wait either. Of each
wait the stages sum to the whole:

    read, channel, queue, store, sync, answer           sum of stages = wait <= time that has passed

A turn's own time is used for all of it, so nothing reads a clock for these books. What a socket's
buffer holds before the loop looks there counts as the client's time, and so does the send.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

STAGE_NAMES: Final = ("read", "channel", "queue", "store", "sync", "answer")
"""read: until the channel's turn; channel: until the queue's; queue: until the store's; store:
until its batch goes to the disk; sync: until that is safe; answer: until it is written."""

BASIC_ACK: Final = 0x3C0050
BASIC_RETURN: Final = 0x3C0032
TX_COMMIT: Final = 0x5A0014

AT_ONCE_NS: Final = 20_000
"""No client answers so fast: what is there by then was sent before our answer came."""
RUNNING_NS: Final = 100_000_000
"""A wait that runs for so long counts before it has ended."""

NOTHING: Final = 0
IN_QUEUE: Final = 1
ON_DISK: Final = 2


@mypyc_attr(acyclic=True)
class AnswerEntry:
    """Waits for one kind of answer. kind: identity of the answer, or of the method it is to; count;
    ns: of all of them; flying: unanswered when the answer came, summed up; most: at once, since the
    first wait after the books were last read, which is_read says; after: the next entry of the same
    books; the others: nanoseconds in each stage."""

    __slots__ = (
        "after",
        "answer",
        "channel",
        "count",
        "flying",
        "is_read",
        "kind",
        "most",
        "ns",
        "queue",
        "read",
        "store",
        "sync",
    )

    def __init__(self, kind: i64) -> None:
        self.kind: i64 = kind
        self.count: i64 = 0
        self.ns: i64 = 0
        self.flying: i64 = 0
        self.most: i64 = 0
        self.is_read = False
        self.after: AnswerEntry | None = None
        self.read: i64 = 0
        self.channel: i64 = 0
        self.queue: i64 = 0
        self.store: i64 = 0
        self.sync: i64 = 0
        self.answer: i64 = 0

    @property
    def stages(self) -> list[int]:
        """Nanoseconds in each of STAGE_NAMES."""
        return [
            int(self.read),
            int(self.channel),
            int(self.queue),
            int(self.store),
            int(self.sync),
            int(self.answer),
        ]

    def copy(self) -> "AnswerEntry":
        """What it says at this moment."""
        twin = AnswerEntry(self.kind)
        twin.become(self)
        twin.count = self.count
        twin.most = self.most
        return twin

    def add(self, wait: "AnswerEntry") -> None:
        """One more wait."""
        self.count += 1
        self.ns += wait.ns
        self.flying += wait.flying
        if self.is_read or wait.flying > self.most:
            self.most = wait.flying
            self.is_read = False
        self.read += wait.read
        self.channel += wait.channel
        self.queue += wait.queue
        self.store += wait.store
        self.sync += wait.sync
        self.answer += wait.answer

    def become(self, wait: "AnswerEntry") -> None:
        """The same wait as another."""
        self.ns = wait.ns
        self.flying = wait.flying
        self.read = wait.read
        self.channel = wait.channel
        self.queue = wait.queue
        self.store = wait.store
        self.sync = wait.sync
        self.answer = wait.answer

    def split(self, begins_ns: i64, ends_ns: i64, times: "AnswerTimes", reached: i64) -> None:
        """Each stage begins where it is known to, and not before the one before it; what is left
        belongs to the last that has begun, as far as it was `reached`."""
        self.channel = self.queue = self.store = self.sync = self.answer = 0
        taken_ns: i64 = times.taken_ns
        if reached != NOTHING and times.queued_ns < taken_ns:
            taken_ns = times.queued_ns
        at: i64 = between(begins_ns, taken_ns, ends_ns)
        self.read = at - begins_ns
        if reached == NOTHING:
            self.channel = ends_ns - at
            return
        until: i64 = between(at, times.queued_ns, ends_ns)
        self.channel = until - at
        if reached == IN_QUEUE:
            self.queue = ends_ns - until
            return
        at = between(until, times.joined_ns, ends_ns)
        self.queue = at - until
        until = between(at, times.sent_ns, ends_ns)
        self.store = until - at
        at = between(until, times.done_ns, ends_ns)
        self.sync = at - until
        self.answer = ends_ns - at


def between(least: i64, wanted: i64, most: i64) -> i64:
    """`wanted`, or the end of the range it lies beyond."""
    if wanted < least:
        return least
    return most if wanted > most else wanted


@mypyc_attr(acyclic=True)
class AnswerTimes:
    """The books of one channel, or of a connection, which is `above` those of its channels. Kept
    from the garbage collector, as entries are: nothing leads back to them.

    arrived: publishes that were looked at so far; reply: kind of what was written in this turn, 0
    for nothing; awaited: kind of what is unanswered; unanswered: publishes; is_asked: a method is;
    is_sending: more has been sent than was read.

    first: of the entries, one for each kind, as a chain: most books have one entry; last: what was
    waited for last, None while nothing was since the books were read. Bound: one entry for each
    synchronous method of the protocol.
    """

    __slots__ = (
        "above",
        "arrived",
        "awaited",
        "done_ns",
        "first",
        "is_asked",
        "is_sending",
        "joined_ns",
        "last",
        "last_kind",
        "last_reached",
        "mark_ns",
        "queued_ns",
        "reached",
        "reply",
        "sent_ns",
        "taken_ns",
        "unanswered",
    )

    def __init__(self, above: "AnswerTimes | None") -> None:
        self.above = above
        self.first: AnswerEntry | None = None
        self.arrived: i64 = 0
        self.reply: i64 = 0
        self.awaited: i64 = BASIC_ACK
        self.unanswered: i64 = 0
        self.is_asked = False
        self.is_sending = False
        self.mark_ns: i64 = 0
        self.taken_ns: i64 = 0
        self.queued_ns: i64 = 0
        self.joined_ns: i64 = 0
        self.sent_ns: i64 = 0
        self.done_ns: i64 = 0
        self.reached: i64 = NOTHING
        # The last wait, which is entered when it is known whether more had been sent meanwhile.
        self.last: AnswerEntry | None = None
        self.last_kind: i64 = 0
        self.last_reached: i64 = NOTHING

    # -- requests --------------------------------------------------------------------------------

    def heard(self, heard_ns: i64, turn_ns: i64, flushed_ns: i64) -> None:
        """Requests came in. heard_ns: when the loop saw that there is input; turn_ns: when the turn
        began that took them; flushed_ns: when everything due had last been sent."""
        above = self.above
        if above is not None:
            above.heard(heard_ns, turn_ns, flushed_ns)
        if self.is_asked:
            return
        if self.last_kind != 0:
            if heard_ns <= self.mark_ns or self._is_at_once(heard_ns - flushed_ns):
                self.last_kind = 0
            else:
                self._enter()
        self.taken_ns = turn_ns
        if heard_ns > self.mark_ns:
            self.mark_ns = heard_ns

    def _is_at_once(self, gap_ns: i64) -> bool:
        """Whether what came `gap_ns` after the last answer was sent before it. While the disk was
        waited for the loop looked at every socket, so nothing had been."""
        last = self.last
        if last is None or last.flying <= 1:
            return False
        return self.last_reached != ON_DISK and gap_ns < AT_ONCE_NS

    def note_unanswered(self, publishes: i64) -> None:
        """So many `publishes` of the channel are unanswered now."""
        above = self.above
        if above is not None:
            above.unanswered += publishes - self.unanswered
            above.awaited = self.awaited
        self.unanswered = publishes

    # -- stages ----------------------------------------------------------------------------------

    def queued(self, turn_ns: i64) -> None:
        """A queue has taken publishes in the turn that began at `turn_ns`."""
        if self.reached == NOTHING:
            self.reached = IN_QUEUE
            self.queued_ns = turn_ns

    def synced(self, queued_ns: i64, joined_ns: i64, sent_ns: i64, done_ns: i64) -> None:
        """Publishes are safe. queued_ns, joined_ns: when the turns of the queue and of the store
        began; sent_ns, done_ns: when the disk was given the batch, and had it."""
        self.reached = ON_DISK
        self.queued_ns = queued_ns
        self.joined_ns = joined_ns
        self.sent_ns = sent_ns
        self.done_ns = done_ns

    # -- answers ---------------------------------------------------------------------------------

    def answered(self, kind: i64, flying: i64, left: i64, now_ns: i64) -> None:
        """An answer of this `kind` was written and is about to be sent. flying, left: publishes
        that were unanswered before, and are now."""
        above = self.above
        if above is None:
            self._close(kind, flying, now_ns, self.is_sending)
        else:
            mark_ns: i64 = self.mark_ns
            is_wait = self._close(kind, flying, now_ns, above.is_sending)
            if is_wait and above.mark_ns == mark_ns and above.unanswered == self.unanswered:
                above._copy(self)
            else:
                above._take_stages(self)
                above._close(kind, above.unanswered, now_ns, above.is_sending)
        self.note_unanswered(left)
        self.reached = NOTHING
        self.reply = 0
        self.is_asked = False

    def _copy(self, of: "AnswerTimes") -> None:
        """The wait just closed in the books `of` the only channel at work is the connection's."""
        if self.last_kind != 0:
            self._enter()
        self.mark_ns = of.mark_ns
        self.last_kind = of.last_kind
        self.last_reached = of.last_reached
        if of.last is not None:
            self._last().become(of.last)

    def _take_stages(self, of: "AnswerTimes") -> None:
        self.taken_ns = of.taken_ns
        self.reached = of.reached
        self.queued_ns = of.queued_ns
        self.joined_ns = of.joined_ns
        self.sent_ns = of.sent_ns
        self.done_ns = of.done_ns

    def _close(self, kind: i64, flying: i64, now_ns: i64, is_sending: bool) -> bool:
        """What has passed since the last event was a wait, unless more has been sent; if so."""
        mark_ns: i64 = self.mark_ns
        if now_ns <= mark_ns:
            return False
        self.mark_ns = now_ns
        if is_sending or mark_ns == 0:
            return False
        if self.last_kind != 0:
            self._enter()
        is_publish = kind in (BASIC_ACK, BASIC_RETURN, TX_COMMIT)
        # What is returned has been in no queue.
        is_taken = is_publish and kind != BASIC_RETURN
        self.last_kind = kind
        last = self._last()
        last.ns = now_ns - mark_ns
        last.flying = flying if is_publish and flying > 1 else 1
        self.last_reached = self.reached if is_taken else NOTHING
        last.split(mark_ns, now_ns, self, self.last_reached)
        return True

    def _enter(self) -> None:
        """The last wait was one."""
        kind: i64 = self.last_kind
        self.last_kind = 0
        last = self.last
        if last is None:
            return
        entry = self.first
        if entry is None:
            entry = self.first = AnswerEntry(kind)
        while entry.kind != kind:
            after = entry.after
            if after is None:
                after = entry.after = AnswerEntry(kind)
            entry = after
        entry.add(last)

    def _last(self) -> AnswerEntry:
        """Where the last wait is written."""
        last = self.last
        if last is None:
            last = self.last = AnswerEntry(0)
        return last

    # -- asking ----------------------------------------------------------------------------------

    def is_waiting(self) -> bool:
        """Whether anything is unanswered."""
        return self.is_asked or self.unanswered > 0

    def totals(self, now_ns: i64) -> list[AnswerEntry]:
        """By kind, with a wait that runs for long; a period of `most` ends with the next wait."""
        if self.last_kind != 0:
            self._enter()
        self.last = None
        answer: list[AnswerEntry] = []
        entry = self.first
        while entry is not None:
            answer.append(entry.copy())
            entry.is_read = True
            entry = entry.after
        running_ns: i64 = now_ns - self.mark_ns
        if self.is_waiting() and running_ns >= RUNNING_NS and self.mark_ns > 0:
            self._add_running(answer, running_ns)
        return answer

    def _add_running(self, answer: list[AnswerEntry], running_ns: i64) -> None:
        running = AnswerEntry(self.awaited)
        running.ns = running_ns
        running.flying = self.unanswered if self.unanswered > 1 else 1
        read_ns: i64 = self.taken_ns - self.mark_ns
        if read_ns < 0 or read_ns > running_ns:
            read_ns = 0
        running.read = read_ns
        # Where it is on its way further down is not known before it is answered.
        if self.is_asked:
            running.channel = running_ns - read_ns
        else:
            running.queue = running_ns - read_ns
        found = [one for one in answer if one.kind == running.kind]
        if not found:
            found = [AnswerEntry(running.kind)]
            answer.extend(found)
        found[0].add(running)
