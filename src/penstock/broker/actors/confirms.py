"""Which publishes of a channel are confirmed: counts per sequence number, answered in batches.

    waiting[i] = queues that still have to take publish base + i;  0 = done;  ANSWERED = told
                 head..ripe-1 are done, whatever stands there, because most are done in their order
    early        the same of numbers below base, which wait so long that more than SPAN_MAX came
                 after them: a publish that is parked for a queue that stands still
Everything below the first unanswered number goes out as one basic.ack, with `multiple` if it
answers more than one publish: clients count a confirm without it as one, and need not look for
others. Numbers above it that are done go out one by one (flow-semantics 4.1), and so do all while
there are early ones. The commits of a
transactional channel are answered here too, each when everything published in it is safe. COMPILED.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.wire import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from penstock.protocol.content import Message, as_i16

ANSWERED: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF
"""A message keeps the lower bits of its number: what is unanswered spans less than these."""

SPAN_MAX: Final = 16_384
"""Numbers in the list, from the first unanswered one to the last, before the older half is set
aside."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Commits:
    """lasts: of each commit that is not answered, oldest first, the number of its last publish;
    refused: the lowest number that a queue will never take, 0 for none. The publishes of a
    transaction are numbered when it is committed below, so those up to a
    commit's last one are its own and those of commits before it.

    Bound: what is waited for rests in queues and hops, which are bounded themselves. Nominal base:
    whose it is hears of a commit that failed.
    """

    __slots__ = ("lasts", "refused")

    def __init__(self) -> None:
        self.lasts: list[int] = []
        self.refused: i64 = 0

    def note_refused(self, sequence: i64) -> None:
        """A queue will never take this publish."""
        if self.refused == 0 or sequence < self.refused:
            self.refused = sequence

    def is_next_done(self, answered_below: i64) -> bool:
        """Whether the oldest commit has everything, all below `answered_below` being answered."""
        return len(self.lasts) > 0 and i64(self.lasts[0]) < answered_below

    def take(self) -> bool:
        """The oldest commit is answered; False when some of it was refused."""
        last: i64 = i64(self.lasts.pop(0))
        return self.refused == 0 or self.refused > last

    def failed(self) -> None:
        """A commit was carried out in part only."""
        raise NotImplementedError


