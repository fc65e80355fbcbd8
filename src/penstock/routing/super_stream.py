"""The super stream exchange: the routing key's hash chooses the number of a partition. COMPILED.

Of n bindings the keys are "0" to "n-1", as `penstock streams add-super` and RabbitMQ's
`rabbitmq-streams add_super_stream` bind partitions. A message goes to the binding whose key is the
hash modulo n, and nowhere while there is none of that key. The hash is murmur3 of 32 bits with the
seed of RabbitMQ's stream clients, so that a key has the same partition whether it is published over
AMQP, here or to RabbitMQ, or by a stream client. Source: rabbit_exchange_type_super_stream.
"""

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ChannelFault
from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination, Targets
from penstock.routing.exchange import Exchange

SUPER_STREAM: Final = "x-super-stream"
"""The type of the exchange, and the argument of every exchange that is a super stream."""
PARTITION_ORDER: Final = "x-stream-partition-order"
"""Argument of a binding: the place of the partition, from 0."""
SEED: Final = 104729
_PRECONDITION_FAILED: Final = 406
_MASK: Final = 0xFFFFFFFF
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593


class SuperStreamExchange(Exchange):
    """Destinations by binding key. A match costs one hash, linear in the key, and one look-up."""

    __slots__ = ("_by_key",)

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        super().__init__(
            SUPER_STREAM, name, durable, auto_delete, internal, arguments, True, False, True
        )
        self._by_key: dict[str, Targets] = {}

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append one destination; none if no binding has the number. A message goes to one
        partition, by its own routing key: those of CC and BCC do not count, as in RabbitMQ."""
        count: i64 = self._bindings.count
        if count == 0 or found:
            return
        number = murmur3(routing_key.encode("utf-8", "surrogateescape")) % count
        targets = self._by_key.get(str(number))
        if targets is not None:
            targets.give_first(found)

    def check(self, binding: Binding) -> None:
        """Refuse a key that is no whole number. Raises: ChannelFault 406 with RabbitMQ's text."""
        key = binding.routing_key
        digits = key[1:] if key[:1] in ("-", "+") else key
        if not (digits.isascii() and digits.isdigit()):
            said = f'"{key}"' if key else ""
            raise ChannelFault(
                _PRECONDITION_FAILED, f"The binding key must be an integer: <<{said}>>"
            )

    def index(self, binding: Binding) -> None:
        """Add the destination under its key."""
        targets = self._by_key.get(binding.routing_key)
        if targets is None:
            targets = Targets()
            self._by_key[binding.routing_key] = targets
        targets.hold(binding.destination)

    def unindex(self, binding: Binding) -> None:
        """Take the destination from under its key, and the key with the last one."""
        if self._by_key[binding.routing_key].release(binding.destination):
            del self._by_key[binding.routing_key]


def murmur3(data: bytes, seed: i64 = SEED) -> i64:
    """The 32-bit hash of `data`, 0..2^32 - 1. Source: A. Appleby, MurmurHash3_x86_32."""
    hashed: i64 = seed & _MASK
    length: i64 = len(data)
    whole: i64 = length - length % 4
    block: i64
    at: i64 = 0
    while at < whole:
        block = data[at] | (data[at + 1] << 8) | (data[at + 2] << 16) | (data[at + 3] << 24)
        hashed = _rotated(hashed ^ _scrambled(block), 13)
        hashed = (hashed * 5 + 0xE6546B64) & _MASK
        at += 4
    block = 0
    at = length
    while at > whole:
        at -= 1
        block = (block << 8) | data[at]
    if whole < length:
        hashed ^= _scrambled(block)
    hashed ^= length
    hashed = _product(hashed ^ (hashed >> 16), 0x85EBCA6B)
    hashed = _product(hashed ^ (hashed >> 13), 0xC2B2AE35)
    return hashed ^ (hashed >> 16)


def _scrambled(block: i64) -> i64:
    return _product(_rotated(_product(block, _C1), 15), _C2)


def _rotated(number: i64, bits: i64) -> i64:
    return ((number << bits) | (number >> (32 - bits))) & _MASK


def _product(one: i64, other: i64) -> i64:
    """Modulo 2^32, in two steps of at most 48 bits, because compiled numbers have 63."""
    return (one * (other & 0xFFFF) + (((one * (other >> 16)) & 0xFFFF) << 16)) & _MASK
