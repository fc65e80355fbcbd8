"""The table of unanswered deliveries against a plain dictionary (F48), and its bound."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.protocol.content import Message
from penstock.queues.consumers import ConsumerQueue
from penstock.queues.unacked import SPARSE_PLACES, Stamp, UnackedTable

MESSAGE = Message(b"", 0)
QUEUE = ConsumerQueue()


class UnackedTwin(RuleBasedStateMachine):
    """The twin maps tags to positions, in the order of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.table = UnackedTable(Stamp(0))
        self.known: dict[int, int] = {}
        self.next_tag = 1

    @rule(count=st.integers(1, 3_000))
    def add(self, count: int) -> None:
        for _ in range(count):
            assert self.table.add(MESSAGE, QUEUE, None, self.next_tag * 7) == self.next_tag
            self.known[self.next_tag] = self.next_tag * 7
            self.next_tag += 1
        self.check_bound()

    @rule(count=st.integers(1, 3_000))
    def skip(self, count: int) -> None:
        for _ in range(count):
            assert self.table.skip() == self.next_tag
            self.next_tag += 1
        self.check_bound()

    @rule(count=st.integers(1, 3_000))
    def skip_run(self, count: int) -> None:
        self.table.skip_run(count)
        self.next_tag += count
        self.check_bound()

    @rule(data=st.data(), count=st.integers(1, 60))
    def take_run(self, data: st.DataObject, count: int) -> None:
        tag = data.draw(st.integers(-1, self.next_tag + 1) | st.sampled_from([0, *self.known]))
        taken = self.table.take_run(tag, count)
        tags = range(tag, tag + count)
        if taken:
            assert [one.tag for one in taken] == list(tags)
            assert [one.position for one in taken] == [self.known.pop(one) for one in tags]
        else:
            assert not all(one in self.known for one in tags) or tag < self.table.base

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        tag = data.draw(st.integers(-1, self.next_tag + 1))
        self.check_one(tag)

    @rule(keep=st.integers(1, 40))
    def take_all_but_every(self, keep: int) -> None:
        for index, tag in enumerate(list(self.known)):
            if index % keep:
                self.check_one(tag)

    @rule(data=st.data())
    def take_up_to(self, data: st.DataObject) -> None:
        tag = data.draw(st.integers(0, self.next_tag + 1))
        taken = self.table.take_up_to(tag)
        expected = [one for one in self.known if tag == 0 or one <= tag]
        assert [one.tag for one in taken] == expected
        assert [one.position for one in taken] == [self.known.pop(one) for one in expected]

    def check_one(self, tag: int) -> None:
        assert self.table.is_known(tag) == (tag in self.known)
        taken = self.table.take(tag)
        position = self.known.pop(tag, None)
        assert (None if taken is None else taken.position) == position
        assert not self.table.is_known(tag)

    @invariant()
    def counts_agree(self) -> None:
        assert self.table.count == len(self.known)
        assert self.table.next_tag == self.next_tag
        assert [one.tag for one in self.table.remembered()] == list(self.known)

    def check_bound(self) -> None:
        """It holds whenever the list grows; settling alone never makes it longer."""
        assert len(self.table.entries) <= 2 * SPARSE_PLACES + 16 * len(self.known)


TestUnackedTwin = UnackedTwin.TestCase
TestUnackedTwin.settings = settings(max_examples=30, stateful_step_count=20)


def test_one_delivery_held_for_ever_costs_no_more_with_time() -> None:
    table = UnackedTable(Stamp(0))
    first = table.add(MESSAGE, QUEUE, None, 0)
    for _ in range(50_000):
        table.take(table.add(MESSAGE, QUEUE, None, 0))
        table.skip()
    assert len(table.entries) <= 2 * SPARSE_PLACES + 1
    assert table.is_known(first) and table.count == 1
