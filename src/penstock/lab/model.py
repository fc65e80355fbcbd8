"""What the broker's work costs, in nanoseconds of one processor, and what its network is like.

The broker is one thread on one processor, so its work is done one piece after the other and costs
virtual time; clients have processors of their own and cost none. Costs are linear in what was done:

    a read of a socket    read + read_byte * bytes
    a connection's turn   turn + parse * publishes
    a channel's turn      turn + route * publishes + settle * answered deliveries
    a queue's turn        turn + take * messages in + give * messages out
    a send                send + send_byte * bytes
    one look at sockets   poll

`INTERPRETED` is this broker without compilation, as lab/calibrate has measured it; docs/lab.md
says where. Slow queues work beside the processor: what they wait for is a disk.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds each; the two `_byte` ones may be fractions."""

    poll_ns: int
    read_ns: int
    read_byte_ns: float
    turn_ns: int
    parse_ns: int
    route_ns: int
    settle_ns: int
    take_ns: int
    give_ns: int
    send_ns: int
    send_byte_ns: float


@dataclass(frozen=True, slots=True)
class Network:
    """trip_ns: from one end to the other; byte_ns: per byte and direction of one connection;
    up_bytes, down_bytes: what both kernels hold together, towards the broker and from it."""

    trip_ns: int
    byte_ns: float
    up_bytes: int
    down_bytes: int


INTERPRETED: Final = Costs(
    poll_ns=3000, read_ns=1100, read_byte_ns=0.05, turn_ns=14_500, parse_ns=6200, route_ns=2100,
    settle_ns=800, take_ns=1700, give_ns=2100, send_ns=1600, send_byte_ns=0.05,
)  # fmt: skip
LOOPBACK: Final = Network(trip_ns=30_000, byte_ns=0.3, up_bytes=131_072, down_bytes=524_288)
