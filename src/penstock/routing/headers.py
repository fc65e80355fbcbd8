"""The headers exchange: arguments of bindings against headers of messages. COMPILED.

    x-match        matches if                                  looks at
    all (default)  every looked-at argument agrees             arguments not starting with "x-"
    any            at least one looked-at argument agrees      arguments not starting with "x-"
    all-with-x     as all                                      all arguments but "x-match"
    any-with-x     as any                                      all arguments but "x-match"

An argument agrees if the message has a header of that name with the same value; a void argument
agrees with any value. With nothing to look at, "all" matches every message and "any" none.

A match compares no more than the values of all rules, of which a binding and an exchange have a
limited number.
Source: RabbitMQ's headers exchange.
"""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.routing.bindings import Binding, BindingBounds
from penstock.routing.canonical import is_same_value
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange

MATCH_ARGUMENT: Final = "x-match"
_PRECONDITION_FAILED: Final = 406


class HeadersRule:
    """One binding made ready: its destination, whether all must agree, and the looked-at pairs.
    size: values in them."""

    __slots__ = ("destination", "is_all", "names", "size", "values")

    def __init__(self, binding: Binding) -> None:
        mode = binding.arguments.get(MATCH_ARGUMENT, "all")
        with_x = mode == "all-with-x" or mode == "any-with-x"
        self.destination = binding.destination
        self.is_all = mode == "all" or mode == "all-with-x"
        self.names: list[str] = []
        self.values: list[object] = []
        self.size = 0
        for name, value in binding.arguments.items():
            if name == MATCH_ARGUMENT or (name.startswith("x-") and not with_x):
                continue
            self.names.append(name)
            self.values.append(value)
            self.size += _size_of(value)

    def agrees(self, headers: dict[str, object]) -> bool:
        """True if a message with `headers` belongs to this binding."""
        is_all = self.is_all
        for position in range(len(self.names)):
            name = self.names[position]
            if name in headers:
                wanted = self.values[position]
                is_hit = wanted is None or is_same_value(wanted, headers[name])
            else:
                is_hit = False
            if is_hit != is_all:
                return is_hit
        return is_all


class HeadersExchange(Exchange):
    """A list of rules, tried one after the other. size: values in all of them."""

    __slots__ = ("_rules", "size")

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        super().__init__(
            "headers", name, durable, auto_delete, internal, arguments, False, True, False
        )
        self._rules: dict[tuple[Destination, str, str], HeadersRule] = {}
        self.size = 0

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append the destination of every rule that agrees; a message without headers has {}."""
        if headers is None:
            table: dict[str, object] = {}
        elif isinstance(headers, dict):
            table = headers
        else:
            table = dict(headers)
        for rule in self._rules.values():
            if rule.agrees(table):
                found.append(rule.destination)
        if self._topology is not None:
            # Most rules are done with after a value or two.
            self._topology.worked(len(self._rules) + self.size // 4)

    def check(self, binding: Binding) -> None:
        """Refuse an x-match that is not one of the four.

        Raises: ChannelFault 406 with RabbitMQ's text.
        """
        if MATCH_ARGUMENT not in binding.arguments:
            return
        mode = binding.arguments[MATCH_ARGUMENT]
        if not isinstance(mode, str):
            raise ChannelFault(
                _PRECONDITION_FAILED,
                f"Invalid x-match field type {_type_name(mode)} "
                f"(value {_value_text(mode)}); expected longstr",
            )
        if mode != "all" and mode != "any" and mode != "all-with-x" and mode != "any-with-x":
            raise ChannelFault(
                _PRECONDITION_FAILED,
                f'Invalid x-match field value <<"{mode}">>; '
                "expected all, any, all-with-x, or any-with-x",
            )

    def check_bounds(self, binding: Binding, bounds: BindingBounds) -> None:
        """Refuse what makes a match too long."""
        size = 0
        for value in binding.arguments.values():
            size += _size_of(value)
        if size > bounds.headers_values:
            raise ChannelFault(
                _PRECONDITION_FAILED,
                f"binding to headers exchange '{self.name}' has {size} values in its arguments, "
                f"more than {bounds.headers_values} (headers_values)",
            )
        is_known = (binding.destination, binding.routing_key, binding.identity) in self._rules
        if not is_known and self.size + size > bounds.headers_exchange_values:
            raise ChannelFault(
                _PRECONDITION_FAILED,
                f"bindings to headers exchange '{self.name}' have {self.size} values in their "
                f"arguments, and may have {bounds.headers_exchange_values} "
                "(headers_exchange_values); bind to another one",
            )

    def index(self, binding: Binding) -> None:
        """Add the binding's rule after all others."""
        key = (binding.destination, binding.routing_key, binding.identity)
        rule = HeadersRule(binding)
        self._rules[key] = rule
        self.size += rule.size

    def unindex(self, binding: Binding) -> None:
        """Take the rule of the equal binding away."""
        rule = self._rules.pop((binding.destination, binding.routing_key, binding.identity))
        self.size -= rule.size


def _size_of(value: object) -> int:
    """How many values are to be compared; 1 for what is not nested."""
    size = 1
    if isinstance(value, dict):
        for one in value.values():
            size += _size_of(one)
    elif isinstance(value, list):
        for one in value:
            size += _size_of(one)
    return size


def _type_name(value: object) -> str:
    """RabbitMQ's name of a value's wire type, as far as the decoded value still tells it."""
    if value is None:
        return "void"
    if type(value) is int:
        # The width is lost in decoding; pika, whose users meet this text, sends the smallest.
        for bits, name in ((7, "byte"), (15, "short"), (31, "signedint")):
            if -(1 << bits) <= value < 1 << bits:
                return name
        return "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, (bytes, bytearray)):
        return "binary"
    if isinstance(value, dict):
        return "table"
    if isinstance(value, list):
        return "array"
    return type(value).__name__.lower()


def _value_text(value: object) -> str:
    """A value as RabbitMQ prints it, for the values that have one obvious text."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
