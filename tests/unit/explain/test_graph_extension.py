"""The wait-for graph beyond gates: through clients that forward, and into sockets."""

from dataclasses import replace

from penstock.explain.blame import FORWARDS, follow
from penstock.explain.graph_extension import OWES, beyond
from penstock.explain.root_causes import name_cause
from penstock.telemetry.actor_window import ActorWindow, BlockWindow
from penstock.telemetry.snapshots import Times

S = 1_000_000_000


def held(actor: str, *blocks: BlockWindow, **rates: float) -> ActorWindow:
    kind = actor.partition(":")[0]
    ns = sum(block.ns for block in blocks)
    return ActorWindow(actor, kind, window_ns=S, blocked_ns=ns, blocks=blocks, rates=rates)


def consumer(channel: str, waiting_ns: int, acked: float) -> ActorWindow:
    return ActorWindow(
        "consumer:c@conn:w",
        "consumer",
        window_ns=S,
        times=Times(idle_ns=S - waiting_ns, waiting_ns=waiting_ns),
        numbers={"prefetch_full_share": 1.0},
        rates={"acked": acked},
        labels={"queue": "queue:/a", "channel": channel},
    )


def chain(channel: str, published: float) -> dict[str, ActorWindow]:
    """p publishes to a; w consumes a over `channel` and publishes to b over channel 1, held for
    three quarters of the time in which it was given nothing."""
    windows = [
        held("conn:p", BlockWindow("queue:/a", "credit", S)),
        held("queue:/a", BlockWindow("consumers:/a", "depth", S)),
        ActorWindow("consumers:/a", "consumer", window_ns=S, labels={"queue": "queue:/a"}),
        consumer(channel, 800_000_000, 10.0),
        held("chan:w/1", BlockWindow("queue:/b", "credit", 600_000_000), published=published),
    ]
    return {window.actor: window for window in windows}


def roots(windows: dict[str, ActorWindow]) -> dict[str, int]:
    found: dict[str, int] = {}
    for stay in follow("conn:p", beyond(windows)):
        found[stay.root] = found.get(stay.root, 0) + stay.ns
    return found


def test_blame_goes_through_a_client_that_forwards_as_far_as_it_was_held() -> None:
    expected = {"queue:/b": 600_000_000, "consumers:/a": 400_000_000}
    assert roots(chain("1", 0.0)) == expected
    assert roots(chain("2", 10.0)) == expected
    chained = beyond(chain("1", 0.0))["consumer:c@conn:w"]
    assert [(b.reason, b.ns) for b in chained.blocks] == [
        (FORWARDS, 600_000_000),
        ("prefetch", 200_000_000),
    ]


def test_another_channel_that_publishes_little_is_not_why_it_acks_late() -> None:
    windows = chain("2", 1.0)
    assert roots(windows) == {"consumers:/a": S}
    assert beyond(windows) == windows


def owing(debt: float, owed: float) -> dict[str, ActorWindow]:
    """p and c of one user; the user is over its limit."""
    labels = {"user": "u", "vhost": "/"}
    windows = [
        ActorWindow(
            "conn:p",
            "conn",
            window_ns=S,
            blocked_ns=S,
            blocks=(BlockWindow("user:u@/", "debt", S),),
            labels=labels,
        ),
        ActorWindow("conn:c", "conn", window_ns=S, numbers={"owed:conn:p": owed}, labels=labels),
        ActorWindow("user:u@/", "user", numbers={"debt_bytes": debt}),
    ]
    return {window.actor: window for window in windows}


def test_debt_that_waits_for_a_socket_is_the_sockets() -> None:
    windows = beyond(owing(1000.0, 1000.0))
    (stay,) = follow("conn:p", windows)
    assert (stay.root, stay.path[0].reason) == ("socket:c", OWES)
    label, detail = name_cause(stay, windows)
    assert label == "socket" and detail.endswith("; 1.0 kB of messages wait")


def test_debt_is_split_over_where_it_is() -> None:
    windows = beyond(owing(1000.0, 400.0))
    found = {stay.root: stay.ns for stay in follow("conn:p", windows)}
    assert found == {"user:u@/": 600_000_000, "socket:c": 400_000_000}
    assert beyond(owing(1000.0, 0.0)) == owing(1000.0, 0.0)


def test_what_is_parked_goes_before_what_holds_the_sender_then() -> None:
    publisher = replace(
        held("conn:p", BlockWindow("rate:user:u", "rate", 600_000_000), both_ns=500_000_000),
        parked=(BlockWindow("chan:p/1", "parked", 800_000_000),),
        parked_since_ns=7,
    )
    channel = replace(held("chan:p/1"), parked=(BlockWindow("queue:/a", "credit", S),))
    windows = {one.actor: one for one in (publisher, channel, held("queue:/a"))}
    assert roots(windows) == {"queue:/a": 800_000_000, "rate:user:u": 100_000_000}
    seen = beyond(windows)["conn:p"]
    assert (seen.blocked_ns, seen.parked_ns(), seen.since_ns) == (900_000_000, 800_000_000, 7)


def test_a_wait_that_is_dated_back_is_not_longer_than_the_window() -> None:
    blocks = (BlockWindow("queue:/a", "credit", S), BlockWindow("rate:queue:/b", "rate", S))
    publisher = replace(held("conn:p", BlockWindow("alarm:memory", "alarm", S)), parked=blocks)
    seen = beyond({"conn:p": publisher})["conn:p"]
    assert seen.blocked_ns == S
    assert {block.peer: block.ns for block in seen.blocks} == {
        "queue:/a": S // 2,
        "rate:queue:/b": S // 2,
    }


def confirming(published: float, **rates: float) -> dict[str, ActorWindow]:
    """w acks what it consumes of a when its publish to b is confirmed, and b is stopped."""
    windows = chain("1", published)
    windows["chan:w/1"] = replace(
        held("chan:w/1"),
        rates={"published": published, **rates},
        numbers={"credit_initial:queue:/b": 400.0},
        labels={"confirms": "yes"},
    )
    windows["queue:/b"] = held("queue:/b", BlockWindow("consumers:/b", "full", 700_000_000))
    return windows


def test_a_client_that_acks_what_is_confirmed_waits_for_the_queue_that_is_stopped() -> None:
    by_wait = {"wait:confirms:ns": 0.5 * S}
    own = {"consumers:/a": 300_000_000}
    assert roots(confirming(10.0)) == {"consumers:/b": 700_000_000, **own}
    assert roots(confirming(0.0, **by_wait)) == {
        "consumers:/b": 500_000_000,
        "consumers:/a": S // 2,
    }
    assert roots(confirming(0.0)) == {"consumers:/a": S}


def test_a_queue_whose_mark_its_consumers_fill_waits_for_what_they_forward() -> None:
    """With a prefetch above the mark of the queue no consumer's window is ever full."""
    windows = chain("1", 0.0)
    windows["consumer:c@conn:w"] = replace(
        consumer("1", 0, 10.0), numbers={"unacked": 30.0, "prefetch": 50.0}
    )
    assert roots(windows) == {"queue:/b": 600_000_000, "consumers:/a": 400_000_000}
    windows["queue:/a"] = replace(windows["queue:/a"], numbers={"ready": 5.0})
    assert roots(windows) == {"consumers:/a": S}
