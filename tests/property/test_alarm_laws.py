"""Properties 8, 9 and 13: pairs of signals, the algebra of alarms, no flapping inside the band."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.flow.alarms import Alarms
from penstock.flow.targeting import FALL, Holder, MemoryShares, fair_level
from penstock.flow.watermark import Ceiling, Floor
from penstock.protocol import methods as m
from tests.unit.broker.alarm_bed import MB, AlarmBed, kinds

OWN = "n1"
NODES = st.sampled_from((OWN, "n2", "n3"))
RESOURCES = st.sampled_from(("memory", "disk"))
DEEDS = st.one_of(
    st.tuples(st.sampled_from(("set", "clear")), NODES, RESOURCES),
    st.tuples(st.sampled_from(("up", "down")), st.sampled_from(("n2", "n3")), st.just("")),
)


def do(alarms: Alarms, deed: tuple[str, str, str]) -> None:
    what, node, resource = deed
    if what == "set":
        alarms.set(node, resource)
    elif what == "clear":
        alarms.clear(node, resource)
    elif what == "up":
        alarms.node_up(node, ())
    else:
        alarms.node_down(node)


class NaiveAlarms:
    """A twin: what every living node says, and the union."""

    def __init__(self) -> None:
        self.said: dict[str, set[str]] = {OWN: set()}

    def do(self, deed: tuple[str, str, str]) -> None:
        what, node, resource = deed
        if what == "up":
            self.said[node] = set()
        elif what == "down":
            self.said.pop(node, None)
        elif node in self.said and what == "set":
            self.said[node].add(resource)
        elif node in self.said:
            self.said[node].discard(resource)

    def union(self) -> tuple[str, ...]:
        return tuple(sorted(set().union(*self.said.values())))


@given(st.lists(DEEDS, max_size=40))
def test_9_blocked_is_the_union_over_living_nodes(deeds: list[tuple[str, str, str]]) -> None:
    alarms, twin = Alarms(OWN), NaiveAlarms()
    for deed in deeds:
        before = alarms.resources()
        do(alarms, deed)
        twin.do(deed)
        assert alarms.resources() == twin.union()
        again = alarms.resources()
        do(alarms, deed)
        assert alarms.resources() == again or deed[0] == "up", "idempotent"
        assert (before != again) == (set(before) != set(twin.union()))


@given(st.sets(st.tuples(NODES, RESOURCES), max_size=4))
def test_9_the_order_of_sets_and_of_clears_does_not_matter(pairs: set[tuple[str, str]]) -> None:
    """F29: publishers stay stopped until the last pair is cleared, in every order."""
    for order in permutations(sorted(pairs)):
        alarms = Alarms(OWN)
        alarms.node_up("n2", ())
        alarms.node_up("n3", ())
        for node, resource in reversed(order):
            alarms.set(node, resource)
        for left in range(len(order), 0, -1):
            assert alarms.resources() == tuple(sorted({one for _, one in order[-left:]}))
            alarms.clear(*order[-left])
        assert alarms.resources() == ()


@given(st.lists(st.integers(0, 2000), max_size=60), st.integers(1, 1500))
def test_13_a_ceiling_does_not_flap_inside_its_band(values: list[int], limit: int) -> None:
    mark, is_set = Ceiling(limit, True), False
    for value in values:
        after = mark.is_set(is_set, value)
        if mark.clear_bytes <= value <= limit:
            assert after == is_set, "inside the band nothing changes"
        else:
            assert after == (value > limit)
        is_set = after


@given(st.lists(st.integers(0, 2000), max_size=60), st.integers(1, 1500))
def test_13_a_floor_does_not_flap_inside_its_band(values: list[int], limit: int) -> None:
    mark, is_set = Floor(limit, True), False
    for value in values:
        after = mark.is_set(is_set, value)
        if limit <= value <= mark.clear_bytes:
            assert after == is_set, "inside the band nothing changes"
        else:
            assert after == (value < limit)
        is_set = after


HOLDERS = st.lists(st.tuples(st.sampled_from(("u", "v")), st.integers(0, 1000)), max_size=12).map(
    lambda rows: [Holder(f"c{at}", user, held) for at, (user, held) in enumerate(rows)]
)


LEFT = st.dictionaries(st.sampled_from(("u", "v")), st.integers(0, 500))


def naive_level(held: list[int], room: int) -> int:
    """A twin of `fair_level`: pour a byte at a time into whatever still takes one."""
    if sum(held) <= room:
        return max(held, default=0)
    level = 0
    while sum(min(one, level + 1) for one in held) <= room:
        level += 1
    return level


@given(st.lists(st.integers(0, 200), max_size=9), st.integers(-5, 1200))
def test_the_fair_level_is_that_of_water_in_vessels(held: list[int], room: int) -> None:
    assert fair_level(held, room) == naive_level(held, room)


@given(HOLDERS, LEFT, st.integers(901, 1300), st.data())
def test_whoever_is_stopped_holds_more_than_its_share_and_the_biggest_always_is(
    holders: list[Holder], left: dict[str, int], used: int, data: st.DataObject
) -> None:
    stopped = frozenset(data.draw(st.sets(st.sampled_from([one.name for one in holders] or ["-"]))))
    shares = MemoryShares()
    shares.rest(100)
    shares.start_bytes = 1000
    shares.look(holders, left, used, 1000, 900)
    chosen = shares.above(stopped)
    first = shares.above(frozenset())
    assert first <= chosen <= first | stopped
    assert shares.above(chosen) == chosen, "stable while nothing moves"
    weights = shares.weights
    going = [weight for name, weight in weights.items() if name not in chosen]
    assert all(weights[name] * 10 > max(going, default=0) * 9 for name in chosen)
    assert all(weights[name] >= max(going, default=0) for name in first)
    if shares.room_bytes > 0:
        assert first or sum(weights.values()) <= shares.room_bytes, "there is too much"
        assert shares.stage(True, 1000, "some") == "some"
    elif used > 1000:
        assert shares.stage(True, 1000, "some") == "all"


@given(HOLDERS, st.integers(0, 300), st.integers(0, 300))
def test_all_are_stopped_only_a_quarter_of_the_room_above_the_mark(
    holders: list[Holder], rest: int, over: int
) -> None:
    """What connections hold is all there is beside `rest`: a choice is always enough until then."""
    held = sum(one.held_bytes for one in holders)
    if held == 0:
        return
    used = 1000 + over
    shares = MemoryShares()
    shares.rest(rest)
    shares.start_bytes = 1000
    factor = (used - rest) // held + 1
    scaled = [Holder(one.name, one.user, one.held_bytes * factor) for one in holders]
    shares.look(scaled, {}, rest + held * factor, 1000, 900)
    after = shares.stage(True, 1000, "some")
    above = max(0, rest + held * factor - 1000)
    assert (after == "all") == (above > 0 and above * FALL >= 900 - rest)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("use", "leave", "publish", "empty", "mode", "action")),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=40)
@given(STEPS, st.sampled_from(("penstock", "rabbitmq-4")))
def test_8_blocked_and_unblocked_alternate(steps: list[tuple[str, int]], profile: str) -> None:
    bed = AlarmBed(profile=profile)
    peers = [bed.publisher(f"p{number}", "q") for number in range(2)]
    told: list[list[type[m.Method]]] = [[], []]
    for what, amount in steps:
        if what == "use":
            bed.use((100, 390, 401, 500)[amount] * MB)
        elif what == "leave":
            bed.leave((10, 51, 60, 500)[amount] * MB)
        elif what == "mode":
            bed.change("alarm.mode", ("targeted", "all")[amount % 2])
        elif what == "action":
            bed.change("alarm.action", ("block", "nack")[amount % 2])
        else:
            peers[amount % 2].publish("q", b"x" if what == "publish" else b"")
        bed.run()
        for peer, heard in zip(peers, told, strict=True):
            heard += kinds(peer)
            pair = [m.ConnectionBlocked, m.ConnectionUnblocked]
            assert heard == (pair * len(heard))[: len(heard)]
    bed.use(0)
    bed.leave(500 * MB)
    for peer, heard in zip(peers, told, strict=True):
        peer.read_on()
        heard += kinds(peer)
        assert len(heard) % 2 == 0, "unblocked at the end"
    bed.settle()
