"""Files and stream of one broker tell the same, and telemetry about telemetry does not grow."""

import json
import platform
from pathlib import Path

from penstock.broker.admin.event_feed import PATIENCE_NS
from penstock.broker.stream.internal_stream import EVENT_STREAM
from penstock.protocol import methods as m
from penstock.server.recorder.event_writers import EventWriters
from penstock.spark.report.promises import moved
from penstock.telemetry.event_batch import decode_batch
from penstock.telemetry.trace import encode_events, encode_header
from tests.spark.oracle import queue_depth
from tests.spark.oracle_input import read_events
from tests.unit.broker.peer import Bed, Peer


def second(bed: Bed, writers: EventWriters) -> int:
    """One second of a running broker; how many events it has put on record."""
    before = bed.broker.recorder.next_seq
    bed.clock.advance(PATIENCE_NS)
    writers.sample()
    assert writers.feed is not None
    writers.feed.tick()
    bed.run()
    return bed.broker.recorder.next_seq - before


def reader(bed: Bed, prefetch: int) -> Peer:
    peer = bed.connect("reader")
    peer.call(1, m.BasicQos(0, prefetch, False), m.BasicQosOk)
    peer.say(1, m.BasicConsume(EVENT_STREAM, "tag", arguments={"x-stream-offset": "first"}))
    return peer


def test_what_it_says_of_itself_is_the_same_every_second() -> None:
    bed = Bed(event_stream="/")
    writers = EventWriters(bed.broker, "boot")
    counts = [second(bed, writers) for _ in range(20)]
    assert set(counts[2:]) == {2}
    peer = reader(bed, 3)
    # A reader that does not acknowledge is held once, and held it stays.
    counts = [second(bed, writers) for _ in range(20)]
    assert len(set(counts[5:])) == 1 and counts[-1] < 10
    assert len(peer.heard()) == 4
    bed.settle()


def test_without_either_nothing_is_sampled() -> None:
    writers = EventWriters(Bed().broker, "boot")
    assert (writers.file, writers.feed, writers.samples) == (None, None, None)
    writers.close()


def test_the_file_has_what_the_stream_has(tmp_path: Path) -> None:
    bed = Bed(event_stream="/", events_dir=str(tmp_path))
    writers = EventWriters(bed.broker, "boot")
    bed.connect("somebody")
    for _ in range(3):
        second(bed, writers)
    writers.close()
    bed.run()
    peer = reader(bed, 100)
    bodies = [one.body for one in peer.heard() if one.body]
    lines = b"".join(encode_events(decode_batch(body)[1]) for body in bodies)
    (file,) = tmp_path.glob("events-*.jsonl")
    header, _, written = file.read_bytes().partition(b"\n")
    assert len(bodies) > 1 and lines == written
    said, streamed = (
        json.loads(one) for one in (header, encode_header(decode_batch(bodies[0])[0]))
    )
    assert said.pop("facts")["python"] == platform.python_version()
    assert said == streamed


def test_messages_before_the_first_sample_and_after_the_last_are_counted(tmp_path: Path) -> None:
    """Of a queue that lives for less than a second, twice, and of one that stays."""
    bed = Bed(events_dir=str(tmp_path))
    writers = EventWriters(bed.broker, "boot")
    peer = bed.connect("client")
    sent = taken = 0
    for name, count in (("short", 3), ("stays", 5), ("short", 4)):
        bed.later(PATIENCE_NS // 10)
        peer.say(1, m.QueueDeclare(name))
        peer.publish(name, *[b"body"] * count)
        peer.say(1, m.BasicConsume(name, name, no_ack=True))
        bed.later(PATIENCE_NS // 10)
        taken += sum(one.body == b"body" for one in peer.heard())
        sent += count
        if name == "short":
            peer.say(1, m.QueueDelete(name))
        else:
            writers.sample()
    writers.close()
    depths = queue_depth(read_events(tmp_path).events)
    assert moved(depths) == (sent, taken) == (12, 12)
