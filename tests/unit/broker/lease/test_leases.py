"""Leases of a broker in memory: holding, reading again, being done, giving back, refusals."""

from penstock.base.limits import LEASE_GROUPS
from penstock.base.steps import whole
from penstock.broker.admin.paging import Pager
from penstock.broker.admin.queue_causes import queue_causes
from penstock.broker.admin.view_queues import queue_and_consumers
from penstock.broker.lease.lease_manager import Order
from penstock.broker.lease.lease_view import leases_in_words
from penstock.explain.naming import Names
from penstock.protocol import methods as m
from penstock.protocol.content import NO_CAUSE
from penstock.protocol.values import Table
from penstock.streams.chunk import Chunk
from tests.owed import owed_rows
from tests.unit.broker.peer import Bed, Peer


def prepared(
    count: int, bed: Bed | None = None, arguments: Table | None = None
) -> tuple[Bed, Peer]:
    """A queue `q` with bodies 0..count-1, and somebody who is connected."""
    bed = bed or Bed()
    peer = bed.connect("spark", channels=2)
    peer.call(1, m.QueueDeclare("q", arguments=arguments or {}), m.QueueDeclareOk)
    peer.publish("q", *(str(number).encode() for number in range(count)))
    return bed, peer


def acquire(peer: Peer, start: int, count: int, **more: int | str | bool) -> Table:
    """lease.acquire for group g of queue q; its answer."""
    arguments: Table = {"queue": "q", "group": "g", "start": start, "max_messages": count, **more}
    return peer.call(1, m.RequestAsk("lease.acquire", arguments), m.RequestAskOk).answer


def refusal(peer: Peer, said: m.Method, channel: int = 1) -> tuple[int, str]:
    """The code and text that close the channel, which is opened again."""
    peer.say(channel, said)
    (close,) = [one.method for one in peer.heard() if isinstance(one.method, m.ChannelClose)]
    peer.say(channel, m.ChannelCloseOk())
    peer.call(channel, m.ChannelOpen(), m.ChannelOpenOk)
    return close.reply_code, close.reply_text


def refused(peer: Peer, start: int, **more: int | str) -> tuple[int, str]:
    """lease.acquire that is refused."""
    arguments: Table = {"queue": "q", "group": "g", "start": start, **more}
    return refusal(peer, m.RequestAsk("lease.acquire", arguments))


def check(refused: tuple[int, str], *words: str, code: int = 406) -> None:
    """The refusal has this code and all `words`."""
    assert refused[0] == code and all(word in refused[1] for word in words), refused


def reading(first: int, stop: int, tag: str = "r", no_ack: bool = True) -> m.BasicConsume:
    """basic.consume of numbers first..stop-1."""
    arguments: Table = {"x-lease-group": "g", "x-lease-from": first, "x-lease-to": stop}
    return m.BasicConsume("q", tag, False, no_ack, False, False, arguments)


def read(peer: Peer, first: int, stop: int) -> list[int]:
    """The bodies of a range, which is read to its end."""
    peer.say(2, reading(first, stop))
    found = peer.heard()
    assert isinstance(found[0].method, m.BasicConsumeOk)
    assert all(isinstance(one.method, m.BasicDeliver) for one in found[1:])
    peer.call(2, m.BasicCancel("r"), m.BasicCancelOk)
    return [int(one.body) for one in found[1:]]


def ready(peer: Peer) -> int:
    """Messages that anybody may have."""
    return peer.call(1, m.QueueDeclare("q", passive=True), m.QueueDeclareOk).message_count


def test_what_is_leased_is_given_to_nobody_else_and_may_be_read_twice() -> None:
    bed, peer = prepared(10)
    answer = acquire(peer, 0, 4)
    assert (answer["end"], answer["count"], answer["acked_to"], answer["ready"]) == (4, 4, 0, 6)
    assert ready(peer) == 6
    peer.say(1, m.BasicConsume("q", "other", no_ack=True))
    assert [int(one.body) for one in peer.heard()[1:]] == [4, 5, 6, 7, 8, 9]
    assert read(peer, 0, 4) == [0, 1, 2, 3]
    assert read(peer, 1, 3) == [1, 2]
    bed.settle()


