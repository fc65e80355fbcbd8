"""Confirms against a naive twin: every publish is answered once, in any order queues take them."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.broker.actors.confirms import Confirms


class ConfirmsTwin(RuleBasedStateMachine):
    """The twin counts, for every number, the queues that still have to take it."""

    def __init__(self) -> None:
        super().__init__()
        self.confirms = Confirms()
        self.left: dict[int, int] = {}
        self.refused: set[int] = set()
        self.answers: dict[int, str] = {}

    @rule(queues=st.lists(st.integers(0, 3), min_size=1, max_size=600))
    def publish(self, queues: list[int]) -> None:
        for count in queues:
            sequence = int(self.confirms.begin())
            self.confirms.expect(sequence, count)
            self.left[sequence] = count

    @rule(data=st.data())
    def accept(self, data: st.DataObject) -> None:
        open_ = [one for one, count in self.left.items() if count > 0]
        for sequence in data.draw(st.lists(st.sampled_from(open_), max_size=50)) if open_ else []:
            if self.left[sequence] > 0:
                self.left[sequence] -= 1
                self.confirms.accept(sequence)

    @rule()
    def accept_everything(self) -> None:
        for sequence, count in self.left.items():
            for _ in range(count):
                self.confirms.accept(sequence)
            self.left[sequence] = 0

    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        open_ = [one for one, count in self.left.items() if count > 0]
        if open_:
            sequence = data.draw(st.sampled_from(open_))
            self.left[sequence] -= 1
            self.refused.add(sequence)
            self.confirms.refuse(sequence)

    @rule()
    def collect(self) -> None:
        """As a channel does it, and as a client understands it."""
        for sequence in self.confirms.collect_nacks():
            assert sequence not in self.answers
            self.answers[sequence] = "nack"
        last = int(self.confirms.collect_multiple())
        if last > 0:
            covered = range(1, last + 1) if self.confirms.is_multiple else (last,)
            new = [sequence for sequence in covered if sequence not in self.answers]
            assert (len(new) > 1) == self.confirms.is_multiple and new
            self.answers |= dict.fromkeys(new, "ack")
        for sequence in self.confirms.collect_singles():
            assert sequence not in self.answers
            self.answers[sequence] = "ack"
        for sequence, count in self.left.items():
            if sequence in self.refused:
                assert self.answers[sequence] == "nack"
            elif count == 0:
                assert self.answers[sequence] == "ack", sequence
            else:
                assert sequence not in self.answers

    @invariant()
    def the_list_is_bounded(self) -> None:
        confirms = self.confirms
        assert len(confirms.waiting) <= 2 * confirms.span() + 1024


TestConfirmsTwin = ConfirmsTwin.TestCase
TestConfirmsTwin.settings = settings(max_examples=50, stateful_step_count=30)