class Confirms:
    """`next_sequence`: the number of the next publish, 1.. ; is_multiple: whether the number that
    `collect_multiple` gave last answers several publishes; commits: of a transactional channel,
    whose client is told of whole commits, None when it is told of publishes; early: by the lower
    bits of the number; late: early ones that are done, to be answered one by one."""

    __slots__ = (
        "base",
        "commits",
        "early",
        "head",
        "is_dirty",
        "is_multiple",
        "late",
        "nacked",
        "next_sequence",
        "ripe",
        "singles",
        "waiting",
    )

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.base: i64 = 1
        self.head: i64 = 0
        self.ripe: i64 = 0
        self.next_sequence: i64 = 1
        self.singles: list[int] = []
        self.nacked: list[int] = []
        self.is_dirty = False
        self.is_multiple = False
        self.commits: Commits | None = None
        self.early: dict[int, int] = {}
        self.late: list[int] = []

    def begin(self) -> i64:
        """A publish arrives, and one queue has to take it: the lower bits of its number."""
        sequence: i64 = self.next_sequence
        self.next_sequence = sequence + 1
        self.waiting.append(1)
        return sequence & SEQUENCE_MASK

    def begin_run(self, count: i64, queues: i64) -> i64:
        """`count` publishes arrive, 1.. , and `queues` have to take each, 1.. : the lower bits of
        the number of the first."""
        sequence: i64 = self.next_sequence
        self.next_sequence = sequence + count
        self.waiting.extend([int(queues)] * int(count))
        return sequence & SEQUENCE_MASK

    def expect(self, sequence: i64, queues: i64) -> None:
        """`queues` have to take it, 0.. ; with 0 it is done at once."""
        if queues == 0:
            self.accept(sequence)
        elif queues > 1:
            self.waiting[(sequence - self.base) & SEQUENCE_MASK] = int(queues)

    def accept(self, sequence: i64) -> None:
        """One queue took it. Nothing if another queue has refused it."""
        index: i64 = (sequence - self.base) & SEQUENCE_MASK
        if index < self.ripe or index >= len(self.waiting):
            if self.early:
                self._accept_early(sequence)
            return
        left: i64 = i64(self.waiting[index]) - 1
        if left < 0:
            return
        if left > 0:
            self.waiting[index] = int(left)
            return
        self.is_dirty = True
        if index == self.ripe:
            self.ripe = index + 1
        else:
            self.waiting[index] = 0
            self.singles.append(int(self.base + index))

    def _accept_early(self, sequence: i64) -> None:
        left: i64 = i64(self.early.get(int(sequence), 0)) - 1
        if left > 0:
            self.early[int(sequence)] = int(left)
        elif left == 0:
            del self.early[int(sequence)]
            self.late.append(int(self._full(sequence)))
            self.is_dirty = True

    def _full(self, sequence: i64) -> i64:
        """The number of an early one, of which `sequence` is the lower bits."""
        return self.base - ((self.base - sequence) & SEQUENCE_MASK)

    def accept_all(self, messages: list[Message], count: i64) -> None:
        """One queue took the first `count` of `messages`; those without a number count nowhere."""
        index: i64 = 0
        while index < count:
            sequence: i64 = i64(messages[index].sequence)
            if sequence >= 0:
                place: i64 = (sequence - self.base) & SEQUENCE_MASK
                if place == self.ripe and self.waiting[place] == 1:
                    self.ripe = place + 1
                    self.is_dirty = True
                else:
                    self.accept(sequence)
            index += 1

    def refuse(self, sequence: i64) -> None:
        """A queue will never take it: nack, once."""
        index: i64 = (sequence - self.base) & SEQUENCE_MASK
        if self.ripe <= index < len(self.waiting):
            if self.waiting[index] > 0:
                self.waiting[index] = ANSWERED
                self.nacked.append(int(self.base + index))
                self.is_dirty = True
        elif self.early and self.early.pop(int(sequence), 0) > 0:
            self.nacked.append(int(self._full(sequence)))
            self.is_dirty = True

    def span(self) -> i64:
        """Numbers that are kept: from the first unanswered one to the last, answered ones between
        them too, and the early ones."""
        return len(self.waiting) - self.head + len(self.early)

    def unanswered(self, sequence: i64) -> i64:
        """Queues that still have to take the publish with these lower bits; 0 if it is answered."""
        index: i64 = (sequence - self.base) & SEQUENCE_MASK
        if index >= len(self.waiting):
            return i64(self.early.get(int(sequence), 0))
        if index < self.ripe or self.waiting[index] < 0:
            return 0
        return i64(self.waiting[index])

    def number(self, sequence: i64) -> i64:
        """The whole number of an unanswered publish, of which `sequence` is the lower bits."""
        index: i64 = (sequence - self.base) & SEQUENCE_MASK
        return self.base + index if index < len(self.waiting) else self._full(sequence)

    def set_aside(self) -> None:
        """Keep the list short while publishes wait for long; after everything was collected."""
        waiting = self.waiting
        count: i64 = len(waiting) - self.head
        if count < SPAN_MAX:
            return
        end: i64 = self.head + count // 2
        index: i64 = self.head
        while index < end:
            left: i64 = i64(waiting[index])
            if left > 0:
                self.early[int((self.base + index) & SEQUENCE_MASK)] = int(left)
            index += 1
        del waiting[:end]
        self.base += end
        self.head = 0
        self.ripe = 0

    def collect_each(self) -> list[int]:
        """Like `collect_multiple`, but each number by itself: those below are not all answered."""
        found: list[int] = []
        waiting = self.waiting
        index: i64 = self.head
        end: i64 = len(waiting)
        while index < end:
            left: i64 = i64(waiting[index])
            if index >= self.ripe and left > 0:
                break
            if index < self.ripe or left == 0:
                found.append(int(self.base + index))
            index += 1
        self._answered_below(index)
        return found

    def _answered_below(self, index: i64) -> None:
        """All before this place in the list are answered: it begins there, sooner or later."""
        waiting = self.waiting
        end: i64 = len(waiting)
        if index == end:
            waiting.clear()
            self.base += index
            index = 0
        elif index >= 512 and index * 2 >= end:
            del waiting[:index]
            self.base += index
            index = 0
        self.head = index
        self.ripe = index

    def collect_multiple(self) -> i64:
        """The highest number that can be answered together with all below it, 0 if there is none;
        if that would answer only one (`is_multiple` says), the number of that one."""
        waiting = self.waiting
        head: i64 = self.head
        index: i64 = self.ripe
        end: i64 = len(waiting)
        # All up to `ripe` are news, whatever stands there.
        news: i64 = index - head
        newest: i64 = index - 1
        while index < end:
            left: i64 = i64(waiting[index])
            if left > 0:
                break
            if left == 0:
                news += 1
                newest = index
            index += 1
        if index == head:
            return 0
        last: i64 = self.base + (newest if news == 1 else index - 1)
        self._answered_below(index)
        self.is_multiple = news > 1
        return last if news > 0 else 0

    def collect_singles(self) -> list[int]:
        """Numbers done out of order, to be answered one by one; after `collect_multiple`."""
        singles = self.singles
        self.singles = []
        answer: list[int] = []
        # None of them is ripe, because `collect_multiple` came before.
        for sequence in singles:
            index: i64 = i64(sequence) - self.base
            if index >= self.head and self.waiting[index] == 0:
                self.waiting[index] = ANSWERED
                answer.append(sequence)
        return answer

    def collect_late(self) -> list[int]:
        """Early numbers that are done, to be answered one by one; before `collect_multiple`."""
        late = self.late
        self.late = []
        return late

    def collect_nacks(self) -> list[int]:
        """Numbers to be answered with basic.nack; before `collect_multiple`."""
        nacked = self.nacked
        self.nacked = []
        return nacked


