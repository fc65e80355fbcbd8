"""Lines beside an answer: what a queue gave up, a channel that mixes queues, noisy neighbours."""

from dataclasses import replace

import pytest

from penstock.base.steps import whole
from penstock.explain.explain import explain
from penstock.explain.explanation import OUTSTANDING, SENT_EVER, SENT_NOW, ActorShare, RootCause
from penstock.explain.remarks import (
    CONFIRMS,
    about_mixture,
    consumers_on,
    loads,
    mixture_on,
    notes_on,
    sharing,
    unmix,
    waiting,
)
from penstock.explain.render import render
from penstock.explain.window_index import indexed
from penstock.telemetry.actor_window import (
    PARKED,
    PARKED_BYTES,
    PARKED_DISK,
    PARKED_FAULT,
    PARKED_MAX,
    PARKED_NS,
    PARKED_ROOM,
    ActorWindow,
)
from tests.unit.explain.scene import actor, held, scene

STALLED = RootCause(
    "consumers:/slow", "consumer", "", 10, 1.0, ("conn:a", "chan:a/1", "queue:/slow")
)


def mixing(
    labels: dict[str, str],
    queues: tuple[str, ...] = ("slow", "fast"),
    routed: float = 800,
    sent: float = 400,
) -> dict[str, ActorWindow]:
    """Connection a with one channel that publishes to `queues`, the first of which holds it."""
    credit = {f"credit_initial:queue:/{name}": 400.0 for name in queues}
    return scene(
        actor("conn:a", (0, 0, 9, 0), held("chan:a/1", 9), numbers={"routed": routed}),
        actor("chan:a/1", (0, 0, 9, 0), held("queue:/slow", 9), numbers=credit, labels=labels),
        *(actor(f"queue:/{name}", numbers={"sent:conn:a": sent}) for name in queues),
    )


def test_who_publishes_to_a_stopped_queue_and_a_running_one_is_told_to_part_them() -> None:
    found = mixture_on(STALLED, mixing({}))
    assert found is not None
    assert (found.channel.actor, found.holders, found.others) == (
        "chan:a/1", ("queue:/slow",), ("queue:/fast",),
    )  # fmt: skip
    assert about_mixture(found) == (
        "a/1 publishes to queue /fast too: behind a publish that queue /slow does not take, and "
        "for which there is no place, all wait"
    )


@pytest.mark.parametrize(
    ("labels", "most", "end"),
    [
        (
            {},
            50e6,
            ", or keep fewer than 50.0 MB unconfirmed (confirm.select), or raise parked_bytes",
        ),
        (
            {CONFIRMS: "yes"},
            50e6,
            ", or keep fewer than 50.0 MB unconfirmed, or raise parked_bytes",
        ),
        ({CONFIRMS: "yes"}, 0.0, ""),
    ],
)
def test_what_helps_depends_on_parking_and_confirms(
    labels: dict[str, str], most: float, end: str
) -> None:
    windows = mixing(labels)
    windows["chan:a/1"].numbers[PARKED_MAX] = most
    found = mixture_on(STALLED, windows)
    assert found is not None
    first = "publish to queue /slow over a channel, better a connection, of its own"
    assert unmix(found) == first + end


def test_a_channel_of_one_queue_mixes_nothing() -> None:
    assert mixture_on(STALLED, mixing({}, queues=("slow",))) is None


def test_copies_of_the_same_publishes_cannot_be_parted() -> None:
    assert mixture_on(STALLED, mixing({}, routed=400, sent=400)) is None


def test_a_channel_that_nobody_holds_mixes_nothing() -> None:
    windows = mixing({})
    windows["chan:a/1"] = actor("chan:a/1", numbers=windows["chan:a/1"].numbers)
    assert mixture_on(STALLED, windows) is None


