"""When to send a heartbeat, and when a silent peer counts as dead. Pure: time is an argument.

Any bytes count, not only heartbeat frames. Sending is due half an interval after the last output,
so that a peer checking every interval never sees an empty one. The peer is dead when two whole
intervals have passed without input. While reading is paused by a gate, silence says nothing about
the peer: the check rests, and starts afresh when reading resumes. Sending never rests.
Source: AMQP 0-9-1 section 4.2.7; RabbitMQ's rabbit_heartbeat.
"""

from typing import Final

_NS_PER_S: Final = 1_000_000_000


class Heartbeat:
    """The two clocks of one connection. interval_s: seconds, 0..65535, 0 switches both off.

    now_ns: the monotonic clock, nanoseconds, never decreasing. Owner: the connection.
    """

    # The interval and not what follows from it: a number of nanoseconds takes 32 bytes.
    __slots__ = ("_input_ns", "_interval_s", "_is_paused", "_output_ns")

    def __init__(self, interval_s: int, now_ns: int) -> None:
        assert 0 <= interval_s <= 65_535, "the interval is a short on the wire"
        self._interval_s = interval_s
        self._input_ns = now_ns
        self._output_ns = now_ns
        self._is_paused = False

    def sent(self, now_ns: int) -> None:
        """Some bytes went out."""
        self._output_ns = now_ns

    def received(self, now_ns: int) -> None:
        """Some bytes came in."""
        self._input_ns = now_ns

    def pause(self) -> None:
        """Reading stops: silence no longer counts. Pausing twice is pausing once."""
        self._is_paused = True

    def resume(self, now_ns: int) -> None:
        """Reading goes on: the peer has two whole intervals from now."""
        self._is_paused = False
        self._input_ns = now_ns

    def is_send_due(self, now_ns: int) -> bool:
        """True when a heartbeat frame must go out now."""
        return self._interval_s > 0 and now_ns - self._output_ns >= self._send_ns()

    def is_peer_dead(self, now_ns: int) -> bool:
        """True when the connection must be closed for missed heartbeats."""
        return (
            self._interval_s > 0
            and not self._is_paused
            and now_ns - self._input_ns >= self._dead_ns()
        )

    def next_check_ns(self) -> int | None:
        """When either answer may next become True; None when neither ever will."""
        if self._interval_s == 0:
            return None
        send = self._output_ns + self._send_ns()
        return send if self._is_paused else min(send, self._input_ns + self._dead_ns())

    def _send_ns(self) -> int:
        return self._interval_s * _NS_PER_S // 2

    def _dead_ns(self) -> int:
        return self._interval_s * _NS_PER_S * 2
