"""Whatever dies and whenever, a query that leases loses no message and gets none twice.

The driver is a model of Spark's: it writes a range down before it reads it, reads it, puts its rows
into a sink that takes a range once, writes the range down as done, and only then names its end as
the next start. The broker is the real one; it dies between any two jobs of its disk. The oracle is
what was confirmed.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.protocol import methods as m
from tests.unit.broker.peer import publish
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed, answer, ask, read, spark

AT_ONCE = 4
STEPS = ("write", "read", "sink", "done")


class Driver:
    """A query and what outlives it: ranges written down, rows in the sink, the last end done."""

    def __init__(self) -> None:
        self.written: tuple[int, int] | None = None
        self.done = 0
        self.sink: dict[tuple[int, int], list[bytes]] = {}
        self.stops_before = ""

    def step(self, life: "Life") -> bool:
        """One batch, as far as it gets; False when there was nothing, or it was stopped."""
        if self.written is None:
            end = life.acquire(self.done)
            if end is None or end == self.done or self._stops("write"):
                return False
            self.written = (self.done, min(end, self.done + AT_ONCE))
        if self._stops("read"):
            return False
        first, stop = self.written
        rows = read(life.peer, first, stop)
        assert rows is not None, f"{first}..{stop} was leased and is not there"
        assert len(rows) == stop - first
        if self._stops("sink"):
            return False
        # A sink that has the range already ignores it, as files and Delta do.
        assert self.sink.setdefault((first, stop), rows) == rows, "the same range, other messages"
        if self._stops("done"):
            return False
        self.done, self.written = stop, None
        return True

    def _stops(self, step: str) -> bool:
        stops = self.stops_before == step
        if stops:
            self.stops_before = ""
        return stops

    def rows(self) -> list[bytes]:
        return [row for span in sorted(self.sink) for row in self.sink[span]]


class Life:
    """The broker, over all its lives. confirmed: bodies; jobs: after how many it dies, or -1."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sent = 0
        self.confirmed: list[bytes] = []
        self.jobs = -1
        self._open()

    def _open(self) -> None:
        self.bed = LeaseBed(self.path)
        self.peer = spark(self.bed)
        self.publisher = self.bed.connect("publisher", channels=2)
        self.publisher.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        self.base = self.sent

    def die(self) -> None:
        self.bed.die()
        self.jobs = -1
        self._open()

    def work(self) -> bool:
        """Until nothing is to be done; False if the broker died on the way."""
        if self.jobs < 0:
            self.bed.work()
            return True
        self.bed.work(self.jobs)
        self._note_confirms()
        self.die()
        return False

    def publish(self, count: int) -> None:
        bodies = [b"%d" % (self.sent + number) for number in range(count)]
        self.sent += count
        self.publisher.send(*(publish(1, "", "q", body, PERSISTENT) for body in bodies))
        if self.work():
            self._note_confirms()

    def _note_confirms(self) -> None:
        for sequence in sorted(self.publisher.confirmed()):
            self.confirmed.append(b"%d" % (self.base + sequence - 1))

    def acquire(self, start: int) -> int | None:
        """The end of what is held, None if the broker died before it answered."""
        ask(self.peer, start, AT_ONCE)
        peer = self.peer
        if not self.work():
            return None
        found = answer(peer)
        assert found is not None, "no answer"
        end = found["end"]
        assert isinstance(end, int)
        return end

    def borrow(self) -> None:
        """Another consumer takes a message and gives it back."""
        self.publisher.say(2, m.BasicGet("q"))
        self.bed.work()
        for one in self.publisher.heard():
            if isinstance(one.method, m.BasicGetOk):
                self.publisher.say(2, m.BasicNack(one.method.delivery_tag, False, True))


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 7)),
        st.tuples(st.just("batch"), st.integers(1, 3)),
        st.tuples(st.just("broker"), st.integers(0, 4)),
        st.tuples(st.just("borrow"), st.just(0)),
        st.tuples(st.sampled_from(STEPS), st.just(0)),
    ),
    min_size=2,
    max_size=12,
)


def play(path: Path, actions: list[tuple[str, int]]) -> None:
    """Do `actions`, then let everything come to its end, and look."""
    life = Life(path)
    driver = Driver()
    for action, count in actions:
        if action == "publish":
            life.publish(count)
        elif action == "batch":
            for _ in range(count):
                driver.step(life)
        elif action == "broker":
            life.jobs = count
        elif action == "borrow":
            life.borrow()
        else:
            driver.stops_before = action
    life.jobs = -1
    driver.stops_before = ""
    while driver.step(life):
        pass
    rows = driver.rows()
    assert len(set(rows)) == len(rows), "a message came twice"
    assert set(life.confirmed) <= set(rows), "a confirmed message was lost"
    assert life.acquire(driver.done) == driver.done
    life.bed.settle()
    life.die()
    assert life.bed.ready() == 0, "something that was done came back"
    life.bed.die()


@given(actions=ACTIONS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_message_is_lost_and_none_comes_twice(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]]
) -> None:
    play(tmp_path_factory.mktemp("life"), actions)


@pytest.mark.parametrize("jobs", range(5))
@pytest.mark.parametrize("step", STEPS)
def test_every_pair_of_deaths(tmp_path: Path, jobs: int, step: str) -> None:
    """The driver dies at `step` while the broker dies after `jobs` jobs of its disk."""
    play(
        tmp_path,
        [
            ("publish", 6),
            ("batch", 1),
            (step, 0),
            ("broker", jobs),
            ("batch", 1),
            ("publish", 3),
            ("batch", 1),
            ("broker", jobs),
            ("batch", 2),
            ("borrow", 0),
        ],
    )
