"""Records are compressed and bounded."""

import gzip

from penstock.server.recorder.service import compressed
from penstock.telemetry.events import Event
from penstock.telemetry.record_file import Encoder, decode_record
from tests.unit.explain.scene import S
from tests.unit.telemetry.records import flight, header


def noisy(count: int) -> Encoder:
    """Events whose names hardly shrink."""
    names = [f"conn:{hash((n, 'salt')):x}{hash((n, 'more')):x}" for n in range(count)]
    events = [
        Event(n, 50 * S + n, 0, name, "queue:/q", "credit", 0) for n, name in enumerate(names)
    ]
    return Encoder(header(60), flight(60), events)


def test_a_record_is_a_gzip_file() -> None:
    record = decode_record(gzip.decompress(compressed(noisy(100))).splitlines())
    assert len(record.events) == 100


def test_a_record_has_a_bound_and_is_whole_all_the_same() -> None:
    data = compressed(noisy(30_000), 1_048_576)
    assert len(data) <= 1_048_576
    record = decode_record(gzip.decompress(data).splitlines())
    assert 0 < len(record.events) < 30_000
    assert len(record.events) + record.left_out_events == 30_000
    assert dict(record.history.over(10)) == dict(flight(60).over(10))
