"""Who held an actor, and for how long. This module is compiled.

BlockLedger keeps the intervals in which gates were closed. Several may be closed at once, so it
keeps the union, and attributes it in equal parts:
    sum over pairs of attributed ns = union ns
holds exactly at every snapshot. The equal split costs the same however many gates are closed:
a virtual clock advances by elapsed / (gates closed), and each pair is charged the virtual time
between its closing and its opening. Nanoseconds that do not divide are carried, never lost: the
next interval takes them over, or the pair that has held longest when the books are read.

ParkedLedger keeps the time in which publishes of an actor waited, held itself or not:
    blocked ns + parked ns - both ns = ns in which the actor was held, or publishes of it were.
"""

from typing import Final

from penstock.base.limits import BLOCK_ENTRIES
from penstock.telemetry.snapshots import NEVER_BLOCKED, OTHERS, BlockedTotals, BlockTotals

BLOCK_ENTRIES_MAX: Final = BLOCK_ENTRIES.default
"""Pairs a ledger keeps apart, unless more hold the actor at this very moment."""


class BlockEntry:
    """The page of one (peer, reason); owned by its ledger."""

    __slots__ = (
        "attributed_ns",
        "closed_ns",
        "first_ns",
        "is_closed",
        "longest_ns",
        "peer",
        "reason",
        "since_ns",
        "since_share_ns",
        "stops",
    )

    def __init__(self, peer: str, reason: str, now_ns: int) -> None:
        self.peer = peer
        self.reason = reason
        self.attributed_ns = 0
        self.closed_ns = 0
        self.stops = 0
        self.longest_ns = 0
        self.since_ns = 0
        self.since_share_ns = 0
        self.first_ns = now_ns
        self.is_closed = False

    def totals(self, now_ns: int, share_ns: int) -> BlockTotals:
        """The page as it stands at `now_ns`, when the virtual clock shows `share_ns`."""
        running_ns = now_ns - self.since_ns if self.is_closed else 0
        shared_ns = share_ns - self.since_share_ns if self.is_closed else 0
        return BlockTotals(
            self.peer,
            self.reason,
            self.attributed_ns + shared_ns,
            self.closed_ns + running_ns,
            self.stops,
            max(self.longest_ns, running_ns),
            self.since_ns if self.is_closed else None,
            self.first_ns,
        )


NO_PAIRS: Final[dict[tuple[str, str], BlockEntry]] = {}
"""What all ledgers of actors that were never held share."""


