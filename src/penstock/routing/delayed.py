"""The delayed message exchange: what has an x-delay goes to a store, all else on at once. COMPILED.

Bindings and matching are those of the kind that x-delayed-type names; this exchange only looks at
the header first. What the store lets go comes back here with the delay negated, and is matched as
any other message. Source: RabbitMQ's rabbitmq_delayed_message_exchange.
"""

from collections.abc import Callable, Mapping
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.routing.bindings import Binding, BindingBounds
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange, Topology

DELAYED: Final = "x-delayed-message"
KIND_ARGUMENT: Final = "x-delayed-type"
DELAY_HEADER: Final = "x-delay"
DELAY_MS_MAX: Final = 9_000_000_000_000
"""About 285 years: a longer delay is held to be this long. RabbitMQ's plugin takes up to 2**32 - 1
and routes what is above at once."""

_PRECONDITION_FAILED: Final = 406


class DelayedExchange(Exchange):
    """inner: matches; store: where delayed messages go, None until it is given one (then nothing is
    delayed); gone: called once when the exchange
    goes."""

    __slots__ = ("gone", "inner", "store")

    def __init__(
        self,
        inner: Exchange,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        super().__init__(
            DELAYED,
            name,
            durable,
            auto_delete,
            internal,
            arguments,
            inner.needs_key,
            True,
            inner.gives_once,
        )
        self.inner = inner
        self.needs_properties = inner.needs_properties
        self.store: Destination | None = None
        self.gone: Callable[[], object] | None = None

    def attach(self, topology: Topology | None) -> None:
        """As every exchange; the router lets go of one that was deleted by attaching None."""
        super().attach(topology)
        self.inner.attach(topology)
        gone = self.gone
        if topology is None and gone is not None:
            self.gone = None
            self.store = None
            gone()

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append the store for a message with a delay, else what `inner` finds."""
        store = self.store
        if store is not None and headers is not None and delay_ms(headers.get(DELAY_HEADER)) > 0:
            found.append(store)
        else:
            self.inner.match(routing_key, headers, found)

    def check(self, binding: Binding) -> None:
        """Refuse what `inner` refuses."""
        self.inner.check(binding)

    def check_bounds(self, binding: Binding, bounds: BindingBounds) -> None:
        """Refuse what `inner` refuses."""
        self.inner.check_bounds(binding, bounds)

    def index(self, binding: Binding) -> None:
        """Let `inner` find it."""
        self.inner.index(binding)

    def unindex(self, binding: Binding) -> None:
        """Let `inner` lose it."""
        self.inner.unindex(binding)


def inner_kind(arguments: Mapping[str, object] | None) -> str:
    """The kind that x-delayed-type names, which may not exist. Raises: ChannelFault 406."""
    named = None if arguments is None else arguments.get(KIND_ARGUMENT)
    if named == DELAYED:
        raise ChannelFault(
            _PRECONDITION_FAILED,
            f"Invalid argument, '{DELAYED}' can't be used for '{KIND_ARGUMENT}'",
        )
    if not isinstance(named, str):
        raise ChannelFault(
            _PRECONDITION_FAILED,
            f"Invalid argument, '{KIND_ARGUMENT}' must be an existing exchange type",
        )
    return named


def delay_ms(value: object) -> int:
    """What an x-delay of `value` asks for, in milliseconds, 1..DELAY_MS_MAX; 0 for no delay: one
    that is missing, is 0 or negative, or is neither a number nor the text of one."""
    number = delay_number(value)
    if number <= 0:
        return 0
    return number if number < DELAY_MS_MAX else DELAY_MS_MAX


def delay_number(value: object) -> int:
    """`value` as the integer that it is, or is the text of, without its fraction; 0 otherwise."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # Neither infinity nor what is no number compares so.
        return int(value) if -1e18 < value < 1e18 else 0
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("-", "+") else value
        if digits.isascii() and digits.isdigit() and len(digits) <= 24:
            return int(value)
    return 0