def test_the_same_start_gives_the_same_and_a_later_one_settles_what_is_below() -> None:
    bed, peer = prepared(10)
    assert acquire(peer, 0, 4)["end"] == 4
    assert acquire(peer, 0, 4)["end"] == 4
    assert acquire(peer, 0, 6)["end"] == 6
    answer = acquire(peer, 6, 2)
    assert (answer["end"], answer["acked_to"], answer["count"]) == (8, 6, 2)
    assert read(peer, 6, 8) == [6, 7]
    assert acquire(peer, 8, 0)["count"] == 0
    assert ready(peer) == 2
    queue = bed.actor("q")
    assert (queue.unacked_count, queue.unacked_bytes, queue.messages.ack_count) == (0, 0, 8)
    bed.settle()


def test_a_start_below_is_stale_and_one_beyond_is_lost() -> None:
    _bed, peer = prepared(10)
    acquire(peer, 0, 4)
    acquire(peer, 4, 2)
    check(refused(peer, 3), " - STALE: ", "below 4")
    check(refused(peer, 7), " - LEASE_LOST: ", "ends at 6")
    assert acquire(peer, 9, 1, accept_loss=True)["lost"] == 3
    assert acquire(peer, 5, 1, accept_loss=True)["lost"] == 4


def test_a_refusal_with_long_names_still_says_what_it_is() -> None:
    _bed, peer = prepared(4)
    name = "g" * 200
    acquire(peer, 0, 4, group=name)
    acquire(peer, 4, 0, group=name)
    check(refused(peer, 1, group=name), " - STALE: ")
    assert refused(peer, 1, group=name + "g")[1].endswith("1 to 200 bytes")
    assert "'max_messages'" in refused(peer, 4, group=name, max_messages=-1)[1]
    assert "'accept_loss'" in refused(peer, 4, group=name, accept_loss=1)[1]


def test_a_range_that_is_not_all_there_is_refused_before_the_first_delivery() -> None:
    _bed, peer = prepared(10)
    acquire(peer, 0, 4)
    check(refusal(peer, reading(0, 5), 2), " - LEASE_LOST: ", "4 of 0..4")
    acquire(peer, 2, 4)
    assert " - LEASE_LOST: " in refusal(peer, reading(1, 4), 2)[1]
    assert read(peer, 2, 6) == [2, 3, 4, 5]


def test_a_reader_gets_no_more_than_its_prefetch_and_the_rest_as_it_answers() -> None:
    bed, peer = prepared(10)
    acquire(peer, 0, 10)
    peer.call(2, m.BasicQos(0, 3), m.BasicQosOk)
    peer.say(2, reading(0, 10, no_ack=False))
    assert [int(one.body) for one in peer.heard()[1:]] == [0, 1, 2]
    peer.say(2, m.BasicAck(2, True))
    assert [int(one.body) for one in peer.heard()] == [3, 4]
    peer.say(2, m.BasicNack(3, False, True), m.BasicReject(4, False))
    assert [int(one.body) for one in peer.heard()] == [5, 6]
    assert bed.actor("q").unacked_count == 10
    peer.hang_up()
    assert bed.actor("q").unacked_count == 10
    bed.settle()


def test_without_a_sign_of_life_everything_goes_back_in_its_old_order() -> None:
    bed, peer = prepared(10)
    acquire(peer, 0, 6, timeout_ms=1000)
    bed.later(900_000_000)
    assert read(peer, 0, 1) == [0]
    bed.later(900_000_000)
    assert ready(peer) == 4
    bed.later(200_000_000)
    assert ready(peer) == 10
    assert " - LEASE_LOST: " in refusal(peer, reading(0, 6), 2)[1]
    assert " - LEASE_LOST: " in refused(peer, 6)[1]
    assert acquire(peer, 0, 10)["end"] == 10
    assert read(peer, 0, 10) == list(range(10))
    bed.settle()


def test_a_reader_whose_messages_go_is_cancelled() -> None:
    bed, peer = prepared(10)
    acquire(peer, 0, 6, timeout_ms=1000)
    peer.call(2, m.BasicQos(0, 2), m.BasicQosOk)
    peer.say(2, reading(0, 6, no_ack=False))
    assert len(peer.heard()) == 3
    bed.later(1_100_000_000)
    assert isinstance(peer.one(m.BasicCancel), m.BasicCancel)
    bed.settle()


def test_release_gives_everything_back_and_forget_begins_anew() -> None:
    bed, peer = prepared(6)
    acquire(peer, 0, 3)
    acquire(peer, 3, 2)
    table: Table = {"queue": "q", "group": "g"}
    ok = peer.call(1, m.RequestAsk("lease.release", table), m.RequestAskOk)
    assert ok.answer == {"count": 2}
    assert ready(peer) == 3
    assert " - STALE: " in refused(peer, 0)[1]
    peer.call(1, m.RequestAsk("lease.release", {**table, "forget": True}), m.RequestAskOk)
    assert acquire(peer, 0, 9)["end"] == 3
    assert read(peer, 0, 3) == [3, 4, 5]
    bed.settle()