class BlockLedger:
    """Who held one actor, why, how often and for how long.

    parked: the same of its parked publishes; None until it has some. freed_ns: when it was last
    held no longer, 0 if it never was held.
    Bound: BLOCK_ENTRIES_MAX pairs besides those that hold the actor right now (its gate holds
    each of these anyway); beyond it the pair that opened longest ago is folded into OTHERS.
    """

    __slots__ = (
        "_at_ns",
        "_blocked_ns",
        "_carry_ns",
        "_closed",
        "_longest_ns",
        "_opened",
        "_others",
        "_share_ns",
        "_since_ns",
        "_start_ns",
        "_stops",
        "freed_ns",
        "parked",
    )

    def __init__(self, now_ns: int) -> None:
        self.freed_ns = 0
        self.parked: ParkedLedger | None = None
        self._closed: dict[tuple[str, str], BlockEntry] = NO_PAIRS
        # Oldest opening first, because an entry is put back at the end each time it opens.
        self._opened: dict[tuple[str, str], BlockEntry] = NO_PAIRS
        # What was folded away; None while nothing was.
        self._others: BlockEntry | None = None
        self._start_ns = now_ns
        self._at_ns = now_ns
        self._share_ns = 0
        self._carry_ns = 0
        self._blocked_ns = 0
        self._stops = 0
        self._longest_ns = 0
        self._since_ns = now_ns

    def is_blocked(self) -> bool:
        """Whether anybody holds the actor now."""
        return len(self._closed) > 0

    def close(self, peer: str, reason: str, now_ns: int) -> None:
        """From `now_ns` on `peer` holds the actor for `reason`. Nothing if it does already.

        Raises: AssertionError when time went back.
        """
        key = (peer, reason)
        if key in self._closed:
            return
        self._advance(now_ns)
        if self._closed is NO_PAIRS:
            self._closed = {}
            self._opened = {}
        entry = self._opened.pop(key, None)
        if entry is None:
            entry = BlockEntry(peer, reason, now_ns)
            self._fold_down_to(BLOCK_ENTRIES_MAX - 1)
        entry.is_closed = True
        entry.since_ns = now_ns
        entry.since_share_ns = self._share_ns
        entry.stops += 1
        if not self._closed:
            self._since_ns = now_ns
            self._stops += 1
            if self.parked is not None:
                self.parked.held(now_ns)
        self._closed[key] = entry

    def open(self, peer: str, reason: str, now_ns: int) -> int:
        """From `now_ns` on `peer` no longer holds the actor for `reason`. Nothing if it did not.

        Returns: nanoseconds this reason was closed, 0 if it was not.
        Raises: AssertionError when time went back.
        """
        key = (peer, reason)
        entry = self._closed.get(key)
        if entry is None:
            return 0
        self._advance(now_ns)
        del self._closed[key]
        held_ns = now_ns - entry.since_ns
        entry.is_closed = False
        entry.closed_ns += held_ns
        entry.longest_ns = max(entry.longest_ns, held_ns)
        entry.attributed_ns += self._share_ns - entry.since_share_ns
        if not self._closed:
            # Nothing is carried here, because the last interval had a single holder.
            assert self._carry_ns == 0, "an unheld actor has no time to share out"
            self._longest_ns = max(self._longest_ns, now_ns - self._since_ns)
            self.freed_ns = now_ns
            if self.parked is not None:
                self.parked.freed(now_ns)
        self._opened[key] = entry
        self._fold_down_to(BLOCK_ENTRIES_MAX)
        return held_ns

    def held_since_ns(self) -> int:
        """Since when somebody holds the actor, while it is so."""
        return self._since_ns

    def date_back(self, ns: int) -> None:
        """The one hold that has just begun began `ns` nanoseconds earlier.

        Raises: AssertionError unless a single reason is closed.
        """
        assert len(self._closed) == 1 and ns >= 0, "no hold that began just now"
        self._blocked_ns += ns
        self._since_ns -= ns
        for entry in self._closed.values():
            entry.since_ns -= ns
            entry.since_share_ns -= ns

    def blocked_ns(self, now_ns: int) -> int:
        """Nanoseconds, up to `now_ns`, in which at least one reason was closed."""
        self._advance(now_ns)
        return self._blocked_ns

    def snapshot(self, now_ns: int) -> BlockedTotals:
        """The books at `now_ns`; pairs that hold the actor come first, then by last opening."""
        self._advance(now_ns)
        if self._stops == 0:
            return NEVER_BLOCKED
        self._pay_carry()
        blocks: list[BlockTotals] = []
        for entry in self._closed.values():
            blocks.append(entry.totals(now_ns, self._share_ns))
        for entry in self._opened.values():
            blocks.append(entry.totals(now_ns, self._share_ns))
        if self._others is not None:
            blocks.append(self._others.totals(now_ns, self._share_ns))
        longest_ns = self._longest_ns
        since_ns: int | None = None
        if self._closed:
            since_ns = self._since_ns
            longest_ns = max(longest_ns, now_ns - self._since_ns)
        return BlockedTotals(self._blocked_ns, self._stops, longest_ns, since_ns, tuple(blocks))

    def begin_period(self) -> None:
        """Forget the longest holds that have ended; call it after each periodic snapshot.

        A hold that still runs counts in full in the new period too. Without it `longest_ns` is
        the longest ever.
        """
        self._longest_ns = 0
        if self._others is not None:
            self._others.longest_ns = 0
        for entry in self._closed.values():
            entry.longest_ns = 0
        for entry in self._opened.values():
            entry.longest_ns = 0

    def _advance(self, now_ns: int) -> None:
        """Bring the union and the virtual clock up to `now_ns`."""
        elapsed_ns = now_ns - self._at_ns
        assert elapsed_ns >= 0, "time never goes back"
        self._at_ns = now_ns
        held_by = len(self._closed)
        if held_by == 0:
            return
        self._blocked_ns += elapsed_ns
        due_ns = elapsed_ns + self._carry_ns
        if held_by == 1:
            self._share_ns += due_ns
            self._carry_ns = 0
        else:
            self._share_ns += due_ns // held_by
            self._carry_ns = due_ns % held_by

    def _pay_carry(self) -> None:
        """Give the nanoseconds that did not divide to the pair that has held longest."""
        if self._carry_ns > 0:
            for entry in self._closed.values():
                entry.attributed_ns += self._carry_ns
                break
            self._carry_ns = 0

    def _fold_down_to(self, entries_max: int) -> None:
        """Fold the entries that opened longest ago until at most `entries_max` are kept."""
        while self._opened and len(self._opened) + len(self._closed) > entries_max:
            entry = self._opened.pop(next(iter(self._opened)))
            others = self._others
            if others is None:
                others = self._others = BlockEntry(OTHERS, OTHERS, self._start_ns)
            others.attributed_ns += entry.attributed_ns
            others.closed_ns += entry.closed_ns
            others.stops += entry.stops
            others.longest_ns = max(others.longest_ns, entry.longest_ns)


