"""Holds of consumers on record: beginnings, ends, short ones, and consumers that are gone."""

from penstock.base.clock import ManualClock
from penstock.server.recorder.consumer_holds import ConsumerHolds
from penstock.telemetry.recorder import Recorder
from penstock.telemetry.snapshots import ActorSnapshot

ACTOR = "consumer:tag@x@conn:127.0.0.1:5"
NODE = "node"


class Rounds:
    """Gives rounds of snapshots of one consumer, and says what was recorded of each."""

    def __init__(self) -> None:
        self.recorder = Recorder(ManualClock(), 64)
        self.holds = ConsumerHolds(self.recorder)
        self.seen = 0

    def round(self, taken_ns: int, held_ns: int, held_by: str) -> list[tuple[object, ...]]:
        labels = {"queue": "queue:/q"}
        if held_by:
            labels["held_by"] = held_by
        numbers = {"held_ns": float(held_ns)}
        self.holds.take(
            ActorSnapshot(ACTOR, "consumer", numbers=numbers, labels=labels, taken_ns=taken_ns)
        )
        return self.end(taken_ns)

    def end(self, taken_ns: int) -> list[tuple[object, ...]]:
        self.holds.take(ActorSnapshot(NODE, NODE, taken_ns=taken_ns))
        events = [one.plain() for one in self.recorder.since(self.seen)]
        self.seen = self.recorder.next_seq
        return [
            (one["kind"], one["t"], one["peer"], one["reason"], one["amount"]) for one in events
        ]


def test_a_hold_begins_when_it_began_and_ends_at_the_round_that_saw_its_end() -> None:
    rounds = Rounds()
    assert rounds.round(1000, 0, "") == [("actor_up", 1000, "queue:/q", "", 0)]
    assert rounds.round(2000, 300, "prefetch") == [
        ("gate_closed", 1700, "client:127.0.0.1:5", "prefetch", 0)
    ]
    assert rounds.round(3000, 1300, "prefetch") == []
    assert rounds.round(4000, 2300, "") == [
        ("gate_opened", 4000, "client:127.0.0.1:5", "prefetch", 2300)
    ]


def test_a_hold_between_two_rounds_has_its_length() -> None:
    rounds = Rounds()
    rounds.round(1000, 0, "")
    found = rounds.round(2000, 150, "")
    assert [one[:2] for one in found] == [("gate_closed", 1850), ("gate_opened", 2000)]
    assert found[-1][-1] == 150


def test_another_reason_is_another_hold() -> None:
    rounds = Rounds()
    rounds.round(1000, 0, "")
    rounds.round(2000, 500, "prefetch")
    found = rounds.round(3000, 1500, "unsent")
    assert [(one[0], one[2], one[3]) for one in found] == [
        ("gate_opened", "client:127.0.0.1:5", "prefetch"),
        ("gate_closed", "socket:127.0.0.1:5", "socket"),
    ]


def test_a_consumer_that_is_gone_holds_nobody() -> None:
    rounds = Rounds()
    rounds.round(1000, 100, "channel prefetch")
    assert rounds.end(2000) == [("actor_down", 2000, "", "", 0)]
    assert rounds.end(3000) == []


def test_standing_by_is_no_hold() -> None:
    rounds = Rounds()
    rounds.round(1000, 0, "")
    assert rounds.round(2000, 0, "standby") == []