def test_many_queues_are_counted() -> None:
    found = mixture_on(STALLED, mixing({}, ("slow", "b", "c", "d", "e", "f")))
    assert found is not None
    assert "queue /b, queue /c, queue /d and 2 more" in about_mixture(found)


def test_the_answer_has_the_note_and_the_advice_first() -> None:
    text = render(explain("channel", "a/1", mixing({}), 0))
    assert "\n note      a/1 publishes to queue /fast too" in text
    assert text.index("try       publish to queue /slow over a channel") == text.index("try ")


def test_drops_are_named_by_reason_the_present_ones_first() -> None:
    window = actor(
        "queue:/q",
        numbers={"dropped:expired": 1200, "dropped:maxlen": 40, "dead_letter_dropped:no route": 3},
        rates={"dropped:maxlen": 4.0},
    )
    assert notes_on(window) == (
        "gave up messages: 4.0/s over its limit (40 in all), 1 200 expired",
        "lost dead letters: 3 no route",
    )


def test_a_queue_that_gave_up_nothing_has_no_note() -> None:
    assert notes_on(actor("queue:/q", numbers={"ready": 5, "dropped:expired": 0})) == ()
    assert notes_on(actor("conn:a", labels={"paused": "yes"})) == ()


def test_why_queue_tells_of_drops_and_a_pause_although_nothing_is_blocked() -> None:
    windows = scene(
        actor("queue:/q", numbers={"dropped:refused": 7}, labels={"paused": "yes"}),
    )
    assert render(explain("queue", "/q", windows, 0)).splitlines() == [
        "queue /q is not blocked: busy 0 %",
        " note      queue /q is paused: consumers are given nothing (penstock queues resume /q)",
        " note      queue /q gave up messages: 7 refused to publishers",
    ]


WHY = (
    "queue /full was blocked 100 % of the last 10 s, 100 % of that by the consumers of queue "
    "/full (no consumer)"
)


def parked(count: float = 50, blocked_ms: int = 10_000, now: int | None = 1) -> ActorWindow:
    """A full queue with `count` publishes of web-50 in its mailbox."""
    hold = held("consumers:/full", blocked_ms, "full")
    times = (10_000 - blocked_ms, 0, blocked_ms, 0)
    return actor("queue:/full", times, hold, numbers={"debt:conn:web-50": count}, since_ns=now)


def publisher(confirms: bool, sent: float = 50) -> tuple[ActorWindow, ActorWindow]:
    credit = {"credit_initial:queue:/full": 400.0, "credit_now:queue:/full": 400.0 - sent}
    labels = {CONFIRMS: "yes"} if confirms else {}
    return actor("conn:web-50"), actor("chan:web-50/1", numbers=credit, labels=labels)


@pytest.mark.parametrize(
    ("kind", "name", "who"),
    [
        ("publish", "", "web-50"),
        ("not", "", "web-50"),
        ("connection", "web-50", "web-50"),
        ("channel", "web-50/1", "web-50/1"),
    ],
)
def test_a_publisher_that_waits_for_confirms_is_told_where(kind: str, name: str, who: str) -> None:
    # Credit for what the queue took before is withheld, and no message stands for it.
    windows = scene(*publisher(confirms=True, sent=150), actor("conn:idle"), parked())
    answer = explain(kind, name, windows, 0)
    begin = f"{who} is not blocked, but 50 publishes wait unconfirmed at queue /full: "
    assert answer.text == begin + WHY
    assert answer.exit_status() == 0


def test_without_confirms_they_just_wait() -> None:
    windows = scene(*publisher(confirms=False, sent=1), parked(1))
    answer = explain("publish", "", windows, 0)
    assert answer.text == f"web-50 is not blocked, but 1 publish waits at queue /full: {WHY}"


def test_who_is_blocked_comes_before_who_waits() -> None:
    blocked = actor("conn:b", (5_000, 0, 5_000, 0), held("queue:/full", 5_000))
    windows = scene(*publisher(confirms=True), blocked, parked())
    assert explain("publish", "", windows, 0).subject == "conn:b"


