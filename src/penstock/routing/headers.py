"""The headers exchange: arguments of bindings against headers of messages. COMPILED.

    x-match        matches if                                  looks at
    all (default)  every looked-at argument agrees             arguments not starting with "x-"
    any            at least one looked-at argument agrees      arguments not starting with "x-"
    all-with-x     as all                                      all arguments but "x-match"
    any-with-x     as any                                      all arguments but "x-match"

An argument agrees if the message has a header of that name with the same value; a void argument
agrees with any value. With nothing to look at, "all" matches every message and "any" none.

A match compares no more than the values of all rules, of which a binding and an exchange have a
limited number. A value that is nested is written as text once for a rule and once for a message,
and texts are compared. What decided a rule is compared first the next time. A match that is long
goes on where it stopped, see `Search`.
Source: RabbitMQ's headers exchange.
"""

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ChannelFault
from penstock.routing.bindings import Binding, BindingBounds
from penstock.routing.canonical import canonical_value
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.routing.search import NO_BOUND

MATCH_ARGUMENT: Final = "x-match"
TEXT_OF_ONE: Final = 256
"""Characters that are compared in about the time of one value."""
VALUES_A_STEP: Final = 4
"""Most rules are done with after a value or two."""
_PRECONDITION_FAILED: Final = 406


class HeadersRule:
    """One binding made ready: its destination, whether all must agree, and the looked-at pairs.
    size: values in them; texts: the canonical text of values that are not plain, None for others.
    """

    __slots__ = ("destination", "is_all", "names", "size", "texts", "values")

    def __init__(self, binding: Binding) -> None:
        mode = binding.arguments.get(MATCH_ARGUMENT, "all")
        with_x = mode == "all-with-x" or mode == "any-with-x"
        self.destination = binding.destination
        self.is_all = mode == "all" or mode == "all-with-x"
        self.names: list[str] = []
        self.values: list[object] = []
        self.texts: list[str | None] = []
        self.size = 0
        for name, value in binding.arguments.items():
            if name == MATCH_ARGUMENT or (name.startswith("x-") and not with_x):
                continue
            self.names.append(name)
            self.values.append(value)
            self.texts.append(None if _is_plain(value) else canonical_value(value))
            self.size += _size_of(value)

    def agrees(self, headers: "Headers") -> bool:
        """True if a message with `headers` belongs to this binding."""
        is_all = self.is_all
        names = self.names
        for position in range(len(names)):
            headers.compared += 1
            if self._is_hit(position, headers) != is_all:
                if position > 0:
                    self._look_first(position)
                return not is_all
        return is_all

    def _is_hit(self, position: int, headers: "Headers") -> bool:
        name = self.names[position]
        if name not in headers.table:
            return False
        wanted = self.values[position]
        if wanted is None:
            return True
        value = headers.table[name]
        text = self.texts[position]
        if text is None:
            if type(value) is type(wanted):
                if isinstance(wanted, str):
                    headers.compared += len(wanted) // TEXT_OF_ONE
                return value == wanted
            if not isinstance(wanted, str) or not isinstance(value, (bytes, bytearray)):
                return False
            text = canonical_value(wanted)
        headers.compared += len(text) // TEXT_OF_ONE
        return text == headers.text_of(name)

    def _look_first(self, position: int) -> None:
        """What decided once is likely to decide again."""
        names, values, texts = self.names, self.values, self.texts
        names[0], names[position] = names[position], names[0]
        values[0], values[position] = values[position], values[0]
        texts[0], texts[position] = texts[position], texts[0]


class Headers:
    """The headers of one message in a match. compared: values that were."""

    __slots__ = ("_texts", "compared", "table")

    def __init__(self, table: dict[str, object]) -> None:
        self.table = table
        self.compared: i64 = 0
        self._texts: dict[str, str] = {}

    def text_of(self, name: str) -> str:
        """The canonical text of the header `name`, which is there."""
        text = self._texts.get(name)
        if text is None:
            text = canonical_value(self.table[name])
            self._texts[name] = text
            self.compared += len(text) // TEXT_OF_ONE
        return text


class HeadersExchange(Exchange):
    """A list of rules, tried one after the other. size: values in all of them; steps: of all
    matches so far, one for a rule and one for VALUES_A_STEP values; version: grows with every
    change of the rules."""

    __slots__ = ("_listed", "_rules", "size", "steps", "version")

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
        self._listed: list[HeadersRule] | None = None
        self.size = 0
        self.steps: i64 = 0
        self.version: i64 = 0

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append the destination of every rule that agrees; a message without headers has {}."""
        topology = self._topology
        search = None if topology is None else topology.search
        if search is None:
            self._compare(0, headers, found, NO_BOUND)
            return
        known = search.known(self, self.version)
        if known is None:
            if not search.may_go_on():
                return
            before: i64 = self.steps
            at = self._compare(search.at, headers, search.found, search.left)
            known = search.found
            if not search.reached(at, self.steps - before, at == len(self._rules)):
                return
        found.extend(known)

    def _compare(
        self,
        at: i64,
        headers: Mapping[str, object] | None,
        found: list[Destination],
        steps: i64,
    ) -> i64:
        """Try rules from the `at`th on, for about so many steps; how many were tried in all."""
        if headers is None:
            table: dict[str, object] = {}
        elif isinstance(headers, dict):
            table = headers
        else:
            table = dict(headers)
        rules = self._listed
        if rules is None:
            rules = list(self._rules.values())
            self._listed = rules
        message = Headers(table)
        began = at
        end: i64 = len(rules)
        while at < end and at - began + message.compared // VALUES_A_STEP < steps:
            rule = rules[at]
            if rule.agrees(message):
                found.append(rule.destination)
            at += 1
        done = at - began + message.compared // VALUES_A_STEP
        self.steps += done
        if self._topology is not None:
            self._topology.worked(done)
        return at

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
        self._changed()

    def unindex(self, binding: Binding) -> None:
        """Take the rule of the equal binding away."""
        rule = self._rules.pop((binding.destination, binding.routing_key, binding.identity))
        self.size -= rule.size
        self._changed()

    def _changed(self) -> None:
        self._listed = None
        self.version += 1


def _is_plain(value: object) -> bool:
    """Whether values of its type are equal when Python says so."""
    kind = type(value)
    return value is None or kind is str or kind is int or kind is bool


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
        # The width is lost in decoding; aio-pika sends the smallest, others 32 bits (adr/0008).
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
