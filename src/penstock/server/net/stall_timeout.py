"""How long a peer may leave its socket alone before it counts as gone.

    host vanished            the kernel notices: TCP_USER_TIMEOUT while something is unacknowledged
                             (heartbeats are, at the latest), keepalive probes otherwise
    host lives, reads not    the kernel's window stays shut; the same time, measured here as well,
                             because not every system has TCP_USER_TIMEOUT

The time is OUTPUT_STALL_INTERVALS heartbeat intervals, VANISHED_MS at least: a client that reads
nothing for so long has not seen our heartbeats either. Without heartbeats (interval 0) a client
has asked not to be watched: it may leave its socket alone for as long as it likes, and keeps at
most its output buffer meanwhile.
Source: scenario 76; Linux tcp(7), TCP_USER_TIMEOUT also ends a zero window.
"""

import socket
from array import array
from collections.abc import Container

from penstock.base.limits import OUTPUT_STALL_INTERVALS

try:
    from fcntl import ioctl
    from termios import TIOCOUTQ as UNSENT_QUESTION
except ImportError:  # pragma: no cover - systems without them count what the kernel has taken
    UNSENT_QUESTION = 0  # type: ignore[misc]  # the name is Final where it exists

NS_PER_S = 1_000_000_000
VANISHED_MS = 25_000
"""With a heartbeat of 10 s, sent every 5, a vanished host is noticed within 30 s."""
PROBE_AFTER_S = 15
PROBE_EVERY_S = 5
PROBES = 2


def stall_timeout_ms(heartbeat_s: int) -> int:
    """Milliseconds without progress on the output, 0 for any time."""
    if heartbeat_s == 0:
        return 0
    return max(VANISHED_MS, OUTPUT_STALL_INTERVALS.default * heartbeat_s * 1000)


def watch_host(sock: socket.socket, heartbeat_s: int) -> None:
    """Have the kernel notice when the peer's host is gone. Raises: OSError."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", PROBE_AFTER_S),
        ("TCP_KEEPINTVL", PROBE_EVERY_S),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", stall_timeout_ms(heartbeat_s)),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def unsent_bytes(sock: socket.socket) -> int:
    """Bytes the kernel has taken and the peer's has not; 0 where that cannot be asked."""
    if UNSENT_QUESTION == 0:
        return 0
    answer = array("i", [0])
    try:
        ioctl(sock.fileno(), UNSENT_QUESTION, answer)
    except (OSError, ValueError):
        # Closed meanwhile.
        return 0
    return answer[0]


class StallTimeout:
    """Since when each connection's output has made no progress. Entries only for connections whose
    socket does not take all there is; owner: the node."""

    def __init__(self) -> None:
        self._stuck: dict[str, tuple[int, int]] = {}

    def is_over(
        self, name: str, held_bytes: int, gone_bytes: int, heartbeat_s: int, now_ns: int
    ) -> bool:
        """Whether connection `name` has been given up. held_bytes: waiting in our buffer;
        gone_bytes: ever taken by the peer; heartbeat_s: 0 for unlimited patience."""
        if held_bytes == 0 or heartbeat_s == 0:
            self._stuck.pop(name, None)
            return False
        before = self._stuck.get(name)
        if before is None or before[0] != gone_bytes:
            self._stuck[name] = (gone_bytes, now_ns)
            return False
        return now_ns - before[1] >= stall_timeout_ms(heartbeat_s) * NS_PER_S // 1000

    def forget_gone(self, living: Container[str]) -> None:
        """Connections that are gone leave nothing behind."""
        for name in [name for name in self._stuck if name not in living]:
            del self._stuck[name]

    def __len__(self) -> int:
        return len(self._stuck)
