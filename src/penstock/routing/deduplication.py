"""The message deduplication exchange: a fanout that lets a message through once. COMPILED.

Once is: for each value of x-deduplication-header, as long as its entry is in the cache. An entry
is made when a publish is accepted, not when its way is looked up, because a publish that has to
wait is looked up again: `match` notes what it has let through with the topology, which is told
when that is final. Entries go after x-cache-ttl milliseconds, the exchange's or the message's own,
and the oldest goes when there are x-cache-size of them. A message without the header always passes.
Source: noxdafox's rabbitmq-message-deduplication.
"""

from collections.abc import Mapping
from typing import Final

from penstock.base.clock import Clock
from penstock.base.errors import ChannelFault
from penstock.base.limits import DEDUPLICATION_ENTRIES
from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination, Targets
from penstock.routing.exchange import Exchange

DEDUPLICATION: Final = "x-message-deduplication"
DEDUPLICATION_HEADER: Final = "x-deduplication-header"
CACHE_SIZE: Final = "x-cache-size"
CACHE_TTL: Final = "x-cache-ttl"
CACHE_PERSISTENCE: Final = "x-cache-persistence"
NEVER_NS: Final = -1
NS_PER_MS: Final = 1_000_000
LIFETIME_MS_MAX: Final = 9_000_000_000_000
_PRECONDITION_FAILED: Final = 406


class DeduplicationExchange(Exchange):
    """entries: when each key may pass again, monotonic, oldest first; duplicate_count: messages
    that did not pass; clock: given by whoever takes the exchange in, without it nothing is ever a
    duplicate."""

    __slots__ = (
        "_asked_key",
        "_asked_until_ns",
        "_targets",
        "clock",
        "duplicate_count",
        "entries",
        "size",
        "ttl_ms",
    )

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        said = arguments or {}
        self.size = _cache_size(said)
        self.ttl_ms = _cache_ttl(said)
        if said.get(CACHE_PERSISTENCE, "memory") not in ("disk", "memory"):
            raise ChannelFault(
                _PRECONDITION_FAILED,
                f"Invalid argument, '{CACHE_PERSISTENCE}' must be either 'disk' or 'memory'",
            )
        super().__init__(
            DEDUPLICATION, name, durable, auto_delete, internal, arguments, False, True, True
        )
        self._targets = Targets()
        self.clock: Clock | None = None
        self.entries: dict[str, int] = {}
        self.duplicate_count = 0
        self._asked_key = ""
        self._asked_until_ns = NEVER_NS

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append every destination, or none for a duplicate."""
        clock = self.clock
        key = "" if headers is None else header_key(headers.get(DEDUPLICATION_HEADER))
        if key != "" and clock is not None:
            now_ns = clock.monotonic_ns()
            until_ns = self.entries.get(key)
            if self._topology is not None:
                self._topology.asked(self)
            if until_ns is not None and (until_ns == NEVER_NS or now_ns < until_ns):
                self._asked_key = ""
                return
            assert headers is not None, "because it has a key"
            own_ms = lifetime_ms(headers.get(CACHE_TTL))
            lifetime = own_ms if own_ms > 0 else self.ttl_ms
            self._asked_key = key
            self._asked_until_ns = NEVER_NS if lifetime == 0 else now_ns + lifetime * NS_PER_MS
        self._targets.give(found)

    def settle(self) -> None:
        """What `match` has looked at last is final: it has passed, or was a duplicate."""
        key = self._asked_key
        if key == "":
            self.duplicate_count += 1
            return
        entries = self.entries
        entries.pop(key, None)
        if len(entries) >= self.size:
            del entries[next(iter(entries))]
        entries[key] = self._asked_until_ns

    def index(self, binding: Binding) -> None:
        """Count the binding for its destination."""
        self._targets.hold(binding.destination)

    def unindex(self, binding: Binding) -> None:
        """Count the binding no more."""
        self._targets.release(binding.destination)


def header_key(value: object) -> str:
    """What a deduplication header of `value` is compared by; "" for none. 1 is not "1"."""
    return "" if value is None else f"{type(value).__name__}:{value!r}"


def lifetime_ms(value: object) -> int:
    """What an x-cache-ttl of `value` says, 1..LIFETIME_MS_MAX; 0 for nothing that makes sense."""
    number = _number(value)
    return max(0, min(number, LIFETIME_MS_MAX))


def _number(value: object) -> int:
    """`value`, an integer or the digits of one; 0 otherwise."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 24:
        return int(value)
    return 0


def _cache_size(said: Mapping[str, object]) -> int:
    """Raises: ChannelFault 406."""
    size = _number(said.get(CACHE_SIZE))
    if size < 1:
        raise ChannelFault(
            _PRECONDITION_FAILED,
            f"Missing or invalid argument, '{CACHE_SIZE}' must be an integer greater than 0",
        )
    if size > DEDUPLICATION_ENTRIES.default:
        raise ChannelFault(
            _PRECONDITION_FAILED,
            f"Invalid argument, '{CACHE_SIZE}' {size} is more than {DEDUPLICATION_ENTRIES.default}",
        )
    return size


def _cache_ttl(said: Mapping[str, object]) -> int:
    """0 for none. Raises: ChannelFault 406."""
    if CACHE_TTL not in said:
        return 0
    lifetime = lifetime_ms(said[CACHE_TTL])
    if lifetime == 0:
        raise ChannelFault(
            _PRECONDITION_FAILED,
            f"Invalid argument, '{CACHE_TTL}' must be an integer greater than 0",
        )
    return lifetime
