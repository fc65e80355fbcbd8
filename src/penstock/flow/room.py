"""The room of one receiver: what its mark leaves, and who may hand over into it.

    room = mark - content - in flight

While there is room, every hop has the window of its kind. The moment it is used up the room is
*tight*: all hops to the receiver are shut at once, by whoever used up the last of it, so content
and what is under way pass the mark by one message at most, however many senders there are. From
then on room is lent:

    asks      a sender found its hop shut: the hop stands in line
    is lent   as much as is free for each in line, at least one message; the hop opens for that
    uses it   the hop is shut again, and stands in line if more waits for it
    does not  and nothing waits for it: it is taken back as soon as others need it

So the sum of what is lent is never more than the room, and who is idle keeps nothing from others.
The line is in the order of tags, as in start-time fair queueing (Goyal, Vin and Cheng 1996): what
is handed over moves the hop's tag on by as many bytes, and who comes back begins no earlier than
the one served last. So everybody who presses gets the same bytes, whatever the size of messages and
the number of senders, and waits for one round of the others at most. A large message is lent its
room in parts, or the others would have to wait while room for all of it gathers.

The receiver's own gate is closed while most of the mark is content, because then it waits for
whoever takes that; with less its senders wait for the receiver itself, which has not taken what is
on its way. The room is not tight any more when nobody stands in line and a band below the mark is
free, or when there is next to nothing left: what is owed to those who pause must not keep an empty
queue waiting.
Source: flow-semantics 16 (W18); scenario 116; docs/flow.md, Rations.
"""

from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64

from penstock.flow.gate import Gate
from penstock.flow.hop import Hop, HopRoom

REASON: Final = "depth"
BAND_BYTES: Final = 1_048_576
BAND_PARTS: Final = 4
EMPTY_PARTS: Final = 8
"""A receiver that has this part of its mark and no more lets everybody go on; as much may be lent
to messages that are not whole yet, and no message needs more."""
DEEP_PARTS: Final = 4
"""All but one of these parts of a mark are content: the gate closes, and opens below a half."""
UNPLACED: Final = -1
"""The tag of a hop that has not stood in line since the room became tight."""
PHASE_BITS: Final = 16
PHASE_STEP: Final = 40_503
"""The golden section of 2**PHASE_BITS: its multiples are spread evenly, however many there are."""
PART_BYTES: Final = 65_536
"""A message that is larger is lent its room in parts of this size."""
NO_MARK: Final = 1 << 62


