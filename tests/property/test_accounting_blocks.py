"""BlockLedger: attributed time is conserved, whatever closes, opens, repeats, folds and is read."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.accounting import BLOCK_ENTRIES_MAX, BlockLedger
from penstock.telemetry.snapshots import OTHERS, ActorSnapshot, BlockTotals, Times
from penstock.telemetry.window import WindowHistory

Pair = tuple[str, str]

CLOSE, OPEN, READ = "close", "open", "read"
FEW = st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["credit", "memory"]))
MANY = st.tuples(st.integers(0, 2 * BLOCK_ENTRIES_MAX).map(str), st.just("credit"))
STEPS_NS = st.one_of(st.integers(0, 5), st.integers(0, 10**12))


def moves_of(pairs: st.SearchStrategy[Pair]) -> st.SearchStrategy[list[tuple[str, Pair, int]]]:
    move = st.tuples(st.sampled_from([CLOSE, OPEN, READ]), pairs, STEPS_NS)
    return st.lists(move, max_size=60)


class NaiveLedger:
    """The twin: remembers everything, splits with fractions, forgets nothing."""

    def __init__(self) -> None:
        self.closed: dict[Pair, int] = {}
        self.attributed: dict[Pair, Fraction] = {}
        self.held_ns: dict[Pair, int] = {}
        self.stops: dict[Pair, int] = {}
        self.longest_ns: dict[Pair, int] = {}
        self.union_ns = 0
        self.union_stops = 0

    def pass_time(self, ns: int) -> None:
        if self.closed:
            self.union_ns += ns
        for pair in self.closed:
            self.attributed[pair] += Fraction(ns, len(self.closed))
            self.held_ns[pair] += ns

    def close(self, pair: Pair, now_ns: int) -> None:
        if pair in self.closed:
            return
        self.union_stops += not self.closed
        self.closed[pair] = now_ns
        self.attributed.setdefault(pair, Fraction(0))
        self.held_ns.setdefault(pair, 0)
        self.stops[pair] = self.stops.get(pair, 0) + 1

    def open(self, pair: Pair, now_ns: int) -> int:
        since_ns = self.closed.pop(pair, None)
        if since_ns is None:
            return 0
        held_ns = now_ns - since_ns
        self.longest_ns[pair] = max(self.longest_ns.get(pair, 0), held_ns)
        return held_ns

    def longest_at(self, pair: Pair, now_ns: int) -> int:
        running_ns = now_ns - self.closed[pair] if pair in self.closed else 0
        return max(self.longest_ns.get(pair, 0), running_ns)


def by_pair(blocks: tuple[BlockTotals, ...]) -> dict[Pair, BlockTotals]:
    answer = {(block.peer, block.reason): block for block in blocks}
    assert len(answer) == len(blocks), "a pair has one entry"
    return answer


def play(
    ledger: BlockLedger, twin: NaiveLedger, moves: list[tuple[str, Pair, int]], start_ns: int
) -> int:
    """Make the moves on both, comparing what can be compared after each; the time at the end."""
    now_ns = start_ns
    for verb, pair, step_ns in moves:
        now_ns += step_ns
        twin.pass_time(step_ns)
        if verb == CLOSE:
            ledger.close(*pair, now_ns)
            twin.close(pair, now_ns)
        elif verb == OPEN:
            assert ledger.open(*pair, now_ns) == twin.open(pair, now_ns)
        else:
            books = ledger.snapshot(now_ns)
            assert sum(block.ns for block in books.blocks) == books.blocked_ns == twin.union_ns
        assert ledger.is_blocked() == bool(twin.closed)
        assert ledger.blocked_ns(now_ns) == twin.union_ns
    return now_ns


@given(st.integers(0, 2**60), moves_of(FEW))
def test_it_agrees_with_a_ledger_of_fractions(
    start_ns: int, moves: list[tuple[str, Pair, int]]
) -> None:
    ledger, twin = BlockLedger(start_ns), NaiveLedger()
    now_ns = play(ledger, twin, moves, start_ns)
    books = ledger.snapshot(now_ns)
    blocks = by_pair(books.blocks)
    assert set(blocks) == set(twin.stops)
    assert books.stops == twin.union_stops
    assert (books.since_ns is not None) == bool(twin.closed)
    for pair, block in blocks.items():
        assert block.closed_ns == twin.held_ns[pair]
        assert block.stops == twin.stops[pair]
        assert block.longest_ns == twin.longest_at(pair, now_ns)
        assert block.since_ns == twin.closed.get(pair)
        # Only nanoseconds that did not divide may be on another page, fewer than the pairs there
        # are, once for each move.
        assert abs(block.ns - twin.attributed[pair]) <= 6 * (len(moves) + 1)


@given(moves_of(MANY))
def test_folding_keeps_the_sums_and_the_bound(moves: list[tuple[str, Pair, int]]) -> None:
    ledger, twin = BlockLedger(0), NaiveLedger()
    # More pairs than the ledger keeps apart have been there before the moves begin.
    for number in range(BLOCK_ENTRIES_MAX + 20):
        pair = (str(number), "credit")
        twin.close(pair, number)
        ledger.close(*pair, number)
        twin.pass_time(1)
        assert ledger.open(*pair, number + 1) == twin.open(pair, number + 1)
    now_ns = play(ledger, twin, moves, BLOCK_ENTRIES_MAX + 20)
    books = ledger.snapshot(now_ns)
    blocks = by_pair(books.blocks)
    assert len(blocks) <= max(BLOCK_ENTRIES_MAX, len(twin.closed)) + 1
    assert (OTHERS, OTHERS) in blocks
    assert sum(block.ns for block in books.blocks) == twin.union_ns
    assert sum(block.closed_ns for block in books.blocks) == sum(twin.held_ns.values())
    assert sum(block.stops for block in books.blocks) == sum(twin.stops.values())
    held_now = {pair for pair, block in blocks.items() if block.since_ns is not None}
    assert held_now == set(twin.closed), "whoever holds the actor now is never folded away"


@given(
    st.lists(
        st.tuples(moves_of(st.one_of(FEW, MANY)), st.integers(1, 10**9)), min_size=2, max_size=5
    ),
    st.integers(0, 10**9),
)
def test_in_every_window_the_blocks_sum_to_the_blocked_time(
    periods: list[tuple[list[tuple[str, Pair, int]], int]], window_ns: int
) -> None:
    ledger, twin, history = BlockLedger(0), NaiveLedger(), WindowHistory(4)
    now_ns = 0
    marks: list[tuple[int, int, int]] = [(0, 0, 0)]
    for moves, pause_ns in periods:
        now_ns = play(ledger, twin, moves, now_ns) + pause_ns
        twin.pass_time(pause_ns)
        books = ledger.snapshot(now_ns)
        snapshot = ActorSnapshot("conn:a", "conn", times=Times(now_ns), blocked=books)
        ledger.begin_period()
        history.push(now_ns, {"conn:a": snapshot})
        marks.append((now_ns, twin.union_ns, sum(twin.stops.values())))
    kept = marks[-4:] if len(marks) > 4 else marks[1:]
    old_enough = [mark for mark in kept if mark[0] <= now_ns - window_ns]
    start = old_enough[-1] if old_enough else kept[0]
    window = history.over(window_ns / 10**9)["conn:a"]
    assert window.blocked_ns == twin.union_ns - start[1]
    assert sum(block.ns for block in window.blocks) == window.blocked_ns
    assert sum(block.stops for block in window.blocks) == sum(twin.stops.values()) - start[2]
    assert all(block.ns >= 0 and block.stops >= 0 for block in window.blocks)
    assert window.window_ns == now_ns - start[0]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 90), st.integers(0, 9)), max_size=100),
        min_size=2,
        max_size=4,
    )
)
def test_what_was_folded_meanwhile_is_not_counted_twice(
    periods: list[list[tuple[int, int]]],
) -> None:
    """90 pairs take turns in a ledger that keeps 64 apart, so pairs go to OTHERS and come back."""
    ledger, history = BlockLedger(0), WindowHistory(2)
    held_ns: list[dict[str, int]] = []
    now_ns = 0
    first = [(number, 3) for number in range(90)]
    for holds in [first, *periods]:
        held_ns.append({})
        for number, hold_ns in holds:
            peer = str(number)
            ledger.close(peer, "credit", now_ns)
            now_ns += hold_ns
            ledger.open(peer, "credit", now_ns)
            now_ns += 1
            held_ns[-1][peer] = held_ns[-1].get(peer, 0) + hold_ns
        blocked = ledger.snapshot(now_ns)
        ledger.begin_period()
        now_ns += 1
        history.push(now_ns, {"conn:a": ActorSnapshot("conn:a", "conn", blocked=blocked)})
    window = history.over(1.0)["conn:a"]
    last = held_ns[-1]
    assert window.stops == len(periods[-1])
    assert window.blocked_ns == sum(last.values())
    assert sum(block.ns for block in window.blocks) == window.blocked_ns
    assert sum(block.stops for block in window.blocks) == window.stops
    for block in window.blocks:
        if block.peer != OTHERS:
            assert 0 <= block.ns <= last[block.peer], "no pair is charged for an earlier window"
        else:
            assert 0 <= block.ns <= window.blocked_ns
