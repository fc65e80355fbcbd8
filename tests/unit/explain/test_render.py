"""The answer on a terminal, as transcripts."""

import pytest

from penstock.explain.explain import explain
from penstock.explain.explanation import OUTSTANDING, THROTTLED, ActorShare, Explanation, RootCause
from penstock.explain.naming import Names
from penstock.explain.render import clock_time, event_line, render
from penstock.telemetry import events as kinds
from penstock.telemetry.events import KIND_NAMES, CountSample, Event, TimeSample
from tests.unit.explain.scene import S, actor, held, scene, slow_disk

SLOW_DISK = """\
web-7 (10.0.5.31:51544, user shop, pika 1.4.4) was blocked 61 % of the last 10 s\
  (6.1 s; 183 stops, longest 150 ms)

 because   web-7           waits for credit from   web-7/1           6.0 s
 because   web-7/1         waits for credit from   queue /orders     5.9 s   400 of 400 used
 because   queue /orders   waits for credit from   store /           5.8 s   4000 of 4000 used
 because   store /         waits for the disk   ◀ root cause, 95 % of the blocked time (5.8 s)
                           one sync 8.1 ms, busy 3 %, waiting 96 %
 other     the memory alarm 150 ms (2 %) · cpu at queue /orders 100 ms (2 %) · \
cpu at web-7/1 50 ms (<1 %)

 same cause hits   etl 22 %
 not affected      1 connection
 who loads queue /orders   web-7 54 %, import 44 %, x 2 %   (messages outstanding)

 try       let more messages share one sync, publish with confirms in batches: one takes 8.1 ms
 try       put the data of store / on a faster disk; more credit will not help, the disk is the \
limit"""


def test_a_slow_disk() -> None:
    assert render(explain("connection", "web-7", slow_disk(), 0)) == SLOW_DISK


def test_an_alarm_that_holds_now() -> None:
    windows = scene(
        actor("conn:a", (0, 0, 10_000, 0), held("alarm:memory", 10_000, "memory"), since_ns=0)
    )
    assert render(explain("connection", "a", windows, 82 * S)) == (
        "a was blocked 100 % of the last 10 s  (10.0 s; 1 stop, longest 10.0 s; "
        "held now for 82.0 s)\n\n"
        " because   a                  is stopped by   the memory alarm    10.0 s\n"
        " because   the memory alarm   is set   ◀ root cause, 100 % of the blocked time (10.0 s)"
    )


def test_a_free_actor_is_one_sentence_with_its_labels_below() -> None:
    windows = scene(actor("conn:a", rates={"published": 12}, labels={"user": "shop"}))
    assert render(explain("connection", "a", windows, 0)) == (
        "a is not blocked: idle 100 %, it simply sends 12/s\n (user shop)"
    )


def test_a_name_cannot_move_the_cursor() -> None:
    windows = scene(actor("conn:a\x1b[2J", labels={"user": "\x07bell"}))
    text = render(explain("connection", "a\x1b[2J", windows, 0))
    assert text == "a?[2J is not blocked: idle 100 %\n (user ?bell)"


def test_many_causes_are_summed_up() -> None:
    causes = [RootCause(f"queue:/q{n}", "cpu", "", S, 0.125, ("conn:a",)) for n in range(8)]
    text = render(Explanation("conn:a", "", THROTTLED, 10, "", 0.8, 8 * S, causes=tuple(causes)))
    assert text.splitlines()[-1] == (
        " other     cpu at queue /q1 1.0 s (12 %) · cpu at queue /q2 1.0 s (12 %) · "
        "cpu at queue /q3 1.0 s (12 %) · cpu at queue /q4 1.0 s (12 %) · 3 more 3.0 s (38 %)"
    )


def test_more_victims_and_owners_than_are_shown() -> None:
    answer = Explanation(
        "conn:a",
        "",
        THROTTLED,
        10,
        "",
        victims=(ActorShare("conn:b", 0.5),),
        victims_more=3,
        unaffected=38,
        loaded="queue:/q",
        owners=(ActorShare("conn:a", 0.9),),
        owned=OUTSTANDING,
        shared=(ActorShare("chan:a/2", 0.4),),
    )
    assert render(answer).splitlines()[2:] == [
        "",
        " same cause hits   b 50 % and 3 more",
        " not affected      38 connections",
        " suffers with it   a/2 40 %   (same socket, not held)",
        " who loads queue /q   a 90 %, others 10 %   (messages outstanding)",
    ]


def test_every_label_has_words() -> None:
    words = "cpu consumer disk socket credit debt rate flow waiting circle"
    for reason in words.split():
        cause = RootCause("queue:/q", reason, "", S, 1.0, ("conn:a",))
        text = render(Explanation("conn:a", "", THROTTLED, 10, "", causes=(cause,)))
        assert "holds it back" not in text
    slow = RootCause("consumer:c@conn:b", "consumer", "", S, 1.0, ("conn:a",))
    assert "acks too slowly" in render(Explanation("conn:a", "", THROTTLED, 10, "", causes=(slow,)))
    odd = RootCause("queue:/q", "pending", "", S, 1.0, ("conn:a",))
    assert "holds it back (pending)" in render(
        Explanation("conn:a", "", THROTTLED, 10, "", causes=(odd,))
    )


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
