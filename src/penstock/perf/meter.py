"""What a run has counted: one `Tally` for the second now running, added into one for the run."""

from penstock.perf.histogram import Histogram


class Tally:
    """Messages, bytes of bodies and latencies (nanoseconds) of some stretch of time.

    foreign: received, but stamped by another run or not at all; their latency is unknown.
    """

    __slots__ = (
        "confirm_latency", "confirmed", "foreign", "intended_latency", "nacked", "received",
        "received_bytes", "redelivered", "returned", "sent", "sent_bytes", "sent_latency",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sent = 0
        self.sent_bytes = 0
        self.confirmed = 0
        self.nacked = 0
        self.returned = 0
        self.received = 0
        self.received_bytes = 0
        self.redelivered = 0
        self.foreign = 0
        self.intended_latency = Histogram()
        self.sent_latency = Histogram()
        self.confirm_latency = Histogram()

    def add(self, other: "Tally") -> None:
        """Count everything `other` has counted."""
        self.sent += other.sent
        self.sent_bytes += other.sent_bytes
        self.confirmed += other.confirmed
        self.nacked += other.nacked
        self.returned += other.returned
        self.received += other.received
        self.received_bytes += other.received_bytes
        self.redelivered += other.redelivered
        self.foreign += other.foreign
        self.intended_latency.add(other.intended_latency)
        self.sent_latency.add(other.sent_latency)
        self.confirm_latency.add(other.confirm_latency)

    def clear(self) -> None:
        """Forget everything; histograms keep their buckets."""
        self.sent = self.sent_bytes = self.confirmed = self.nacked = self.returned = 0
        self.received = self.received_bytes = self.redelivered = self.foreign = 0
        self.intended_latency.clear()
        self.sent_latency.clear()
        self.confirm_latency.clear()
