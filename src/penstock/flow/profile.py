"""Which rules are in force: the emulation profiles of RabbitMQ, and our default.

A profile is data; the strategy it makes is the only rule an actor meets. Source: flow-semantics
2.7 (defaults by version), architecture section 5 (two personalities, one mechanism).
"""

from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.flow.credit import Credit, Window
from penstock.flow.strategy import Strategy

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Profile:
    """credit_*: messages; credit_bytes_*: bytes, 0 switches the byte window off;
    is_parking: a publish for a blocked queue waits beside its connection, which reads on; without
    it a blocked channel keeps its grants back, so one slow queue holds its connection;
    is_depth_aware: a queue above its depth mark keeps its grants back;
    account_high_bytes: debt of one connection above which it is not read, 0 for no limit;
    unsent_deliveries: per queue and channel, not yet taken by the socket."""

    name: str
    credit_initial: int
    credit_more_after: int
    credit_bytes_initial: int
    credit_bytes_more_after: int
    is_parking: bool
    is_depth_aware: bool
    account_high_bytes: int
    unsent_deliveries: int

    def strategy(self) -> Strategy:
        """A fresh strategy with this profile's windows. Raises: OperatorError on a bad window."""
        if self.credit_initial == 0 and self.credit_bytes_initial == 0:
            return Strategy("none")
        return Credit(
            "credit",
            Window(self.credit_initial, self.credit_more_after, "messages"),
            Window(self.credit_bytes_initial, self.credit_bytes_more_after, "bytes"),
        )


PENSTOCK: Final = Profile("penstock", 400, 200, 4 * MIB, 2 * MIB, True, True, 32 * MIB, 200)
RABBITMQ_4: Final = Profile("rabbitmq-4", 400, 200, 0, 0, False, False, 0, 200)
RABBITMQ_35: Final = Profile("rabbitmq-3.5", 200, 50, 0, 0, False, False, 0, 200)
NONE: Final = Profile("none", 0, 0, 0, 0, False, False, 0, 65_535)

PROFILES: Final = {profile.name: profile for profile in (PENSTOCK, RABBITMQ_4, RABBITMQ_35, NONE)}


def profile_named(name: str) -> Profile:
    """The profile called `name`. Raises: OperatorError naming the ones there are."""
    profile = PROFILES.get(name)
    if profile is None:
        raise OperatorError(f"flow profile '{name}' is unknown; one of: {', '.join(PROFILES)}")
    return profile
