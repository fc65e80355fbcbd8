"""A small broker's flight, driven by hand: a publisher held by a queue whose consumer is slow."""

from penstock.telemetry.accounting import BlockLedger
from penstock.telemetry.events import ALARM_CLEARED, ALARM_SET, GATE_CLOSED, Event
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.record_file import Encoder, FlightRecord, RecordHeader, decode_record
from penstock.telemetry.snapshots import ActorSnapshot, Times
from tests.unit.explain.scene import S

WALL_NS = 1_700_000_000 * S
ADDRESS = "10.0.0.1:5000"


def flight(seconds: int) -> FlightHistory:
    """From second 20 on the publisher is held for half of each second; an alarm at 30..35."""
    history = FlightHistory()
    conn, queue = BlockLedger(0), BlockLedger(0)
    for second in range(1, seconds + 1):
        now_ns = second * S
        if second > 20:
            queue.close("consumers:/q", "depth", now_ns - S // 2)
            conn.close("queue:/q", "credit", now_ns - S // 2)
            conn.open("queue:/q", "credit", now_ns)
            queue.open("consumers:/q", "depth", now_ns)
        held_ns = conn.blocked_ns(now_ns)
        actors = [
            ActorSnapshot("node", "node", started_ns=0, times=Times(now_ns),
                          numbers={"used_bytes": 1e6, "limit_bytes": 2e6, "memory_bytes": 5e5}),
            ActorSnapshot(f"conn:{ADDRESS}", "conn", "flow",
                          times=Times(now_ns - held_ns, 0, held_ns),
                          blocked=conn.snapshot(now_ns), numbers={"published": 100.0 * second},
                          labels={"name": "web-7", "user": "shop", "peer": ADDRESS}),
            ActorSnapshot("queue:/q", "queue", times=Times(0, now_ns),
                          blocked=queue.snapshot(now_ns),
                          numbers={"ready": 50.0, "bytes": 5e5, "consumers": 1.0,
                                   f"sent:conn:{ADDRESS}": 100.0 * second}),
            ActorSnapshot("consumers:/q", "consumer", times=Times(waiting_ns=now_ns),
                          numbers={"consumers": 1.0, "prefetch": 20.0, "unacked": 20.0,
                                   "acked": 14.0 * second, "prefetch_full_share": 1.0},
                          labels={"queue": "queue:/q"}),
        ]  # fmt: skip
        if 30 <= second < 35:
            actors.append(ActorSnapshot("alarm:memory", "alarm", "set", taken_ns=now_ns))
        if second < 25:
            actors.append(ActorSnapshot("conn:short", "conn", times=Times(now_ns)))
        conn.begin_period()
        history.push(now_ns, {one.actor: one for one in actors})
    return history


EVENTS = [
    Event(7, 21 * S, GATE_CLOSED, f"conn:{ADDRESS}", "queue:/q", "credit", 0),
    Event(8, 30 * S, ALARM_SET, "alarm:memory", "", "2.0 of 1.9 GB", 0),
    Event(9, 35 * S, ALARM_CLEARED, "alarm:memory", "", "", 0),
]


def header(seconds: int, last_s: float = 600.0) -> RecordHeader:
    return RecordHeader(
        "vm", "b00t", WALL_NS, seconds * S, "0.1.0", "penstock", "memory alarm", last_s, 10, 7,
        {"port": 5672, "users": [{"name": "guest"}]}, {"memory.high": "40%"},
    )  # fmt: skip


def lines(seconds: int, last_s: float = 600.0) -> list[bytes]:
    encoder = Encoder(header(seconds, last_s), flight(seconds).copy(), EVENTS)
    return b"".join(encoder.pieces()).splitlines()


def record(seconds: int, last_s: float = 600.0) -> FlightRecord:
    return decode_record(lines(seconds, last_s))
