"""The answer to "why": verdict, chain, causes, victims, owners, for people and for programs."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.explain.blame import Stay, Step
from penstock.explain.causes import with_limit
from penstock.explain.explain import SUGGESTIONS_MAX, explain
from penstock.explain.explanation import FREE, THROTTLED, UNKNOWN, ActorShare, ChainStep
from penstock.explain.render import render
from tests.unit.explain.scene import MS, S, actor, held, scene, slow_consumer, slow_disk


def test_a_slow_disk_behind_a_connection() -> None:
    answer = explain("connection", "web-7", slow_disk(), 0)
    assert (answer.state, answer.exit_status()) == (THROTTLED, 3)
    assert answer.about == "10.0.5.31:51544, user shop, pika 1.4.4"
    assert (answer.blocked_share, answer.blocked_ns, answer.stops) == (0.61, 6_100 * MS, 183)
    assert answer.text == (
        "web-7 was blocked 61 % of the last 10 s, 95 % of that by disk at store / "
        "(one sync 8.1 ms, busy 3 %, waiting 96 %)"
    )
    assert answer.chain == (
        ChainStep("conn:web-7", "chan:web-7/1", "credit", 5_950 * MS, ""),
        ChainStep("chan:web-7/1", "queue:/orders", "credit", 5_900 * MS, "400 of 400 used"),
        ChainStep("queue:/orders", "store:/", "credit", 5_800 * MS, "4000 of 4000 used"),
    )
    assert [(cause.root, cause.reason) for cause in answer.causes] == [
        ("store:/", "disk"),
        ("alarm:memory", "alarm:memory"),
        ("queue:/orders", "cpu"),
        ("chan:web-7/1", "cpu"),
    ]
    assert answer.causes[0].path == ("conn:web-7", "chan:web-7/1", "queue:/orders", "store:/")
    assert answer.victims == (ActorShare("conn:etl", 0.22),)
    assert (answer.victims_more, answer.unaffected) == (0, 1)
    assert answer.loaded == "queue:/orders"
    assert answer.owners == (
        ActorShare("conn:web-7", 0.54),
        ActorShare("conn:import", 0.44),
        ActorShare("conn:x", 0.02),
    )


def test_what_a_client_calls_itself_makes_no_line() -> None:
    evil = {"name": "x\n because   y", "client": "lib\x1b[2J\n try       rm", "peer": "10.0.0.1:5"}
    scenery = scene(actor("conn:10.0.0.1:5", (9_800, 200, 0, 0), labels=evil))
    answer = explain("connection", "10.0.0.1:5", scenery, 0)
    assert answer.about == "x? because   y, lib?[2J? try       rm"
    assert [line[:9] for line in render(answer).splitlines()] == ["10.0.0.1:", " (x? beca"]


def test_the_worst_publisher_is_the_most_blocked_one() -> None:
    windows = slow_disk()
    assert explain("publish", "", windows, 0) == explain("connection", "web-7", windows, 0)
    assert explain("not", "", windows, 0) == explain("connection", "web-7", windows, 0)


@pytest.mark.parametrize("kind", ["publish", "not"])
def test_nothing_is_blocked(kind: str) -> None:
    windows = scene(
        actor("conn:web-9", (9_800, 200, 0, 0), rates={"published": 12}),
        actor("conn:reader", (9_000, 1_000, 0, 0), rates={"delivered": 9}),
    )
    answer = explain(kind, "", windows, 0)
    assert (answer.state, answer.exit_status()) == (FREE, 0)
    assert answer.text == (
        "nothing is blocking the publisher; web-9 is not blocked: idle 98 %, it simply sends 12/s"
    )
    assert explain(kind, "", {}, 0).text == "nothing is blocked: no client publishes"
    alarms = scene(actor("alarm:disk"))
    assert explain(kind, "", alarms, 0).text.endswith("no client publishes; the disk alarm is set")
    alarms |= scene(actor("alarm:memory"))
    both = "; the disk alarm and the memory alarm are set"
    assert explain(kind, "", alarms, 0).text.endswith(both)


def test_a_slow_consumer_behind_a_queue() -> None:
    answer = explain("connection", "pub", slow_consumer(), 0)
    assert [(cause.root, cause.reason) for cause in answer.causes] == [
        ("queue:/events", "consumer")
    ]
    assert answer.causes[0].detail == (
        "prefetch window of its consumer full 92 % of the time: 1.9k/s acked; 402 000 ready"
    )


def test_a_consumer_whose_window_is_full() -> None:
    answer = explain("consumer", "spark", slow_consumer(), 0)
    assert (answer.state, answer.blocked_share) == (THROTTLED, 0.92)
    assert sum(cause.ns for cause in answer.causes) == answer.blocked_ns
    assert answer.text == (
        "consumer spark@sp could be given nothing 92 % of the last 10 s: prefetch window full "
        "92 %: an ack comes 1.4 s after its delivery; 20 in flight ÷ 1.4 s = 14/s"
    )


def test_a_consumer_at_ease() -> None:
    windows = scene(
        actor("consumer:w@conn:a", numbers={"unacked": 3, "prefetch": 20}, rates={"acked": 220})
    )
    answer = explain("consumer", "w", windows, 0)
    assert answer.state == FREE
    assert answer.text == "consumer w@a is not blocked: it acks 220/s, 3 in flight"


def test_below_five_percent_nobody_is_throttled() -> None:
    windows = scene(actor("conn:a", (9_300, 300, 400, 0), held("queue:/q", 400)), actor("queue:/q"))
    answer = explain("connection", "a", windows, 0)
    assert (answer.state, answer.exit_status()) == (FREE, 0)
    assert answer.text == "a was blocked 4 %, below 5 %: busy 3 %"
    assert sum(cause.ns for cause in answer.causes) == answer.blocked_ns


def test_a_free_queue_says_what_its_consumers_do() -> None:
    assert explain("queue", "/events", slow_consumer(), 0).text == (
        "queue /events is not blocked, it is what others wait for: consumer at queue /events "
        "(prefetch window of its consumer full 92 % of the time: 1.9k/s acked; 402 000 ready)"
    )


def test_a_store_that_holds_others_is_not_called_free() -> None:
    answer = explain("store", "/", slow_disk(), 0)
    assert answer.text == (
        "store / is not blocked, it is what others wait for: disk at store / "
        "(one sync 8.1 ms, busy 3 %, waiting 96 %)"
    )
    assert answer.exit_status() == 0
    assert answer.behind is not None
    assert (answer.behind.root, answer.behind.reason) == ("store:/", "disk")
    assert [part.name for part in answer.victims] == ["conn:web-7", "conn:etl"]
    assert "faster disk" in answer.suggestions[1]
    assert " it holds          web-7 58 %, etl 22 %" in render(answer)


def test_a_store_that_holds_nobody_for_long_is_at_ease() -> None:
    windows = {**slow_disk()}
    del windows["conn:web-7"]
    windows["conn:etl"] = actor("conn:etl", (9_800, 0, 200, 0), held("chan:etl/1", 200))
    answer = explain("store", "/", windows, 0)
    assert answer.text.startswith("store / is not blocked: waiting")
    assert (answer.behind, answer.suggestions) == (None, ())


def test_an_alarm_is_a_root_of_its_own() -> None:
    windows = scene(
        actor("conn:a", (2_000, 0, 8_000, 0), held("alarm:memory", 8_000, "memory")),
        actor("alarm:memory", numbers={"used_bytes": 1.9e9, "limit_bytes": 1.8e9}),
        actor("queue:/big", numbers={"bytes": 7.1e8}),
        actor("queue:/small", numbers={"bytes": 2.9e8}),
    )
    answer = explain("connection", "a", windows, 0)
    assert answer.text == (
        "a was blocked 80 % of the last 10 s, 100 % of that by the memory alarm "
        "(1.9 GB used, limit 1.8 GB)"
    )
    assert answer.suggestions[0] == (
        "consume from or purge queue /big: it holds 710.0 MB, 71 % of what is in queues "
        "(penstock queues purge /big)"
    )


def test_a_queue_that_holds_itself_stands_once_on_the_path() -> None:
    windows = scene(
        actor("conn:a", (0, 0, 9_000, 1_000), held("queue:/q", 9_000)),
        actor("queue:/q", (0, 0, 9_000, 1_000), held("", 9_000, "depth"), numbers={"consumers": 0}),
    )
    answer = explain("connection", "a", windows, 0)
    assert [(cause.path, cause.reason, cause.detail) for cause in answer.causes] == [
        (("conn:a", "queue:/q"), "consumer", "no consumer")
    ]
    assert explain("queue", "q", windows, 0).causes[0].path == ("queue:/q",)


def test_victims_are_listed_worst_first_and_the_rest_counted() -> None:
    windows = scene(
        actor("conn:me", (0, 0, 9_000, 1_000), held("queue:/q", 9_000)),
        actor("queue:/q", (0, 10_000, 0, 0)),
        actor("chan:v0/1", (0, 0, 10_000, 0), held("queue:/q", 10_000)),
        *(
            actor(f"conn:v{n}", (0, 0, 1_000 * n, 10_000 - 1_000 * n), held("queue:/q", 1_000 * n))
            for n in range(1, 9)
        ),
        actor("conn:far", (0, 0, 9_000, 1_000), held("queue:/other", 9_000)),
    )
    answer = explain("connection", "me", windows, 0)
    assert [part.name for part in answer.victims] == [f"conn:v{n}" for n in (8, 7, 6, 5, 4)]
    assert answer.victims_more == 3


def test_the_own_connection_is_no_victim() -> None:
    answer = explain("channel", "web-7/1", slow_disk(), 0)
    assert [part.name for part in answer.victims] == ["conn:etl"]


def test_labels_that_repeat_the_name_are_left_out() -> None:
    labels = {"name": "shop", "peer": "10.0.0.1:5000", "vhost": "prod", "client": "pika 1.4.4 "}
    windows = scene(actor("conn:10.0.0.1:5000", labels=labels))
    answer = explain("connection", "shop", windows, 0)
    assert answer.about == "shop, vhost prod, pika 1.4.4"


def test_how_long_it_is_being_held_now() -> None:
    windows = scene(
        actor("conn:a", (0, 0, 10_000, 0), held("queue:/q", 10_000), since_ns=5 * S),
        actor("queue:/q", (0, 10_000, 0, 0)),
    )
    assert explain("connection", "a", windows, 30 * S).held_ns == 25 * S
    assert explain("connection", "web-7", slow_disk(), 0).held_ns is None


def test_somebody_unknown() -> None:
    answer = explain("queue", "ordres", slow_disk(), 0)
    assert (answer.state, answer.exit_status()) == (UNKNOWN, 2)
    assert answer.close_names == ("/orders",)
    assert render(answer) == "no queue is called 'ordres'; did you mean /orders?"


@pytest.mark.parametrize("kind", ["connection", "channel", "queue", "consumer", "store"])
@given(data=st.data())
def test_any_world_is_explained_and_can_be_sent_as_json(kind: str, data: st.DataObject) -> None:
    """Whatever the numbers are, an answer comes, its causes add up, and it is plain data."""
    names = ["conn:a", "chan:a/1", "queue:/q", "consumer:c@conn:a", "store:/", "alarm:memory"]
    peers = st.sampled_from([*names, "socket:a", "gone", "", "others"])
    reasons = st.sampled_from(
        ["credit", "memory", "debt", "depth", "prefetch", "pending", "others"]
    )
    numbers = st.dictionaries(
        st.sampled_from(
            [
                "ready",
                "consumers",
                "prefetch_full_share",
                "unacked",
                "bytes",
                "prefetch",
                "socket_blocked",
                "debt:conn:a",
                "sync_now_ns",
                "credit_initial",
            ]
        ),
        st.sampled_from([0.0, 0.5, 1.0]),
    )
    windows = scene(
        *(
            actor(
                name,
                data.draw(st.tuples(*[st.integers(0, 3)] * 4)),
                *(
                    held(peer, ms, reason)
                    for peer, ms, reason in data.draw(
                        st.lists(st.tuples(peers, st.integers(0, 5), reasons), max_size=3)
                    )
                ),
                numbers=data.draw(numbers),
                rates=data.draw(st.sampled_from([{}, {"acked": 2.0, "published": 3.0}])),
            )
            for name in names
        )
    )
    by_kind = dict(
        zip(["connection", "channel", "queue", "consumer", "store"], names, strict=False)
    )
    answer = explain(kind, by_kind[kind], windows, 0)
    assert answer.subject == by_kind[kind]
    assert sum(cause.ns for cause in answer.causes) == answer.blocked_ns
    assert 0.0 <= answer.blocked_share <= 1.0
    assert len(answer.suggestions) <= SUGGESTIONS_MAX
    assert json.loads(json.dumps(dataclasses.asdict(answer)))["text"] == answer.text
    assert render(answer)


QUEUE = actor("queue:/q", (0, 0, 0, 10_000), labels={"limit": "max-length 5 (policy 'short')"})


def stay(reason: str) -> Stay:
    step = Step("queue:/q", "consumers:/q", reason, 1_000)
    return Stay("consumers:/q", 1_000, (step,), False)


def test_the_limit_follows_what_is_wrong_with_its_consumers() -> None:
    windows = scene(QUEUE)
    said = "full at max-length 5 (policy 'short')"
    assert with_limit("no consumer", stay("full"), windows) == f"no consumer; {said}"
    assert with_limit("", stay("full"), windows) == said


def test_nothing_is_said_of_other_reasons_or_unknown_queues() -> None:
    windows = scene(QUEUE)
    assert with_limit("no consumer", stay("depth"), windows) == "no consumer"
    assert with_limit("no consumer", stay("full"), {}) == "no consumer"
    assert with_limit("x", stay("full"), scene(actor("queue:/q", (0, 0, 0, 1)))) == "x"
