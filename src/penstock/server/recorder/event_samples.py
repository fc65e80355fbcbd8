"""What every actor puts on record once a period: its times, its counts, what holds consumers."""

from typing import Final

from penstock.server.recorder.consumer_holds import ConsumerHolds
from penstock.telemetry.events import CONNECTION_SAMPLE, QUEUE_SAMPLE
from penstock.telemetry.recorder import Recorder
from penstock.telemetry.snapshots import ActorSnapshot

SAMPLED: Final = frozenset({"conn", "chan", "queue", "consumer", "alarm"})


class EventSamples:
    """For whoever writes events down, once for all of them."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.holds = ConsumerHolds(recorder)

    def take_all(self, snapshots: dict[str, ActorSnapshot]) -> None:
        """Put the actors' cumulative numbers on record."""
        for one in snapshots.values():
            self.take(one)

    def take(self, one: ActorSnapshot) -> None:
        """Put one actor's cumulative numbers on record; accounts and the node have no time."""
        self.holds.take(one)
        if one.kind not in SAMPLED:
            return
        record = self.recorder
        times = one.times
        record.record_times(
            one.actor, times.idle_ns, times.busy_ns, times.blocked_ns, times.waiting_ns
        )
        if one.kind in ("queue", "conn"):
            number = one.numbers
            record.record_counts(
                QUEUE_SAMPLE if one.kind == "queue" else CONNECTION_SAMPLE,
                one.actor,
                int(number.get("ready", 0)),
                int(number.get("unacked", 0)),
                int(number.get("bytes", 0)),
                int(number.get("published", 0)),
                int(number.get("delivered", 0)),
                int(number.get("acked", 0)),
                int(number.get("consumers", 0)),
                int(number.get("paged", 0)),
            )
