"""Reader groups of streams over the wire: what they keep, whom they hold, how they end."""

import pytest

from penstock.base.policy import Policy
from penstock.broker.admin.view_queues import group_snapshots
from penstock.broker.admin.view_store import stream_in_words
from penstock.broker.admin.views import actor_snapshots
from penstock.protocol import methods as m
from penstock.protocol.values import Table, Value
from tests.unit.broker.peer import Bed, Peer
from tests.unit.broker.stream.test_streams import stream, streaming

S = 1_000_000_000
WINDOW = 400
"""More than a publisher hands over before it feels that the gate is closed."""


def reading(**arguments: Value) -> tuple[Bed, Peer, Peer]:
    """As `streaming`, and a reader."""
    bed, peer = streaming(**arguments)
    return bed, peer, bed.connect("reader", channels=2)


def ask(peer: Peer, verb: str, **arguments: Value) -> Table:
    """The answer, on the channel that does not publish."""
    table: Table = {"queue": "s", **arguments}
    return peer.call(2, m.RequestAsk(verb, table), m.RequestAskOk).answer


def refusal(peer: Peer, verb: str, **arguments: Value) -> tuple[int, str]:
    table: Table = {"queue": "s", **arguments}
    closed = peer.call(2, m.RequestAsk(verb, table), m.ChannelClose)
    return closed.reply_code, closed.reply_text


def flood(peer: Peer, count: int) -> int:
    """Publish until nobody reads; how many the stream has."""
    for _ in range(count):
        peer.publish("s", b"x")
    log = stream(peer.bed).counts.log
    assert log is not None
    return int(log.committed)


def test_a_group_that_is_behind_holds_publishers_until_it_has_caught_up() -> None:
    bed, peer, reader = reading()
    ask(reader, "stream.group.register", group="etl", max_lag_messages=100)
    held_at = flood(peer, 3000)
    assert 100 < held_at < 100 + 2 * WINDOW
    assert not stream(bed).gate.is_open
    assert stream(bed).gate.snapshot()[0][:2] == ("group:etl@/s", "lag")
    # Within the band it stays closed, and opens at three quarters of the bound.
    ask(reader, "stream.group.advance", group="etl", offset=held_at - 90)
    assert not stream(bed).gate.is_open
    ask(reader, "stream.group.advance", group="etl", offset=held_at - 75)
    peer.read_on()
    log = stream(bed).counts.log
    assert log is not None and log.committed > held_at
    ask(reader, "stream.group.remove", group="etl")
    peer.read_on()
    assert log.committed == 3000 and stream(bed).gate.is_open
    bed.settle()


def test_publishers_without_confirms_are_held_too_and_nothing_is_lost() -> None:
    bed, peer, reader = reading()
    bed.broker.parking.lot_bytes_max = 1
    ask(reader, "stream.group.register", group="etl", max_lag_bytes=50_000)
    for _ in range(1500):
        peer.publish("s", bytes(1000))
    log = stream(bed).counts.log
    assert log is not None and log.committed < 1500 and len(peer.unread) > 0
    while log.committed < 1500:
        before = int(log.committed)
        told = ask(reader, "stream.group.advance", group="etl", offset=before)
        assert told["lag_bytes"] == 0
        peer.read_on()
        assert log.committed > before, "it always goes on"
    assert ask(reader, "stream.offsets")["next"] == 1500


def test_what_is_on_its_way_to_the_log_counts_as_lag() -> None:
    """Many come at a time: the stream takes a window of them before the store has any."""
    bed, peer, reader = reading()
    ask(reader, "stream.group.register", group="etl", max_lag_messages=100)
    peer.publish("s", *[b"x"] * 3000)
    log = stream(bed).counts.log
    assert log is not None and log.coming == 0
    assert 100 < log.committed <= 100 + WINDOW
    ask(reader, "stream.group.remove", group="etl")
    peer.read_on()
    assert log.committed == 3000
    bed.settle()


def test_retention_takes_nothing_a_group_has_not_passed() -> None:
    _, peer, reader = reading(x_stream_max_segment_size_bytes=5_000, x_max_length_bytes=10_000)
    ask(reader, "stream.group.register", group="a", offset=0)
    ask(reader, "stream.group.register", group="b", offset=0)
    for _ in range(20):
        peer.publish("s", bytes(4_000))
    assert ask(reader, "stream.offsets")["first"] == 0
    ask(reader, "stream.group.advance", group="a", offset=20)
    ask(reader, "stream.group.advance", group="b", offset=9)
    peer.publish("s", b"retention looks when something is written")
    first = ask(reader, "stream.offsets")["first"]
    assert isinstance(first, int) and 0 < first <= 9
    ask(reader, "stream.group.remove", group="b")
    peer.publish("s", b"again")
    first = ask(reader, "stream.offsets")["first"]
    assert isinstance(first, int) and first > 9