class ParkedLedger:
    """Who kept publishes of one actor waiting, and for how much of that time the actor itself was
    held as well: `both_ns`. Several waits may have the same holder. Bound: that of BlockLedger.
    """

    __slots__ = ("_at_ns", "_books", "_both_ns", "_free_ns", "_ledger", "_since_ns", "_waits")

    def __init__(self, books: BlockLedger, now_ns: int) -> None:
        """books: who held the actor itself."""
        self._books = books
        self._ledger = BlockLedger(now_ns)
        self._waits: dict[tuple[str, str], int] = {}
        self._at_ns = now_ns
        self._free_ns = 0
        self._both_ns = 0
        # When both began, while they last.
        self._since_ns = -1

    def begin(self, peer: str, reason: str, since_ns: int, now_ns: int) -> None:
        """`peer` keeps some publishes waiting for `reason`, the first of them since `since_ns`. A
        moment before the last one counts as that: turns know when they began, not what time it
        is."""
        key = (peer, reason)
        count = self._waits.get(key, 0)
        is_first = not self._waits
        self._waits[key] = count + 1
        now_ns = self._moment(now_ns)
        if count > 0:
            return
        self._ledger.close(peer, reason, now_ns)
        if is_first:
            books = self._books
            # Before it was last freed it may have been held as well, so that does not count.
            begun_ns = max(since_ns, self._free_ns, books.freed_ns)
            if books.is_blocked():
                self._since_ns = min(now_ns, max(begun_ns, books.held_since_ns()))
            self._ledger.date_back(max(0, now_ns - begun_ns))

    def end(self, peer: str, reason: str, now_ns: int) -> None:
        """`peer` keeps those waiting no longer."""
        key = (peer, reason)
        now_ns = self._moment(now_ns)
        count = self._waits.get(key, 0) - 1
        if count > 0:
            self._waits[key] = count
            return
        self._waits.pop(key, None)
        self._ledger.open(peer, reason, now_ns)
        if not self._waits:
            self._free_ns = now_ns
            self.freed(now_ns)

    def held(self, now_ns: int) -> None:
        """The actor itself is held from now on."""
        if self._waits:
            self._since_ns = self._moment(now_ns)

    def freed(self, now_ns: int) -> None:
        """The actor itself is held no longer, or has nothing parked any more."""
        if self._since_ns >= 0:
            self._both_ns += max(0, self._moment(now_ns) - self._since_ns)
            self._since_ns = -1

    def both_ns(self, now_ns: int) -> int:
        """Nanoseconds, up to `now_ns`, in which the actor was held and publishes of it waited."""
        if self._since_ns < 0:
            return self._both_ns
        return self._both_ns + max(0, self._moment(now_ns) - self._since_ns)

    def snapshot(self, now_ns: int) -> BlockedTotals:
        """The books at `now_ns`; the longest hold of the next period begins here."""
        totals = self._ledger.snapshot(self._moment(now_ns))
        self._ledger.begin_period()
        return totals

    def _moment(self, now_ns: int) -> int:
        self._at_ns = max(self._at_ns, now_ns)
        return self._at_ns
