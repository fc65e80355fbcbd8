"""The bounds of leases; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

LEASE_GROUPS: Final = Limit(
    "lease_groups",
    "groups that lease messages of one queue",
    16,
    1,
    1024,
    "broker/lease/lease_desk",
    "another group is refused (406) until one of them is released with forget",
)
LEASE_MESSAGES: Final = Limit(
    "lease_messages",
    "messages that one group leases of one queue",
    100_000,
    1,
    1_000_000,
    "broker/lease/lease_desk",
    "what was leased is answered; the next ones come with the next lease",
)
LEASE_BYTES: Final = Limit(
    "lease_bytes",
    "bytes of messages that one group leases of one queue; one message may have more",
    134_217_728,
    65_536,
    4_294_967_296,
    "broker/lease/lease_desk",
    "what was leased is answered; the next ones come with the next lease",
)
LEASE_RUNS: Final = Limit(
    "lease_runs",
    "gaps in what one group leases of one queue, where others hold messages in between",
    4096,
    1,
    65_536,
    "broker/lease/lease_actor",
    "what was leased is answered; the next ones come with the next lease",
)
LEASE_WAITING: Final = Limit(
    "lease_waiting",
    "requests that wait for another one of the same group",
    4,
    1,
    64,
    "broker/lease/lease_desk",
    "a further request is refused (406)",
)
LEASE_TIMEOUT_MS: Final = Limit(
    "lease_timeout_ms",
    "milliseconds a group keeps its messages without a sign of life, unless it says otherwise",
    900_000,
    100,
    86_400_000,
    "broker/lease/lease_desk",
    "its messages go back to the queue, where they were",
)
