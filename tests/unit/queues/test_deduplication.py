"""A queue without duplicates against a naive one: the same messages are taken and dropped."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.content import Message, make_content
from penstock.protocol.values import Table, encode_table
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import DropSink, Purged
from penstock.queues.rules import REASON_DUPLICATE, QueueRules

MS = 1_000_000
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("add", "take", "ack", "return", "shed", "purge", "wait", "tidy")),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=60,
)


class Sink(DropSink):
    def __init__(self) -> None:
        self.duplicates: list[bytes] = []

    def dropped(self, message: Message, reason: int) -> None:
        if reason == REASON_DUPLICATE:
            self.duplicates.append(message.body())


def message(number: int, twin: int, has_lifetime: bool) -> Message:
    table: Table = {} if twin == 0 else {"x-deduplication-header": twin}
    if has_lifetime:
        table["x-cache-ttl"] = 10
    body = b"%d" % number
    flags = b"\x20\x00" + encode_table(table)
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + flags
    return make_content(1, b"", header, body, 4096)


class Naive:
    """known: (twin, number of the message, end of its mark)."""

    def __init__(self) -> None:
        self.ready: list[tuple[int, int]] = []
        self.out: list[tuple[int, int]] = []
        self.until: dict[int, tuple[int, int]] = {}
        self.duplicates: list[bytes] = []

    def add(self, number: int, twin: int, now_ns: int, has_lifetime: bool) -> None:
        mark = self.until.get(twin)
        is_here = mark is not None and any(one[0] == mark[0] for one in self.ready + self.out)
        if twin and mark is not None and is_here and (mark[1] < 0 or now_ns < mark[1]):
            self.duplicates.append(b"%d" % number)
            return
        self.ready.append((number, twin))
        self.until[twin] = (number, now_ns + 10 * MS if has_lifetime else -1)


@given(STEPS)
def test_as_the_naive_one(steps: list[tuple[str, int, bool]]) -> None:
    sink = Sink()
    rules = QueueRules()
    rules.is_deduplicated = True
    queue = PriorityQueue(rules, sink)
    naive = Naive()
    out: list[tuple[int, Message]] = []
    purges: list[Purged] = []
    for number, (step, twin, flag) in enumerate(steps):
        if step == "add":
            queue.add(message(number, twin, flag))
            naive.add(number, twin, int(queue.now_ns), flag)
        elif step == "take" and naive.ready:
            taken = queue.take()
            out.append((int(queue.position), taken))
            naive.out.append(naive.ready.pop(0))
        elif step == "ack" and out:
            queue.settled(out.pop()[0])
            naive.out.pop()
        elif step == "return" and out:
            position, back = out.pop(0)
            queue.put_back(position, back)
            naive.ready.append(naive.out.pop(0))
            naive.ready.sort()
        elif step == "shed" and naive.ready:
            queue.shed()
            naive.ready.pop(0)
        elif step == "purge":
            purges.append(queue.purge())
            naive.ready.clear()
        elif step == "tidy" and purges:
            # In any order, as errands are done by turns.
            one = purges.pop(0)
            if one.forget_rows(1 + twin):
                purges.append(one)
        elif step == "wait":
            queue.now_ns += 6 * MS
        assert [int(one.body()) for one in queue.ready_messages()] == [n for n, _ in naive.ready]
        assert sink.duplicates == naive.duplicates
    for one in purges:
        while one.forget_rows(3):
            pass
    assert queue.keys is not None and not queue.keys.before
    assert len(queue.keys.keys) == sum(1 for _, one in naive.ready + naive.out if one)
    assert len(queue.keys.known) <= len(queue.keys.keys)


def test_a_purge_looks_at_few_keys_at_once() -> None:
    rules = QueueRules()
    rules.is_deduplicated = True
    queue = PriorityQueue(rules, Sink())
    for number in range(2_000):
        queue.add(message(number, number + 1, False))
        queue.take()
    queue.restored_out(-7, message(9_000, 9_000, False), 0)
    keys = queue.keys
    assert keys is not None
    purged = queue.purge()
    assert not keys.keys, "none was looked at yet"
    assert queue.is_duplicate(message(1, 5, False)) and queue.is_duplicate(message(1, 9_000, False))
    assert purged.forget_rows(512) and len(keys.keys) == 512
    while purged.forget_rows(512):
        pass
    assert len(keys.keys) == len(keys.known) == 2_001
    assert queue.is_duplicate(message(1, 5, False)) and queue.is_duplicate(message(1, 9_000, False))
