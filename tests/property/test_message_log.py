"""The message log against a dictionary: any order of deeds, stops, kills and losses of power."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.simulation.machine.crash import Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.log.batch import Batch
from penstock.storage.log.recycled import GiveBack
from tests.crash.life import Entry, Expectation
from tests.crash.rig import Rig, check, contents, legible

QUEUES = (1, 2, 3)
SEGMENT_BYTES = 900


class LogMachine(RuleBasedStateMachine):
    """held: a batch that was taken and not yet run; live: what counts, by entry."""

    def __init__(self) -> None:
        super().__init__()
        self.life = 0
        self.rig = Rig(SimDisk(), set(QUEUES), SEGMENT_BYTES)
        self.held: Batch | None = None
        self.live: dict[Entry, bytes] = {}

    @rule(
        queues=st.sets(st.sampled_from(QUEUES), min_size=1),
        size=st.sampled_from((0, 30, 200, 1200)),
        count=st.integers(1, 6),
    )
    def publish(self, queues: set[int], size: int, count: int) -> None:
        for _ in range(count):
            for entry in self.rig.publish(*sorted(queues), size=size, text=f"{self.life}/"):
                self.live[entry] = self.rig.bodies[entry]

    @rule(must_sync=st.booleans())
    def flush(self, must_sync: bool) -> None:
        self.run_held()
        self.rig.flush(must_sync)

    @precondition(lambda self: self.held is None)
    @rule(must_sync=st.booleans())
    def take(self, must_sync: bool) -> None:
        self.held = self.rig.take(must_sync)

    @rule()
    def run_held(self) -> None:
        self.rig.run(self.held)
        self.held = None

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.integers(1, 8))
    def settle(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.live))):
            entry = data.draw(st.sampled_from(sorted(self.live)))
            del self.live[entry]
            self.rig.settle(*entry)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.integers(2, 8))
    def settle_run(self, data: st.DataObject, count: int) -> None:
        queue_id, first = data.draw(st.sampled_from(sorted(self.live)))
        run = [(queue_id, first)]
        while len(run) < count and (queue_id, run[-1][1] + 1) in self.live:
            run.append((queue_id, run[-1][1] + 1))
        for entry in run:
            del self.live[entry]
        self.rig.settle(queue_id, *(position for _, position in run))

    @rule(queue_id=st.sampled_from(QUEUES), share=st.integers(1, 4))
    def purge(self, queue_id: int, share: int) -> None:
        below = int(self.rig.queues[queue_id].next_position) * share // 4
        gone = [entry for entry in self.live if entry[0] == queue_id and entry[1] < below]
        for entry in gone:
            del self.live[entry]
        assert self.rig.log.settle_below(self.rig.queues[queue_id], below) == len(gone)
        self.rig._settled.update(gone)
        self.rig.note("settled", gone)

    @rule(slices=st.integers(1, 3))
    def compact(self, slices: int) -> None:
        self.run_held()
        for _ in range(slices):
            job = self.rig.compactor.plan(400)
            if job is not None:
                job.run()
                self.rig.compactor.copy(job)
            self.rig.flush(must_sync=False)

    @rule(left_count=st.integers(0, 1))
    def give_back(self, left_count: int) -> None:
        """Files that are kept to be written over."""
        GiveBack(self.rig.log.spares, left_count).run()
        spares = [name for name in self.rig.disk.names() if name.endswith(".spare")]
        assert len(spares) <= left_count

    @rule()
    def stop(self) -> None:
        self.run_held()
        self.rig.stop()
        self.begin(Rig(self.rig.disk, set(QUEUES), SEGMENT_BYTES, self.rig.expected(), self.seed()))
        found: dict[Entry, bytes] = {}
        for queue_id in QUEUES:
            found |= contents(self.rig.recovered, queue_id)
        assert found == self.live, "a clean stop keeps what counts, and nothing else"

    @rule()
    def kill(self) -> None:
        self.begin(Rig(self.rig.disk, set(QUEUES), SEGMENT_BYTES, self.rig.expected(), self.seed()))
        self.look_again()

    @rule(seed=st.integers(0, 1 << 32))
    def lose_power(self, seed: int) -> None:
        replay = Replay(self.rig.disk)
        while replay.step():
            pass
        expected = self.rig.expected()
        for image in replay.states(Dice(seed), 2):
            check(image, expected, SEGMENT_BYTES)
        # The last state is one of those that were drawn.
        self.begin(Rig(SimDisk(image), set(QUEUES), SEGMENT_BYTES, expected, self.seed()))
        self.look_again()
        self.rig.start = Expectation(
            {entry: body for entry, body in expected.required.items() if entry in self.live},
            dict(self.live),
            set(QUEUES),
        )

    def seed(self) -> int:
        """Every life draws other identities, as chance has it: by them segments are told apart."""
        self.life += 1
        return self.life + 1000

    def begin(self, rig: Rig) -> None:
        self.held = None
        self.rig = rig

    def look_again(self) -> None:
        """What counts after a crash is what was found."""
        self.live = {}
        for queue_id in QUEUES:
            self.live |= contents(self.rig.recovered, queue_id)

    @invariant()
    def the_log_counts_what_the_dictionary_has(self) -> None:
        for queue_id, index in self.rig.queues.items():
            mine = sorted(entry[1] for entry in self.live if entry[0] == queue_id)
            assert self.rig.log.live_count(index) == len(mine)
            assert int(index.first_position()) == (mine[0] if mine else -1)
        assert sum(segment.live for segment in self.rig.log.segments.values()) >= len(self.live)

    @precondition(lambda self: self.held is None)
    @invariant()
    def what_was_written_can_be_read(self) -> None:
        for queue_id in self.rig.queues:
            found, damaged = legible(self.rig.recovered, queue_id)
            assert not damaged
            for entry, body in found.items():
                assert self.live[entry] == body


TestMessageLog = LogMachine.TestCase
TestMessageLog.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