def test_state_says_what_is_held_and_how_much_is_ready() -> None:
    _bed, peer = prepared(6)
    table: Table = {"queue": "q", "group": "g"}
    ok = peer.call(1, m.RequestAsk("lease.state", table), m.RequestAskOk)
    assert ok.answer == {
        "acked_to": 0, "end": 0, "count": 0, "bytes": 0, "ready": 6, "runs": [], "query": "",
        "held_ns": 0,
    }  # fmt: skip
    acquire(peer, 0, 4)
    acquire(peer, 2, 2)
    ok = peer.call(1, m.RequestAsk("lease.state", {**table, "stop": 3}), m.RequestAskOk)
    assert (ok.answer["acked_to"], ok.answer["end"], ok.answer["runs"]) == (2, 4, [2, 3])


def test_bytes_bound_a_lease_but_one_message_always_fits() -> None:
    _bed, peer = prepared(0)
    peer.publish("q", b"x" * 5000, b"y" * 5000, b"z")
    assert acquire(peer, 0, 10, max_bytes=100)["end"] == 1
    assert acquire(peer, 1, 10, max_bytes=6000)["end"] == 3


def test_holes_of_other_consumers_do_not_show_in_the_numbers() -> None:
    bed, peer = prepared(4)
    peer.call(1, m.BasicGet("q"), m.BasicGetOk)
    assert acquire(peer, 0, 2)["end"] == 2
    assert read(peer, 0, 2) == [1, 2]
    peer.say(1, m.BasicNack(1, False, True))
    assert acquire(peer, 2, 5)["end"] == 4
    assert read(peer, 2, 4) == [0, 3]
    bed.settle()


def test_purging_leaves_what_is_leased_and_deleting_takes_it() -> None:
    bed, peer = prepared(6)
    acquire(peer, 0, 3)
    assert peer.call(1, m.QueuePurge("q"), m.QueuePurgeOk) == m.QueuePurgeOk(3)
    assert read(peer, 0, 3) == [0, 1, 2]
    peer.call(2, m.BasicQos(0, 1), m.BasicQosOk)
    peer.say(2, reading(0, 3, no_ack=False))
    peer.heard()
    peer.say(1, m.QueueDelete("q"))
    assert [type(one.method) for one in peer.heard()] == [m.QueueDeleteOk, m.BasicCancel]
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    assert " - LEASE_LOST: no group" in refusal(peer, reading(0, 3), 2)[1]
    assert " - LEASE_LOST: " in refused(peer, 3)[1]
    bed.settle()


def test_what_makes_no_sense_is_refused() -> None:
    _bed, peer = prepared(1)
    check(
        refusal(peer, m.RequestAsk("lease.release", {"queue": "q", "group": "g"})),
        "no group 'g'",
        code=404,
    )
    acquire(peer, 0, 1)
    table: Table = {"x-lease-group": "g", "x-lease-from": 0}
    check(refusal(peer, m.BasicConsume("q", "r", arguments=table), 2), "x-lease-to")
    check(refusal(peer, reading(1, 0), 2), "0 is below x-lease-from, which is 1")
    table |= {"x-lease-to": 1, "x-lease-group": 5}
    check(refusal(peer, m.BasicConsume("q", "r", arguments=table), 2), " - LEASE_LOST: ")


def test_two_groups_share_a_queue_and_a_queue_has_a_bound_of_them() -> None:
    bed, peer = prepared(4)
    acquire(peer, 0, 2)
    assert acquire(peer, 0, 2, group="h")["end"] == 2
    assert ready(peer) == 0
    for number in range(14):
        acquire(peer, 0, 0, group=f"more{number}")
    check(refused(peer, 0, group="one too many"), "16 groups")
    bed.settle()


