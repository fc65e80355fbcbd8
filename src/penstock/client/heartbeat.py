"""When a client must say something, and when the broker has been silent for too long.

A heartbeat goes out after half an interval without output, so that one lost wake-up of the owner
does no harm; two whole intervals without input mean that the broker is gone.
Source: AMQP 0-9-1 section 4.2.7.
"""

_NS: int = 1_000_000_000


class Heartbeat:
    """Times of the last bytes in and out, monotonic nanoseconds; off until `start`."""

    __slots__ = ("_interval_ns", "_received_ns", "_sent_ns")

    def __init__(self, now_ns: int) -> None:
        self._interval_ns = 0
        self._received_ns = now_ns
        self._sent_ns = now_ns

    def start(self, interval_s: int) -> None:
        """Begin with intervals of `interval_s` seconds; 0 ends it."""
        self._interval_ns = interval_s * _NS

    def note_received(self, now_ns: int) -> None:
        """Bytes have come in; any traffic counts."""
        self._received_ns = now_ns

    def note_sent(self, now_ns: int) -> None:
        """Bytes have gone out; any traffic counts."""
        self._sent_ns = now_ns

    def is_due(self, now_ns: int) -> bool:
        """Whether a heartbeat frame should go out."""
        return self._interval_ns > 0 and now_ns - self._sent_ns >= self._interval_ns // 2

    def silent_s(self, now_ns: int) -> int:
        """Seconds of silence when they are too many, else 0."""
        silent_ns = now_ns - self._received_ns
        return silent_ns // _NS if 0 < self._interval_ns * 2 <= silent_ns else 0

    def next_ns(self) -> int | None:
        """The earlier of the two deadlines; None while off."""
        if self._interval_ns == 0:
            return None
        send_ns = self._sent_ns + self._interval_ns // 2
        return min(send_ns, self._received_ns + 2 * self._interval_ns)
