"""Reader groups against whatever happens: retention, positions, restarts, and who is held."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.cause import Cause
from penstock.base.clock import ManualClock
from penstock.broker.actors.actor import Actor, Scheduler
from penstock.broker.stream.stream_groups import StreamGroups
from penstock.simulation.machine.dice import Dice
from penstock.streams.reader_groups import LagBound, ReaderGroup
from penstock.streams.recovery import recover_streams
from penstock.telemetry.recorder import Recorder
from tests.unit.streams.test_log import Shelf

NAMES = st.sampled_from(["a", "b", "c"])
STEP = st.one_of(
    st.tuples(st.just("write"), st.just(""), st.integers(1, 6)),
    st.tuples(st.just("advance"), NAMES, st.integers(0, 60)),
    st.tuples(st.just("register"), NAMES, st.integers(-1, 60)),
    st.tuples(st.just("remove"), NAMES, st.just(0)),
    st.tuples(st.just("restart"), st.just(""), st.just(0)),
)


class Stage:
    """A stream of 50-byte messages in segments of about 400 bytes, of which 900 are kept."""

    def __init__(self, bound: LagBound) -> None:
        self.bound = bound
        self.shelf = Shelf(400, 900)
        clock = ManualClock()
        # Nobody is given a turn.
        self.line = Scheduler(clock, Recorder(clock, 100), 100)
        self.begin({})

    def begin(self, kept: dict[str, tuple[LagBound, int]]) -> None:
        """A broker that has started, with what it kept of the groups."""
        self.actor = Actor("queue:/s", self.line)
        self.groups = StreamGroups(self.actor, self.shelf.log, self.bound, False, Cause("vhost:/"))
        for name, (own, position) in kept.items():
            self.groups.register(name, own, position)

    def restart(self) -> None:
        """The positions on the disk may be older than those that were."""
        kept = {
            one.name: (one.own, max(0, int(one.position) - 2))
            for one in self.groups.groups.values()
        }
        logs, _ = recover_streams(self.shelf.files, Dice(1), {1: self.shelf.retention})
        self.shelf.log = logs[1]
        self.begin(kept)

    def exact_bytes(self, group: ReaderGroup) -> int:
        """Of the segments from the group's on, which is the most that its lag may be."""
        log = self.shelf.log
        return sum(int(one.end) for one in log.segments if one.next > group.position)

    def check(self) -> None:
        log = self.shelf.log
        groups = list(self.groups.groups.values())
        for group in groups:
            assert log.first() <= group.position <= log.committed, "retention has passed a group"
            assert 0 <= group.lag_bytes(log) <= self.exact_bytes(group)
            assert (group.lag_bytes(log) == 0) == (group.lag_messages(log) == 0)
            bound = group.bound
            over = group.lag_messages(log) > bound.messages > 0 or (
                group.lag_bytes(log) > bound.bytes > 0
            )
            assert not over or group.is_holding
        assert self.actor.gate.is_open == (not any(group.is_holding for group in groups))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(STEP, min_size=5, max_size=40),
    st.sampled_from([LagBound(0, 0), LagBound(10, 0), LagBound(0, 700), LagBound(1, 1)]),
)
def test_groups_keep_what_they_have_not_passed_and_let_go_when_they_have(
    steps: list[tuple[str, str, int]], bound: LagBound
) -> None:
    stage = Stage(bound)
    for what, name, value in steps:
        groups = stage.groups
        if what == "write":
            stage.shelf.write(value, step_us=1)
            groups.measure()
        elif what == "register":
            groups.register(name, LagBound(0, 0), value)
        elif what == "advance" and name in groups.groups:
            before = int(groups.groups[name].position)
            groups.advance(groups.groups[name], value)
            assert groups.groups[name].position >= before
        elif what == "remove":
            groups.remove(name)
        elif what == "restart":
            stage.restart()
        stage.check()
    # Whoever has read everything holds nobody, whatever was before.
    for group in stage.groups.groups.values():
        stage.groups.advance(group, int(stage.shelf.log.committed))
    assert stage.actor.gate.is_open
    stage.check()
