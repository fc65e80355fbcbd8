"""Whose work loads a cause, and who suffers on the same socket."""

from penstock.explain.explain import explain
from penstock.explain.explanation import OUTSTANDING, SENT_EVER, SENT_NOW, ActorShare, RootCause
from penstock.explain.remarks import consumers_on, loads, sharing
from tests.unit.explain.scene import actor, held, scene

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