def write_confirms(writer: BytesWriter, number: i64, confirms: Confirms) -> None:
    """Everything `confirms` can answer now: nacks, one ack for all below, single acks above."""
    confirms.is_dirty = False
    if confirms.commits is not None:
        write_commits(writer, number, confirms, confirms.commits)
        return
    if confirms.nacked:
        for sequence in confirms.collect_nacks():
            write_answer(writer, number, 0x3C0078, sequence, False)
    if confirms.late:
        # Before the others, whose answer may stand for all below it.
        for sequence in confirms.collect_late():
            write_answer(writer, number, 0x3C0050, sequence, False)
    if confirms.early:
        for sequence in confirms.collect_each():
            write_answer(writer, number, 0x3C0050, sequence, False)
    else:
        last: i64 = confirms.collect_multiple()
        if last > 0:
            write_answer(writer, number, 0x3C0050, last, confirms.is_multiple)
    if confirms.singles:
        for sequence in confirms.collect_singles():
            write_answer(writer, number, 0x3C0050, sequence, False)
    if len(confirms.waiting) >= SPAN_MAX:
        confirms.set_aside()


def write_commits(writer: BytesWriter, number: i64, confirms: Confirms, commits: Commits) -> None:
    """tx.commit-ok for every commit that has everything; one that has not ends its channel."""
    for sequence in confirms.collect_nacks():
        commits.note_refused(sequence)
    confirms.collect_multiple()
    confirms.collect_singles()
    while commits.is_next_done(confirms.base + confirms.head):
        if not commits.take():
            commits.failed()
            return
        begin_method(writer, number, 4, 0x5A0015)
        writer.append(0xCE)


def write_answer(
    writer: BytesWriter, number: i64, identity: i64, sequence: i64, is_multiple: bool
) -> None:
    """basic.ack (0x3C0050) or basic.nack (0x3C0078) for a publish."""
    begin_method(writer, number, 13, identity)
    write_i64_be(writer, sequence)
    writer.append(1 if is_multiple else 0)
    writer.append(0xCE)


def begin_method(writer: BytesWriter, number: i64, size: i64, identity: i64) -> None:
    """The frame header and class and method ids of a method of `size` bytes."""
    writer.append(1)
    write_i16_be(writer, as_i16(number))
    write_i32_be(writer, int(size))
    write_i32_be(writer, int(identity))