def test_streams_and_exclusively_consumed_queues_are_refused() -> None:
    _bed, peer = prepared(1)
    peer.call(
        1, m.QueueDeclare("s", durable=True, arguments={"x-queue-type": "stream"}), m.QueueDeclareOk
    )
    assert "stream" in refused(peer, 0, queue="s")[1]
    peer.call(1, m.QueueDeclare("a", auto_delete=True), m.QueueDeclareOk)
    assert "auto-delete" in refused(peer, 0, queue="a")[1]
    single: Table = {"x-single-active-consumer": True}
    peer.call(1, m.QueueDeclare("1", arguments=single), m.QueueDeclareOk)
    assert "x-single-active-consumer" in refused(peer, 0, queue="1")[1]
    peer.say(2, m.BasicConsume("q", "mine", exclusive=True, no_ack=True))
    peer.heard()
    assert refused(peer, 0)[0] == 405


def test_leased_messages_outlive_their_time_and_keep_the_depth_mark_closed() -> None:
    bed, peer = prepared(3, arguments={"x-message-ttl": 100})
    acquire(peer, 0, 2)
    bed.later(200_000_000)
    assert ready(peer) == 0
    assert read(peer, 0, 2) == [0, 1]
    deep, other = prepared(0, Bed(queue_depth_bytes=65_536))
    other.publish("q", *(b"x" * 20_000 for _ in range(4)))
    queue = deep.broker.vhosts["/"].queues["q"]
    assert not queue.gate.is_open
    acquire(deep.connect("reader"), 0, 4)
    deep.run()
    assert not queue.gate.is_open
    acquire(deep.connect("reader2"), 4, 0)
    deep.run()
    assert queue.gate.is_open


def called(peer: Peer) -> object:
    table: Table = {"queue": "q", "group": "g"}
    return peer.call(1, m.RequestAsk("lease.state", table), m.RequestAskOk).answer["query"]


def test_whoever_reads_may_know_better_what_the_group_is_called() -> None:
    """A planner of Spark does not know its query's name, and its tasks do."""
    _bed, peer = prepared(4)
    acquire(peer, 0, 2, query="spark query of orders-app")
    assert called(peer) == "spark query of orders-app"
    method = reading(0, 2)
    method.arguments["x-lease-query"] = "minutes"
    peer.say(2, method)
    peer.heard()
    assert called(peer) == "minutes"
    acquire(peer, 2, 2)
    assert called(peer) == "minutes", "it was not said again"


def test_the_time_that_publishers_are_held_is_counted() -> None:
    bed, peer = prepared(0, arguments={"x-max-length": 2, "x-overflow": "backpressure"})
    peer.publish("q", *[b"x"] * 4)
    acquire(peer, 0, 2)
    table: Table = {"queue": "q", "group": "g"}
    before = peer.call(1, m.RequestAsk("lease.state", table), m.RequestAskOk).answer["held_ns"]
    bed.clock.advance(3_000_000_000)
    after = peer.call(1, m.RequestAsk("lease.state", table), m.RequestAskOk).answer["held_ns"]
    assert isinstance(before, int) and isinstance(after, int)
    assert after - before == 3_000_000_000


def test_what_is_leased_stays_with_whoever_published_it_and_is_shown() -> None:
    bed, peer = prepared(4)
    acquire(peer, 0, 3, query="spark query orders")
    peer.call(2, m.BasicQos(0, 1), m.BasicQosOk)
    peer.say(2, reading(0, 3, no_ack=False))
    rows = [row for row in owed_rows(bed.broker) if row.kind == "unanswered"]
    assert [(row.place, row.origin, row.messages) for row in rows] == [
        ("queue:/q", "conn:spark", 3)
    ]
    causes = whole(queue_causes(bed.broker, "q", "size", Names({}), Pager(5))).rows
    assert [(one.account, one.unanswered, one.ready) for one in causes] == [("conn:spark", 3, 1)]
    queue = bed.actor("q")
    shown = {one.actor: one for one in queue_and_consumers(bed.broker, queue)}
    lease = shown["consumer:g@conn:spark"]
    assert lease.labels["lease"] == "spark query orders"
    assert (lease.numbers["unacked"], lease.numbers["prefetch_full_share"]) == (3, 1)
    words = leases_in_words(bed.broker.leases, queue)["leases"]
    assert words.startswith("spark query orders, group g: done to 0, holds 3 for ")
    peer.say(2, m.BasicAck(1), m.BasicCancel("r"))
    peer.heard()
    acquire(peer, 3, 0)
    shown_now = leases_in_words(bed.broker.leases, queue)
    assert shown_now == {"leases": "spark query orders, group g: done to 3, holds 0"}
    assert bed.broker.node_account.total_stored_messages() == 1
    assert [row.kind for row in owed_rows(bed.broker)] == ["stored"]


