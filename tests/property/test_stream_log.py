"""A stream against a list: any order of writing, reading, retention, stops, kills, power cuts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.simulation.machine.crash import Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.streams.batch import StreamBatch
from penstock.streams.handles import StreamHandles
from penstock.streams.log import NO_BOUND, Retention, StreamLog
from penstock.streams.recovery import recover_streams
from tests.crash.life import message
from tests.crash.stream_rig import legible

STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 300)),
    st.tuples(st.just("write"), st.just(0)),
    st.tuples(st.just("read"), st.integers(0, 60)),
    st.tuples(st.just("stop"), st.just(0)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("power"), st.integers(0, 1 << 30)),
)


class Life:
    """bodies: by offset, what was appended; safe: below this offset everything was written."""

    def __init__(self, retention: Retention) -> None:
        self.retention = retention
        self.disk = SimDisk()
        self.bodies: list[bytes] = []
        self.safe = 0
        self.log = StreamLog(1, retention, Dice(1))
        self.begin(SimDisk())

    def begin(self, disk: SimDisk) -> None:
        """Another life, on what is there."""
        self.disk = disk
        self.handles = StreamHandles(disk)
        logs, report = recover_streams(disk, Dice(len(self.bodies) + 1), {1: self.retention})
        assert not report.lost and not report.lines
        self.log = logs[1]
        self.log.chunk_bytes = 200
        assert self.safe <= self.log.committed <= len(self.bodies)
        del self.bodies[int(self.log.committed) :]
        self.safe = len(self.bodies)

    def write(self, is_last: bool = False) -> None:
        batch = StreamBatch(self.handles)
        batch.is_last = is_last
        if is_last:
            self.log.take_last(batch)
        else:
            self.log.take(batch)
        batch.run()
        for deed in batch.chunks:
            self.log.done(deed)
        self.safe = len(self.bodies)

    def check(self, begin: int) -> None:
        """Everything from `begin` on is there as it was appended."""
        found, lost = legible(self.disk, self.log, begin)
        assert not lost
        first = max(begin, int(self.log.first()))
        assert found == {
            (1, offset): self.bodies[offset] for offset in range(first, int(self.log.committed))
        }


@settings(max_examples=60, deadline=None)
@given(
    st.lists(STEP, min_size=5, max_size=40),
    st.sampled_from([(300, NO_BOUND), (1000, 3000), (1 << 20, NO_BOUND)]),
)
def test_a_stream_is_the_list_of_what_was_appended(
    steps: list[tuple[str, int]], bounds: tuple[int, int]
) -> None:
    life = Life(Retention(*bounds))
    for number, (what, value) in enumerate(steps):
        if what == "append":
            body = b"%d:" % number + bytes(value)
            life.bodies.append(body)
            life.log.append(message(body), number * 1000)
        elif what == "write":
            life.write()
        elif what == "read":
            life.check(value)
        elif what == "stop":
            life.write(is_last=True)
            life.begin(SimDisk(life.disk.contents()))
        elif what == "kill":
            life.begin(SimDisk(life.disk.contents()))
        else:
            replay = Replay(life.disk)
            while replay.step():
                pass
            states = list(replay.states(Dice(value), 4))
            life.begin(SimDisk(states[value % len(states)]))
    life.check(0)
