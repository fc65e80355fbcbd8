"""What reader groups keep in a stream is in the ledger, under its publisher."""

from penstock.base.steps import whole
from penstock.broker.admin.answers import AccountRow
from penstock.broker.admin.flow_ledger import (
    accounts,
    kept_in,
    ledger_rows,
)
from penstock.broker.admin.paging import Pager
from penstock.broker.admin.queue_causes import queue_causes
from penstock.explain.naming import Names
from tests.owed import owed_rows
from tests.unit.broker.peer import Bed, Peer
from tests.unit.broker.stream.test_stream_groups import ask
from tests.unit.broker.stream.test_streams import made, stream


def row(bed: Bed, name: str) -> AccountRow:
    (found,) = [one for one in ledger_rows(bed.broker) if one.name == name]
    return found


def name_of(peer: Peer) -> str:
    return peer.connection.account.name


def test_everybody_has_what_he_published_until_the_group_has_passed_it() -> None:
    bed = Bed()
    one = made(bed)
    other = bed.connect("other", channels=2)
    one.publish("s", b"from before there was a group")
    ask(one, "stream.group.register", group="etl", offset=0)
    one.publish("s", *(bytes(100) for _ in range(20)))
    other.publish("s", *(bytes(1000) for _ in range(5)))
    bed.run()
    mine, theirs = row(bed, name_of(one)), row(bed, name_of(other))
    assert (mine.kept_messages, theirs.kept_messages) == (20, 5)
    assert 2000 < mine.kept_bytes < 5000 < theirs.kept_bytes < 6000
    assert row(bed, "user:guest@/").kept_messages == 25
    assert row(bed, "vhost:/").kept_messages == row(bed, "node").kept_messages == 26
    shown = whole(accounts(bed.broker, "", "size", Names({}), Pager(1))).accounts
    assert shown[-1].kept_messages == 5, "the biggest"
    owed = [one for one in owed_rows(bed.broker) if one.kind == "kept"]
    assert {(one.place, one.origin, one.messages) for one in owed} == {
        ("group:etl@/s", name_of(one), 20),
        ("group:etl@/s", name_of(other), 5),
        ("group:etl@/s", "vhost:/", 1),
    }
    causes = whole(queue_causes(bed.broker, "s", "size", Names({}), Pager(9)))
    assert {one.account: one.kept for one in causes.rows} == {
        name_of(one): 20, name_of(other): 5, "vhost:/": 1
    }  # fmt: skip
    ask(one, "stream.group.advance", group="etl", offset=21)
    assert row(bed, "node").kept_messages == row(bed, "user:guest@/").kept_messages == 5
    assert row(bed, name_of(one)).kept_messages == 4, "in proportion, within one span of offsets"
    ask(one, "stream.group.advance", group="etl", offset=26)
    assert row(bed, "node").kept_messages == 0 and kept_in(stream(bed)) == {}
    bed.settle()


def test_the_one_that_is_furthest_behind_counts_and_nobody_twice() -> None:
    bed = Bed()
    peer = made(bed)
    for group in ("a", "b"):
        ask(peer, "stream.group.register", group=group)
    peer.publish("s", *(bytes(100) for _ in range(10)))
    bed.run()
    ask(peer, "stream.group.advance", group="a", offset=10)
    assert row(bed, name_of(peer)).kept_messages == 10
    ask(peer, "stream.group.remove", group="b")
    assert row(bed, name_of(peer)).kept_messages == 0
    ask(peer, "stream.group.remove", group="a")
    log = stream(bed).counts.log
    assert log is not None and log.origins is None, "without groups nobody counts"


def test_of_a_publisher_who_has_gone_it_is_his_users() -> None:
    bed = Bed()
    peer = made(bed)
    ask(peer, "stream.group.register", group="etl")
    gone = bed.connect("gone")
    gone.publish("s", *(bytes(100) for _ in range(10)))
    bed.run()
    gone.hang_up()
    assert name_of(gone) not in [one.name for one in ledger_rows(bed.broker)]
    assert row(bed, "user:guest@/").kept_messages == 10
    (cause,) = whole(queue_causes(bed.broker, "s", "size", Names({}), Pager(9))).rows
    assert (cause.account, cause.kept, cause.share) == ("user:guest@/", 10, 1.0)
