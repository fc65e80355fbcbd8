"""The broker's own stream of flow events: whole, bounded, nobody's to change, holding nobody."""

from typing import Any

import pytest

from penstock.base.errors import OperatorError
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.admin.event_feed import EVENTS_PER_MESSAGE, PATIENCE_NS, EventFeed, open_feed
from penstock.broker.admin.view_store import stream_in_words
from penstock.broker.node.stream_registry import MemoryDisk
from penstock.broker.stream.internal_stream import EVENT_STREAM
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.storage.log.job import Job
from penstock.streams.reader_groups import LagBound
from penstock.telemetry.event_batch import decode_batch
from penstock.telemetry.events import ACTOR_UP, DROPPED, Event
from penstock.telemetry.trace import TraceHeader
from tests.unit.broker.peer import Bed, publish

SMALLEST = 1_000_000
HEADER = TraceHeader("node", "boot", 0, 0, "1")


def fed(**settings: int) -> tuple[Bed, EventFeed]:
    """A broker in memory with a feed, and what its beginning has put on record."""
    bed = Bed(event_stream="/", **dict[str, Any](settings))
    return bed, open_feed(bed.broker, HEADER)


def record(bed: Bed, count: int) -> None:
    for number in range(count):
        bed.broker.recorder.record(ACTOR_UP, f"queue:/{number}", "", "", 0)


def turn(bed: Bed, feed: EventFeed, wait_ns: int = 0) -> bool:
    bed.clock.advance(wait_ns)
    is_written = feed.tick()
    bed.run()
    return is_written


def drain(bed: Bed, feed: EventFeed) -> None:
    while turn(bed, feed, PATIENCE_NS):
        pass


def read(bed: Bed, offset: int = 0) -> list[bytes]:
    """Bodies of the messages that the stream has."""
    peer = bed.connect(f"reader {bed.broker.connection_count}")
    peer.call(1, m.BasicQos(0, 1000, False), m.BasicQosOk)
    peer.say(1, m.BasicConsume(EVENT_STREAM, "tag", arguments={"x-stream-offset": offset}))
    found = [one.body for one in peer.heard() if isinstance(one.method, m.BasicDeliver)]
    peer.hang_up()
    return found


def sequences(bodies: list[bytes]) -> list[int]:
    return [event.seq for event in events_of(bodies)]


def events_of(bodies: list[bytes]) -> list[Event]:
    return [event for body in bodies for event in decode_batch(body)[1]]