class Room(HopRoom):
    """is_deep: the gate is closed for it; mark_bytes: 0 for none; holder: who the receiver waits
    for then; hops: that lead here; line: (tag, number, hop) in order, with entries of hops that
    have left it; waiting: hops in line; borrowers: open hops that were lent something, oldest
    first; lent_bytes: of all, parts included; part_bytes: in parts, for messages that wait for the
    rest; served_tag: of who was served last; phase: of who was placed last."""

    __slots__ = (
        "borrowers",
        "gate",
        "holder",
        "hops",
        "is_deep",
        "lent_bytes",
        "line",
        "mark_bytes",
        "number",
        "part_bytes",
        "phase",
        "round",
        "served_tag",
        "waiting",
    )

    def __init__(self, gate: Gate, holder: str, extra_bytes: int) -> None:
        super().__init__(extra_bytes)
        self.limit_bytes = NO_MARK
        self.gate = gate
        gate.grants_under = REASON
        self.holder = holder
        self.is_deep = False
        self.mark_bytes: i64 = 0
        self.hops: dict[Hop, None] = {}
        self.line: list[tuple[int, int, Hop]] = []
        self.waiting: i64 = 0
        self.borrowers: dict[Hop, None] = {}
        self.lent_bytes: i64 = 0
        self.part_bytes: i64 = 0
        self.served_tag: i64 = 0
        self.number: i64 = 0
        self.round: i64 = 0
        self.phase: i64 = 0

    # -- hops ------------------------------------------------------------------------------------

    def join(self, hop: Hop) -> None:
        """`hop`, which has nothing in flight, leads here from now on."""
        hop.room = self
        self.hops[hop] = None
        if self.is_tight:
            self._begin(hop)
            hop.settle()

    def leave(self, hop: Hop) -> None:
        """`hop`, of which nothing is in flight any more, leads here no longer."""
        if hop.room is not self:
            return
        self._give_back(hop)
        self._step_out(hop)
        del self.hops[hop]
        hop.room = None
        if hop.is_shut:
            hop.is_shut = False
            hop.settle()

    def _begin(self, hop: Hop) -> None:
        """The room is tight, and `hop` was lent nothing so far."""
        hop.is_shut = True
        hop.is_lined = False
        hop.lent_bytes = 0
        hop.tag = UNPLACED

    # -- senders ---------------------------------------------------------------------------------

    def used(self, hop: Hop, bytes_: i64) -> None:
        hop.tag += bytes_
        lent: i64 = hop.lent_bytes
        if hop.is_shut:
            # Forced past a shut hop, which it pays for when it stands in line the next time.
            pass
        elif lent > hop.size_bytes:
            hop.lent_bytes = lent - hop.size_bytes
            self.lent_bytes -= hop.size_bytes
        else:
            self.lent_bytes -= lent
            hop.lent_bytes = 0
            del self.borrowers[hop]
            self._shut(hop)
            # Whoever had more to hand over stands in line already, when it is looked at.
            self._stand(hop, False)
        if self.in_flight_bytes > self.limit_bytes:
            self._call_in()

    def ask(self, hop: Hop, bytes_: i64) -> bool:
        """A sender has a message of `bytes_` for `hop`, which is shut. True if the receiver should
        look at its room, because something may be free or taken back."""
        if not hop.is_shut:
            return False
        hop.next_size = bytes_ + self.extra_bytes
        if hop.is_lined:
            hop.is_asked = True
            return False
        self._stand(hop, True)
        return len(self.borrowers) > 0 or self._free() > 0

    def _stand(self, hop: Hop, is_asked: bool) -> None:
        """`hop` stands in line; if it has not asked, only for as long as something waits for it."""
        earliest: i64 = self.served_tag
        if not is_asked:
            # It was busy with what it was lent, while others were served.
            earliest -= self.mark_bytes // EMPTY_PARTS
        if hop.tag == UNPLACED:
            self._place(hop)
        elif hop.tag < earliest:
            hop.tag = earliest
        hop.is_lined = True
        hop.is_asked = is_asked
        self.waiting += 1
        self._put(hop)

    def _place(self, hop: Hop) -> None:
        """`hop` stands in line for the first time since the room is tight, as many others do: each
        begins at another point of its message, or all large ones would be served in a row, and
        small ones would wait for all of them."""
        if hop.next_size == 0:
            hop.next_size = hop.next_bytes() + self.extra_bytes
        self.phase = (self.phase + PHASE_STEP) & ((1 << PHASE_BITS) - 1)
        hop.tag = self.served_tag + ((hop.next_size * self.phase) >> PHASE_BITS)

    def _put(self, hop: Hop) -> None:
        self.number += 1
        hop.line_number = self.number
        # What it has in parts counts, or it would be given all of them in a row.
        heappush(self.line, (int(hop.tag + hop.lent_bytes), int(self.number), hop))

    def _step_out(self, hop: Hop) -> None:
        """`hop` is not in line any more; what is left of it there is skipped."""
        if hop.is_lined:
            hop.is_lined = False
            self.waiting -= 1

    def _shut(self, hop: Hop) -> None:
        hop.is_shut = True
        hop.settle()

    def _give_back(self, hop: Hop) -> None:
        """What `hop` was lent, in part or as a whole, is free again."""
        lent: i64 = hop.lent_bytes
        if lent == 0:
            return
        hop.lent_bytes = 0
        self.lent_bytes -= lent
        if hop.is_shut:
            self.part_bytes -= lent
        else:
            del self.borrowers[hop]

    # -- the receiver ----------------------------------------------------------------------------

    def measure(self, content_bytes: i64, mark_bytes: i64) -> bool:
        """The receiver holds `content_bytes`, and may hold `mark_bytes`, 0 for no mark. True if it
        should look again after its senders had their turns."""
        self.mark_bytes = mark_bytes
        self.limit_bytes = mark_bytes - content_bytes if mark_bytes > 0 else NO_MARK
        if not self.is_tight:
            if self.in_flight_bytes < self.limit_bytes:
                return False
            self.tighten()
        used: i64 = content_bytes + self.in_flight_bytes
        if used * EMPTY_PARTS <= mark_bytes or mark_bytes == 0:
            self.loosen()
            return False
        if content_bytes * DEEP_PARTS >= mark_bytes * (DEEP_PARTS - 1):
            self._close()
        elif content_bytes * 2 < mark_bytes:
            self._open()
        if self.waiting == 0 and not self.gate.deferred:
            band: i64 = mark_bytes // BAND_PARTS
            if used <= mark_bytes - (band if band < BAND_BYTES else BAND_BYTES):
                self.loosen()
            return False
        return self._serve()

    def tighten(self) -> None:
        self.is_tight = True
        for hop in self.hops:
            self._begin(hop)
            hop.settle()
            if hop.next_bytes() > 0:
                # It will not find the hop closed once more.
                self._stand(hop, False)

    def loosen(self) -> None:
        """Everybody goes on."""
        if not self.is_tight:
            return
        self.is_tight = False
        self.line.clear()
        self.borrowers.clear()
        self.waiting = 0
        self.lent_bytes = 0
        self.part_bytes = 0
        self._open()
        for hop in self.hops:
            hop.lent_bytes = 0
            hop.is_lined = False
            if hop.is_shut:
                hop.is_shut = False
                hop.settle()

    def _close(self) -> None:
        if not self.is_deep:
            self.is_deep = True
            self.gate.close(self.holder, REASON)

    def _open(self) -> None:
        if self.is_deep:
            self.is_deep = False
            self.gate.open(self.holder, REASON)

    def _free(self) -> i64:
        """What is neither used nor lent; below 0 after a message that was larger than expected."""
        return self.limit_bytes - self.in_flight_bytes - self.lent_bytes

    def _need(self, hop: Hop) -> i64:
        """What `hop` has to be lent beside what it has, for one more message as it has for it."""
        need: i64 = hop.next_size
        most: i64 = self.mark_bytes // EMPTY_PARTS
        if need > most:
            need = most
        need -= hop.lent_bytes
        return need if need > 0 else 1

    def _part(self, need: i64) -> i64:
        """How much of `need` is lent at a time."""
        if need > PART_BYTES and self.part_bytes + PART_BYTES <= self.mark_bytes // EMPTY_PARTS:
            return PART_BYTES
        return need

    def may_serve(self) -> bool:
        """Whether somebody stands in line for whom there is room now."""
        hop = self._first()
        return hop is not None and self._part(self._need(hop)) <= self._free()

    def check(self) -> None:
        """Assert that the books agree with those of the hops. Raises: AssertionError."""
        in_flight: i64 = 0
        lent: i64 = 0
        parts: i64 = 0
        lined: i64 = 0
        for hop in self.hops:
            in_flight += hop.in_flight_bytes + hop.in_flight * self.extra_bytes
            lent += hop.lent_bytes
            if hop.is_shut:
                parts += hop.lent_bytes
            if hop.is_lined:
                lined += 1
            assert hop.lent_bytes >= 0, f"{hop.name}: lent {hop.lent_bytes} bytes"
            is_open = not hop.is_shut
            assert is_open == (not self.is_tight or hop in self.borrowers), (
                f"{hop.name}: open {is_open}, and was lent {hop.lent_bytes} bytes"
            )
            assert is_open or hop.is_closed, f"{hop.name}: shut, and open"
        assert self.in_flight_bytes == in_flight, (
            f"{self.gate.name}: {in_flight} bytes are under way, its room says "
            f"{self.in_flight_bytes}"
        )
        assert self.lent_bytes == lent and self.part_bytes == parts, (
            f"{self.gate.name}: {lent} bytes are lent, {parts} of them in parts, its room says "
            f"{self.lent_bytes} and {self.part_bytes}"
        )
        assert self.waiting == lined, (
            f"{self.gate.name}: {lined} stand in line, its room says {self.waiting}"
        )
        assert self.lent_bytes <= self.mark_bytes or not self.is_tight, (
            f"{self.gate.name}: {lent} bytes are lent of a mark of {self.mark_bytes}"
        )

    def _first(self) -> Hop | None:
        """Whose turn it is; None if nobody stands in line."""
        line = self.line
        while line:
            hop = line[0][2]
            if hop.is_lined and hop.line_number == line[0][1] and hop.room is self:
                waiting: i64 = hop.next_bytes()
                if waiting > 0:
                    hop.next_size = waiting + self.extra_bytes
                    return hop
                if hop.is_asked:
                    return hop
                self._give_back(hop)
                self._step_out(hop)
            heappop(line)
        return None

    def _serve(self) -> bool:
        """Lend what is free. True if there is more, or something may be taken back soon."""
        self.round += 1
        free: i64 = self._free()
        if self.gate.deferred and self.gate.is_granting:
            free -= self._release_part(free)
        hop = self._first()
        if hop is None:
            return False
        is_again = False
        if self._part(self._need(hop)) > free:
            is_again = self._take_back()
            free = self._free()
        each: i64 = free // self.waiting
        while hop is not None:
            need: i64 = self._need(hop)
            part: i64 = self._part(need)
            if part > free:
                # Of what those at the gate have not used it is lent the next time.
                return is_again or part <= self._free()
            tag: i64 = heappop(self.line)[0]
            is_again = False
            if tag > self.served_tag:
                self.served_tag = tag
            if part < need:
                self.part_bytes += part
                self._lend(hop, part)
                self._put(hop)
            else:
                if each > part:
                    part = each if each < free else free
                self.part_bytes -= hop.lent_bytes
                self._step_out(hop)
                self._lend(hop, part)
                hop.lent_round = self.round
                self.borrowers[hop] = None
                hop.is_shut = False
                hop.settle()
            free -= part
            hop = self._first()
        return False

    def _lend(self, hop: Hop, bytes_: i64) -> None:
        hop.lent_bytes += bytes_
        self.lent_bytes += bytes_

    def _take_back(self) -> bool:
        """Take back what was lent to those who have nothing to hand over. True if some of them may
        not have had a turn since."""
        is_young = False
        for hop in list(self.borrowers):
            if hop.next_bytes() > 0:
                continue
            if hop.lent_round + 1 >= self.round:
                is_young = True
                continue
            self._give_back(hop)
            self._shut(hop)
        return is_young

    def _call_in(self) -> None:
        """Nobody may hand over what he was lent; who has something stands in line again."""
        for borrower in list(self.borrowers):
            self._give_back(borrower)
            self._shut(borrower)
            self._stand(borrower, False)

    def take_back_all(self) -> None:
        """The mark is another one: everything that was lent of the old one is free, parts too."""
        self._call_in()
        if self.lent_bytes > 0:
            for hop in self.hops:
                self._give_back(hop)

    def _release_part(self, free: i64) -> i64:
        """Half of what is `free` goes to the first of those who wait for the gate itself; how much
        it was."""
        if free <= 0:
            return 0
        deferred = self.gate.deferred
        item = deferred.pop(0)
        kept: i64 = item.kept_bytes()
        part: i64 = (free + 1) // 2
        if kept > part:
            item.release_part(part)
            deferred.append(item)
            return part
        item.release()
        return kept