@pytest.mark.parametrize("queue", [parked(0), parked(50, 4_000), parked(50, 10_000, None)])
def test_an_empty_mailbox_or_a_queue_that_goes_on_is_no_wait(queue: ActorWindow) -> None:
    windows = scene(*publisher(confirms=True, sent=0), queue)
    assert explain("publish", "", windows, 0).text == "nothing is blocked: no client publishes"
    assert explain("channel", "web-50/1", windows, 0).text.startswith("web-50/1 is not blocked:")


@pytest.mark.parametrize(("blocked_ms", "is_told"), [(6_000, True), (4_000, False)])
def test_a_queue_that_stops_between_batches_is_told_while_it_takes_something(
    blocked_ms: int, is_told: bool
) -> None:
    shop = actor("conn:shop", rates={"published": 100.0})
    innocent = actor("conn:innocent", rates={"published": 900.0})
    answer = explain("publish", "", scene(shop, innocent, parked(1, blocked_ms, None)), 0)
    detail = (
        ", but who waits for confirms of queue /full waits with it: queue /full was blocked 60 % "
        "of the last 10 s, 100 % of that by the consumers of queue /full (no consumer)"
        if is_told
        else "; innocent is not blocked: idle 100 %, it simply sends 900/s"
    )
    assert answer.text == f"nothing is blocking any of 2 publishers{detail}"
    assert answer.exit_status() == 0


def test_what_waits_in_the_publishers_own_channel_counts_too() -> None:
    credit = {"credit_initial:chan:web-50/1": 400.0, "credit_now:chan:web-50/1": 295.0}
    sender = actor("conn:web-50", numbers={"debt_messages": 19.0, **credit})
    hold = held("queue:/full", 10_000)
    channel = actor("chan:web-50/1", (0, 0, 10_000, 0), hold, labels={CONFIRMS: "yes"}, since_ns=1)
    for kind, name in (("publish", ""), ("connection", "web-50")):
        text = explain(kind, name, scene(sender, channel, parked(0)), 0).text
        assert text.startswith(
            "web-50 is not blocked, but 19 publishes wait unconfirmed at web-50/1: "
            "web-50/1 was blocked 100 % of the last 10 s, 100 % of that by the consumers of"
        )


def test_another_connections_channel_is_none_of_ones_business() -> None:
    other = actor("chan:other/1", (0, 0, 10_000, 0), held("queue:/full", 10_000), since_ns=1)
    sender = actor("conn:web-50", numbers={"debt_messages": 19.0})
    text = explain("connection", "web-50", scene(sender, other, parked(0)), 0).text
    assert text.startswith("web-50 is not blocked:")


CAUSE = RootCause("consumers:/q", "consumer", "", 1, 1.0, ("conn:a", "queue:/q", "consumers:/q"))


def test_outstanding_work_comes_first_then_what_came_in() -> None:
    sent = {"sent:conn:a": 10.0, "sent:conn:b": 30.0}
    for numbers, rates, owned, first in (
        (
            {"debt:conn:a": 5.0, **sent},
            {"sent:conn:b": 1.0},
            OUTSTANDING,
            ActorShare("conn:a", 1.0),
        ),
        (sent, {"sent:conn:a": 2.0}, SENT_NOW, ActorShare("conn:a", 1.0)),
        (sent, {"sent:conn:a": 0.0}, SENT_EVER, ActorShare("conn:b", 0.75)),
    ):
        found = loads(CAUSE, scene(actor("queue:/q", numbers=numbers, rates=rates)))
        assert (found[0], found[1][0], found[2]) == ("queue:/q", first, owned)
    assert loads(CAUSE, {}) == ("", (), "")


