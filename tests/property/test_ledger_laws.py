"""Properties 5 and 7 of section 18 over a whole tree of pages, whatever happens to it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.simulation.laws.ledger_checks import check_page, collect

STEP = st.one_of(
    st.tuples(st.just("charge"), st.integers(0, 5), st.integers(1, 4)),
    st.tuples(st.just("repay"), st.integers(0, 5), st.integers(0, 9)),
    st.tuples(st.just("store"), st.integers(0, 5), st.integers(1, 4)),
    st.tuples(st.just("unstore"), st.integers(0, 5), st.integers(0, 9)),
    st.tuples(st.just("limit"), st.integers(0, 8), st.integers(0, 12)),
    st.tuples(st.just("move"), st.integers(0, 5), st.integers(0, 1)),
    st.tuples(st.just("close"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("lenient"), st.integers(0, 5), st.just(0)),
)


class Tree:
    """node with two users, six connections; `owed`, `kept`: what each has to repay."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.node = Account("node", None, None, 0)
        self.users = [Account(f"user:{number}", self.node, None, 0) for number in range(2)]
        self.connections = [
            Account(f"conn:{n}", self.users[n % 2], Gate(f"conn:{n}", clock, GateObserver()), 0)
            for n in range(6)
        ]
        self.owed: list[list[int]] = [[] for _ in self.connections]
        self.kept: list[list[int]] = [[] for _ in self.connections]

    def do(self, what: str, number: int, amount: int) -> None:
        if what == "limit":
            page = [*self.connections, *self.users, self.node][number]
            page.set_limits(amount // 2, amount // 3, 10 * amount, 5 * amount)
            return
        page = self.connections[number]
        if what == "charge":
            page.charge(amount, 10 * amount)
            self.owed[number].append(amount)
        elif what == "repay" and self.owed[number]:
            count = self.owed[number].pop(amount % len(self.owed[number]))
            page.repay(count, 10 * count)
        elif what == "store":
            page.store(amount, amount)
            self.kept[number].append(amount)
        elif what == "unstore" and self.kept[number]:
            count = self.kept[number].pop(amount % len(self.kept[number]))
            page.unstore(count, count)
        elif what == "move" and not page.is_closed:
            page.move(self.users[amount])
        elif what == "close":
            page.close()
        elif what == "lenient":
            page.be_lenient()

    def check(self) -> None:
        pages: list[Account] = []
        collect(self.node, pages)
        for page in pages:
            check_page(page)
        owed = sum(sum(one) for one in self.owed)
        kept = sum(sum(one) for one in self.kept)
        assert self.node.total_messages() == owed and self.node.total_bytes() == 10 * owed
        assert self.node.total_stored_messages() == kept == self.node.total_stored_bytes()
        for number, page in enumerate(self.connections):
            has_left = bool(self.owed[number] or self.kept[number])
            assert page.is_listed == (has_left or not page.is_closed)


@given(st.lists(STEP, max_size=60))
def test_the_tree_adds_up_and_holds_whom_it_must(script: list[tuple[str, int, int]]) -> None:
    tree = Tree()
    for what, number, amount in script:
        tree.do(what, number, amount)
        tree.check()
    for number, page in enumerate(tree.connections):
        for count in tree.owed[number]:
            page.repay(count, 10 * count)
        tree.owed[number].clear()
    tree.check()
    for page in tree.connections:
        assert page.gate is None or page.gate.is_open, "who owes nothing waits for nothing (A3)"