def test_where_a_group_begins_and_that_it_goes_back_only_when_it_says_so() -> None:
    _, peer = streaming()
    peer.publish("s", b"0", b"1", b"2", b"3")
    assert ask(peer, "stream.group.register", group="new")["offset"] == 4
    assert ask(peer, "stream.group.register", group="new", offset=1)["offset"] == 1
    assert ask(peer, "stream.group.advance", group="new", offset=3)["offset"] == 3
    assert ask(peer, "stream.group.advance", group="new", offset=2)["offset"] == 3
    assert ask(peer, "stream.group.register", group="new")["offset"] == 3
    assert ask(peer, "stream.group.advance", group="new", offset=9)["offset"] == 4
    told = ask(peer, "stream.groups")["groups"]
    assert isinstance(told, list) and len(told) == 1
    assert told[0] == {
        "group": "new", "offset": 4, "first": 0, "next": 4, "lag_messages": 0, "lag_bytes": 0,
        "held_ns": 0, "is_holding": False,
    }  # fmt: skip


def test_the_stricter_of_both_bounds_counts_and_policies_change_it() -> None:
    bed, peer, reader = reading(x_max_lag_messages=50)
    ask(reader, "stream.group.register", group="etl", max_lag_messages=1_000_000)
    flood(peer, 500)
    groups = stream(bed).groups
    assert groups is not None and groups.holder() == "lag"
    assert groups.groups["etl"].bound.messages == 50
    ask(reader, "stream.group.remove", group="etl")
    peer.read_on()
    said: dict[str, object] = {"max-lag-messages": 20}
    bed.broker.policy_manager.set(Policy("/", "p", "^s$", said, 0, "streams"), False)
    ask(reader, "stream.group.register", group="etl")
    assert groups.groups["etl"].bound.messages == 20
    bed.broker.policy_manager.clear("/", "p", False)
    assert groups.groups["etl"].bound.messages == 50


def test_a_deleted_stream_takes_its_groups_along() -> None:
    bed, peer, reader = reading()
    ask(reader, "stream.group.register", group="etl", max_lag_messages=1)
    flood(peer, 1000)
    reader.call(1, m.QueueDelete("s"), m.QueueDeleteOk)
    peer.read_on()
    assert not peer.unread
    bed.settle()


def test_why_names_the_group_and_since_when() -> None:
    bed, peer, reader = reading()
    ask(reader, "stream.group.register", group="etl", max_lag_messages=10)
    flood(peer, 1000)
    bed.clock.advance(5 * S)
    snapshot = actor_snapshots(bed.broker)["group:etl@/s"]
    assert snapshot.numbers["still_ns"] >= 5 * S
    assert snapshot.numbers["lag_messages"] > 10
    words = stream_in_words(stream(bed))["groups"]
    assert words.startswith("etl at 0, ") and words.endswith("holds publishers")
    assert next(group_snapshots(stream(bed))).state == "lagging"


@pytest.mark.parametrize(
    ("verb", "arguments", "code", "text"),
    [
        ("stream.group.advance", {"group": "none", "offset": 1}, 404, "no group 'none'"),
        ("stream.group.remove", {"group": "none"}, 404, "no group 'none'"),
        ("stream.group.register", {"group": ""}, 406, "1 to 200 bytes"),
        ("stream.group.register", {"group": "x" * 201}, 406, "1 to 200 bytes"),
        ("stream.group.register", {"group": "x", "offset": -2}, 406, "'offset'"),
        ("stream.group.register", {"group": "x", "max_lag_bytes": "5"}, 406, "'max_lag_bytes'"),
    ],
)
def test_what_makes_no_sense_is_refused(verb: str, arguments: Table, code: int, text: str) -> None:
    _, peer = streaming()
    found = refusal(peer, verb, **arguments)
    assert found[0] == code and text in found[1]


def test_a_stream_has_no_more_than_so_many_groups() -> None:
    _, peer = streaming()
    for number in range(64):
        ask(peer, "stream.group.register", group=f"g{number}")
    ask(peer, "stream.group.register", group="g3")
    code, text = refusal(peer, "stream.group.register", group="one more")
    assert code == 406 and "64 groups" in text


@pytest.mark.parametrize("value", [0, -1, "5", True])
def test_a_bound_of_a_stream_is_a_number_of_1_or_more(value: Value) -> None:
    bed = Bed()
    peer = bed.connect("p")
    table: Table = {"x-queue-type": "stream", "x-max-lag-messages": value}
    closed = peer.call(1, m.QueueDeclare("s", durable=True, arguments=table), m.ChannelClose)
    assert closed.reply_code == 406 and "x-max-lag-messages" in closed.reply_text