def test_a_channel_suffers_for_the_socket_it_shares() -> None:
    """U11: etl/2 publishes to a healthy queue, over the connection that etl/1 stops."""
    windows = scene(
        actor("conn:etl", (2_000, 0, 8_000, 0), held("chan:etl/1", 8_000)),
        actor(
            "chan:etl/1", (0, 0, 9_000, 1_000), held("queue:/q", 9_000), numbers={"published": 9}
        ),
        actor("chan:etl/2", numbers={"published": 3}),
        actor("chan:etl/3", numbers={"published": 0}),
        actor("queue:/q", (0, 10_000, 0, 0)),
    )
    assert sharing("conn:etl", windows) == (ActorShare("chan:etl/2", 0.8),)
    assert sharing("queue:/q", windows) == sharing("conn:gone", windows) == ()
    answer = explain("connection", "etl", windows, 0)
    assert answer.suggestions[-1] == (
        "give etl/2 a connection of its own: nothing but the shared socket held it, for 80 % of "
        "the time"
    )


def test_publishing_and_consuming_over_one_connection_is_advised_against() -> None:
    windows = scene(
        actor("conn:a", (2_000, 0, 8_000, 0), held("queue:/q", 8_000)),
        actor("queue:/q", (0, 10_000, 0, 0)),
        actor("consumer:c@conn:a"),
        actor("consumer:c@conn:b"),
    )
    assert consumers_on("conn:a", windows) == ["consumer:c@conn:a"]
    assert "the acks of consumer c@a wait" in explain("connection", "a", windows, 0).suggestions[-1]


PARKING: dict[str, float] = {
    f"{PARKED}queue:/slow": 4000.0,
    f"{PARKED_BYTES}queue:/slow": 30e6,
    f"{PARKED_NS}queue:/slow": 12e9,
    f"{PARKED}queue:/late": 1.0,
    f"{PARKED_BYTES}queue:/late": 1000.0,
    f"{PARKED_NS}queue:/late": 2e9,
    PARKED_ROOM: 20e6,
    PARKED_MAX: 50e6,
}


@pytest.mark.parametrize(
    ("room", "grown", "end"),
    [
        (20e6, 2e6, "; full in 10.0 s at this pace"),
        (20e6, 0.0, ""),
        (20e6, -1e6, ""),
        (0.5e6, 1e6, "; there is no room for more"),
    ],
)
def test_what_is_parked_is_told_with_its_age_and_when_there_is_no_more_room(
    room: float, grown: float, end: str
) -> None:
    window = actor("chan:a/1", numbers={**PARKING, PARKED_ROOM: room})
    window.rates[f"{PARKED_BYTES}queue:/slow"] = grown
    assert notes_on(window) == (
        "has 4 000 publishes (30.0 MB) parked for queue /slow since 12.0 s",
        f"has 1 publish (1.0 kB) parked for queue /late since 2.0 s{end}",
    )
    assert notes_on(actor("chan:a/2")) == ()


def test_what_is_parked_on_the_disk_is_told_apart_and_why_the_disk_takes_none() -> None:
    numbers = {**PARKING, f"{PARKED_DISK}queue:/slow": 28e6}
    window = replace(
        actor("chan:a/1", numbers=numbers), labels={PARKED_FAULT: "No space left on device"}
    )
    assert notes_on(window) == (
        "has 4 000 publishes (2.0 MB in memory, 28.0 MB on disk) parked for queue /slow since "
        "12.0 s",
        "has 1 publish (1.0 kB) parked for queue /late since 2.0 s",
        "parks in memory only, because the disk takes nothing: No space left on device",
    )


def test_what_is_parked_waits_where_its_queue_is_stopped() -> None:
    windows = scene(
        actor("conn:a", numbers=PARKING),
        actor("queue:/slow", (0, 0, 9, 0), held("store:/", 9), numbers={"debt:conn:a": 400.0},
              since_ns=1),
    )  # fmt: skip
    found = whole(waiting(windows["conn:a"], indexed(windows)))
    assert found == (4400.0, "queue:/slow")