def test_leasing_and_settling_go_on_over_turns() -> None:
    bed, peer = prepared(50, Bed(turn_messages=4))
    assert acquire(peer, 0, 30)["end"] == 30
    assert read(peer, 0, 30) == list(range(30))
    assert acquire(peer, 30, 20)["count"] == 20
    queue = bed.actor("q")
    assert (queue.unacked_count, queue.messages.ack_count) == (20, 30)
    acquire(peer, 50, 0)
    assert not queue.consumers
    bed.settle()


def test_a_queue_that_goes_while_its_messages_are_settled_owes_nothing() -> None:
    bed, peer = prepared(50)
    acquire(peer, 0, 30)
    vhost = bed.broker.vhosts["/"]
    queue = vhost.queues["q"]
    codes: list[int] = []
    answers: list[Table] = []
    order = Order(answers.append, lambda _text, code: codes.append(code), "g", 30, 5, 1 << 20)
    bed.broker.leases.acquire(queue, order)
    assert queue.unacked_count == 30
    vhost.remove_queue(queue)
    assert codes == [404] and not answers
    assert bed.broker.node_account.total_stored_messages() == 0
    bed.settle()


def test_a_refused_request_of_an_unknown_group_makes_none() -> None:
    _bed, peer = prepared(5)
    for number in range(LEASE_GROUPS.default + 1):
        assert " - LEASE_LOST: " in refused(peer, 5, group=f"wrong{number}")[1]
    assert acquire(peer, 0, 1)["end"] == 1


def test_of_too_many_groups_the_one_that_may_be_forgotten_goes() -> None:
    """The one that was silent for longest; not one that holds something, or has a name of its
    own, or was here a moment ago."""
    bed, peer = prepared(50)
    most = LEASE_GROUPS.default
    acquire(peer, 0, 1, group="named", timeout_ms=1000)
    acquire(peer, 1, 0, group="named", timeout_ms=1000)
    for number in range(most - 1):
        group = f"own{number}"
        acquire(peer, 0, 1, group=group, timeout_ms=1000 + number, forgettable=True)
        if number != 1:
            acquire(peer, 1, 0, group=group, timeout_ms=1000 + number, forgettable=True)
        bed.clock.advance(1_000_000)
    assert f"{most} groups lease" in refused(peer, 0, group="more")[1]
    bed.clock.advance(970_000_000)
    assert f"{most} groups lease" in refused(peer, 0, group="more")[1], "their time is not over"
    bed.clock.advance(20_000_000)
    acquire(peer, 0, 1, group="more")
    bed.clock.advance(1_000_000_000)
    acquire(peer, 0, 1, group="another")
    assert "LEASE_LOST" in refused(peer, 1, group="own0")[1], "it was forgotten"
    (book,) = bed.broker.leases.books.values()
    assert {"named", "own1", "more", "another"} <= set(book.groups)
    assert {"own0", "own2"}.isdisjoint(book.groups)
    bed.settle()


def test_queues_of_two_virtual_hosts_have_leases_of_their_own() -> None:
    """`b` of the virtual host /a, and `a/b` of /."""
    bed = Bed(vhosts=("/", "/a"))
    peers = [bed.connect("one", vhost="/"), bed.connect("other", vhost="/a")]
    for peer, queue in zip(peers, ("a/b", "b"), strict=True):
        peer.call(1, m.QueueDeclare(queue), m.QueueDeclareOk)
        peer.publish(queue, queue.encode())
        acquire(peer, 0, 1, queue=queue)
    assert sorted(bed.broker.leases.books) == ["queue:/a%2Fb", "queue:/a/b"]
    bed.settle()


def test_a_range_in_chunks_has_the_same_messages_under_their_numbers() -> None:
    _, peer = prepared(5000)
    acquire(peer, 0, 5000)
    wanted = reading(40, 4990)
    wanted.arguments["x-penstock-format"] = "chunk"
    peer.say(2, wanted)
    bodies: list[bytes] = []
    for heard in peer.heard():
        if isinstance(heard.method, m.BasicDeliver):
            chunk = Chunk(heard.body, 0)
            assert chunk.first == 40 + len(bodies)
            bodies += [chunk.message(n, 1, 0, NO_CAUSE).body() for n in range(chunk.count)]
    assert [int(body) for body in bodies] == list(range(40, 4990))
    other = reading(40, 4990, "s")
    other.arguments["x-penstock-format"] = "rows"
    check(refusal(peer, other, 2), "x-penstock-format", "it takes 'chunk'")