class Waiting(Disk):
    """A disk that does nothing until it is told."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Job, JobClient]] = []

    def submit(self, job: Job, client: JobClient) -> None:
        self.jobs.append((job, client))

    def work(self) -> None:
        jobs, self.jobs = self.jobs, []
        for job, client in jobs:
            job.run()
            client.job_done(job, None)


def test_every_event_is_in_the_stream_once_and_each_message_says_which_boot() -> None:
    bed, feed = fed()
    record(bed, 2 * EVENTS_PER_MESSAGE + 5)
    drain(bed, feed)
    bodies = read(bed)
    assert sequences(bodies) == list(range(len(sequences(bodies))))
    assert len(sequences(bodies)) >= 2 * EVENTS_PER_MESSAGE + 5
    assert {decode_batch(body)[0].boot_id for body in bodies} == {"boot"}
    drain(bed, feed)
    bed.settle()


def test_few_events_wait_for_more_and_many_do_not() -> None:
    bed, feed = fed()
    record(bed, 1)
    assert not turn(bed, feed)
    assert turn(bed, feed, PATIENCE_NS)
    record(bed, EVENTS_PER_MESSAGE)
    assert turn(bed, feed)
    assert not turn(bed, feed, PATIENCE_NS)


def test_a_slow_disk_costs_events_which_are_told_and_holds_nobody() -> None:
    bed, feed = fed(recorder_events=2000)
    store = feed.actor.store
    assert store is not None
    disk = store.disk = Waiting()
    record(bed, 1)
    assert turn(bed, feed, PATIENCE_NS)
    record(bed, 5000)
    assert not turn(bed, feed, PATIENCE_NS)
    assert len(disk.jobs) == 1
    publisher = bed.connect("publisher")
    publisher.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    publisher.publish("q", *[b"x"] * 1000)
    assert bed.actor("q").messages.ready_count() == 1000
    while disk.jobs:
        disk.work()
        bed.run()
        turn(bed, feed, PATIENCE_NS)
    store.disk = MemoryDisk()
    found = events_of(read(bed))
    lost = [one.amount for one in found if one.kind == DROPPED]
    assert lost == [feed.actor.lost_count] and feed.actor.lost_count > 3000
    assert stream_in_words(feed.actor)["lost"] == str(lost[0])
    told = len(found) - 1 + feed.actor.lost_count
    assert told == found[-1].seq + 1


def test_while_others_may_not_write_to_the_disk_neither_does_the_feed() -> None:
    bed, feed = fed()
    bed.broker.set_alarm("disk", "no room")
    record(bed, 3)
    assert not turn(bed, feed, PATIENCE_NS)
    bed.broker.clear_alarm("disk")
    assert turn(bed, feed, PATIENCE_NS)
    assert feed.actor.lost_count == 0


def test_its_own_work_records_nothing_about_itself() -> None:
    bed, feed = fed()
    drain(bed, feed)
    before = bed.broker.recorder.next_seq
    record(bed, 10 * EVENTS_PER_MESSAGE)
    drain(bed, feed)
    assert bed.broker.recorder.next_seq == before + 10 * EVENTS_PER_MESSAGE


def test_it_keeps_about_as_much_as_it_may() -> None:
    bed, feed = fed(event_stream_bytes=SMALLEST)
    for _ in range(40):
        record(bed, EVENTS_PER_MESSAGE)
        turn(bed, feed)
    log = feed.actor.counts.log
    assert log is not None and log.first() > 0
    assert SMALLEST * 7 // 10 < log.disk_bytes < SMALLEST * 13 // 10


def test_a_reader_group_pins_as_much_again_and_no_more() -> None:
    bed, feed = fed(event_stream_bytes=SMALLEST)
    groups, log = feed.actor.groups, feed.actor.counts.log
    assert groups is not None and log is not None
    groups.register("slow", LagBound(0, 0), 0)
    for _ in range(40):
        record(bed, EVENTS_PER_MESSAGE)
        turn(bed, feed)
    assert log.first() == 0 and log.disk_bytes < SMALLEST * 23 // 10
    count = log.count()
    groups.remove("slow")
    drain(bed, feed)
    assert log.committed > count
    newest = bed.broker.recorder.next_seq - 1
    assert sequences(read(bed, int(log.committed) - 1))[-1] == newest


def test_clients_only_read_it() -> None:
    bed, feed = fed()
    drain(bed, feed)
    where = f"internal queue '{EVENT_STREAM}' in vhost '/'"
    for said, words in (
        (publish(1, "", EVENT_STREAM, b"x"), f"cannot publish to {where}"),
        (method_frame(1, m.QueueBind(EVENT_STREAM, "amq.fanout")), f"cannot bind {where}"),
        (method_frame(1, m.QueuePurge(EVENT_STREAM)), f"purge of {where} not allowed"),
        (method_frame(1, m.QueueDelete(EVENT_STREAM)), f"deletion of {where} not allowed"),
    ):
        peer = bed.connect("thief")
        peer.send(said)
        closed = peer.one(m.ChannelClose)
        assert (closed.reply_code, closed.reply_text) == (403, f"ACCESS_REFUSED - {words}")
    peer = bed.connect("looker")
    looked = peer.call(1, m.QueueDeclare(EVENT_STREAM, passive=True), m.QueueDeclareOk)
    assert looked.message_count > 0
    asked = peer.call(1, m.RequestAsk("stream.offsets", {"queue": EVENT_STREAM}), m.RequestAskOk)
    assert asked.answer["id"] == feed.actor.stream_id != ""
    listed = peer.call(1, m.RequestAsk("queue.list", {"type": "stream"}), m.RequestAskOk)
    assert listed.answer["names"] == []


def test_nothing_is_dead_lettered_into_it() -> None:
    bed, feed = fed()
    drain(bed, feed)
    peer = bed.connect("peer")
    table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": EVENT_STREAM}
    peer.call(1, m.QueueDeclare("q", arguments={**table, "x-max-length": 1}), m.QueueDeclareOk)
    peer.publish("q", b"1", b"2", b"3")
    log = feed.actor.counts.log
    assert log is not None
    before = log.committed
    bed.run()
    assert log.committed == before


def test_what_is_left_of_an_earlier_life_may_be_deleted() -> None:
    bed, feed = fed()
    feed.actor.is_fed = False
    peer = bed.connect("peer")
    peer.call(1, m.QueueDelete(EVENT_STREAM), m.QueueDeleteOk)
    assert EVENT_STREAM not in bed.broker.vhosts["/"].queues
    assert not turn(bed, feed, PATIENCE_NS)
    assert bed.broker.vhosts["/"].counted_queues() == 0


def test_two_streams_of_that_name_have_different_ids() -> None:
    bed, feed = fed()
    peer = bed.connect("peer")
    feed.actor.is_fed = False
    peer.call(1, m.QueueDelete(EVENT_STREAM), m.QueueDeleteOk)
    again = open_feed(bed.broker, HEADER)
    assert again.actor.stream_id != feed.actor.stream_id


def test_settings_that_cannot_be() -> None:
    with pytest.raises(OperatorError, match="no such virtual host; one of: /"):
        open_feed(Bed(event_stream="nowhere").broker, HEADER)
    with pytest.raises(OperatorError, match="recorder_events is 0"):
        open_feed(Bed(event_stream="/", recorder_events=0).broker, HEADER)
