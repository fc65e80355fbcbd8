"""Events as lines for people."""

import pytest

from penstock.explain.naming import Names
from penstock.explain.render import clock_time, event_line
from penstock.telemetry import events as kinds
from penstock.telemetry.events import KIND_NAMES, CountSample, Event, TimeSample
from tests.unit.explain.scene import S, actor, scene

NAMES = Names(scene(actor("conn:1.1.1.1:1", labels={"name": "web-7"})))


def line(kind: int, who: str, peer: str = "", reason: str = "", amount: int = 0) -> str:
    return event_line(Event(0, 0, kind, who, peer, reason, amount), 61 * S + 5_000_000, NAMES)


@pytest.mark.parametrize(
    ("kind", "who", "peer", "reason", "amount", "text"),
    [
        (kinds.GATE_CLOSED, "chan:1.1.1.1:1/1", "queue:/q", "credit", 0,
         "web-7/1                      stops: waits for credit from queue /q"),
        (kinds.GATE_OPENED, "conn:1.1.1.1:1", "alarm:memory", "alarm", 94_000_000,
         "web-7                        goes on after 94 ms: the memory alarm (alarm)"),
        (kinds.GRANT_DEFERRED, "queue:/q", "chan:1.1.1.1:1/1", "", 200,
         "queue /q                     keeps credit for 200 messages back from web-7/1"),
        (kinds.ALARM_SET, "alarm:memory", "", "used up", 0,
         "the memory alarm             is set: used up"),
        (kinds.ALARM_CLEARED, "alarm:memory", "", "", 0, "the memory alarm             is over"),
        (kinds.ESCAPE, "chan:a/1", "queue:/q", "", 1,
         "a/1                          forces 1 publish at queue /q"),
        (kinds.PARKED, "chan:a/1", "", "", 2, "a/1                          parks 2 publishes"),
        (kinds.ACTOR_UP, "conn:a\x1b", "", "", 0, "a?                           is up"),
        (kinds.DROPPED, "", "", "", 1200,
         "                             1 200 events were dropped, because the ring was full"),
    ],
)  # fmt: skip
def test_a_line(kind: int, who: str, peer: str, reason: str, amount: int, text: str) -> None:
    assert line(kind, who, peer, reason, amount) == f"00:01:01.005  {text}"


def test_samples() -> None:
    times = event_line(TimeSample(0, 0, "conn:a", S, 0, 2 * S, 0), 0, NAMES)
    assert times.endswith("1.0 s idle, 0 s busy, 2.0 s blocked, 0 s waiting")
    counts = CountSample(0, 0, kinds.QUEUE_SAMPLE, "queue:/q", 1, 2, 3, 4, 5, 6, 7)
    assert event_line(counts, 0, NAMES).endswith("1 ready, 2 unacked, 4 published, 6 acked")


def test_every_kind_has_a_line_of_its_own() -> None:
    for kind in range(len(KIND_NAMES)):
        assert line(kind, "conn:a", "conn:b", "credit", 1).count("\n") == 0


def test_times_are_utc() -> None:
    assert clock_time(1_700_000_000_123_456_789) == "22:13:20.123"
