"""What a case of the conformance tables is, and how an expectation becomes an outcome."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.conformance.peer import GONE, Outcome, Step
from tests.conformance.steps import q

CODE_NAMES: Final = {
    311: "CONTENT_TOO_LARGE",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}
# The specification's soft errors: they close the channel, all others the connection.
SOFT: Final = frozenset((311, 403, 404, 405, 406))
# Texts in which RabbitMQ prints Erlang terms of the offending bytes: only the code is compared.
ANY_TEXT: Final = "*"
# RabbitMQ's connection process crashes on these and closes the socket, or reports 541. What
# counts is that the connection ends and the broker lives.
ENDED: Final = (0, "the connection ends")
FINE: Final = (200, "")
DEFAULT: Final = "operation not permitted on the default exchange"

Expected = tuple[int, str]

# Where Penstock answers otherwise on purpose, and why. Everything else is RabbitMQ's answer.
DELIBERATE: Final[dict[str, tuple[Expected, str]]] = {
    "queue-ttl-huge": (FINE, "a time to live may be up to 2**64 - 1 ms, not only 2**32 - 1"),
    "exchange-type-unknown": (
        (406, "unknown exchange type 'magic'"),
        "only the channel pays for a typo; RabbitMQ's code since does the same",
    ),
    "exchange-type-empty": (
        (406, "unknown exchange type ''"),
        "only the channel pays for a typo; RabbitMQ's code since does the same",
    ),
    "qos-prefetch-size": (FINE, "byte prefetch is honoured; RabbitMQ never implemented it"),
    "flow-off": (FINE, "a client may pause its deliveries; RabbitMQ gave that up in 3.3"),
    "method-truncated": ((502, ANY_TEXT), "the code the specification has for illegal values"),
    "method-trailing-bytes": ((502, ANY_TEXT), "the code the specification has for illegal values"),
    "topic.*": (
        (
            403,
            "access to topic '/-topic-y-x' in exchange 'perm.topic' in vhost '/' refused for user "
            "'topic.*'",
        ),
        "a user's name is no pattern (CVE-2026-44838 is its like)",
    ),
    "topic-carbon-copy": (
        (
            403,
            "access to topic 'b.b' in exchange 'perm.topic' in vhost '/' refused for user "
            "'topic-carbon-copy'",
        ),
        "the keys of CC are no way around rights on topics; RabbitMQ's code since does the same",
    ),
    "publish-key-of-bytes": (
        (502, ANY_TEXT),
        "names are text everywhere, as RabbitMQ has them in every method but this one",
    ),
    "publish-table-garbage": (
        FINE,
        "headers nobody looks into are passed on unread; RabbitMQ's connection crashes",
    ),
}


class Case(NamedTuple):
    """Steps on a fresh connection and the reply code and text that must end it.

    expected: `{q}` and `{x}` stand for the queue and the exchange named like the test, `{n}` for
    the name itself. The symbolic name of the code that every text starts with is left out.
    owner: steps that another connection, open meanwhile, does first.
    method: class and method of the channel.close, None where they are not looked at.
    """

    id: str
    steps: Callable[[str], Sequence[Step]]
    expected: Expected = FINE
    owner: Callable[[str], Sequence[Step]] | None = None
    method: tuple[int, int] | None = None


def differs(
    declare: Callable[..., Step],
    case: str,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    kind: str = "",
) -> Case:
    """Declared with the one flag or argument of `first`, then with that of `second`.

    kind: the type on the wire of an argument that only one of them has.
    """
    (key,) = {*first, *second}
    is_argument = "-" in key

    def declared(name: str, given: Mapping[str, Any]) -> Step:
        return (
            declare(name, arguments=dict(given))
            if is_argument and given
            else declare(name, **given)
        )

    def said(given: Mapping[str, Any]) -> str:
        if key in given:
            value = str(given[key]) if is_argument else str(given[key]).lower()
            return f"the value '{value}' of type '{kind}'" if kind else f"'{value}'"
        return "none" if is_argument else "'false'"

    where = "{q}" if declare is q else "{x}"
    text = f"inequivalent arg '{key}' for {where}: received {said(second)} but current is "
    return Case(
        case, lambda n: [declared(n, first), declared(n, second)], (406, text + said(first))
    )


def check(got: Outcome, expected: Expected, name: str) -> None:
    """Raise AssertionError unless `got` is the expected end, code and text."""
    code, pattern = expected
    if expected == ENDED:
        assert got == GONE or got.scope == "connection", got
        return
    if expected == FINE:
        assert got.scope == "ok", got
        return
    scope = "channel" if code in SOFT else "connection"
    assert (got.scope, got.code) == (scope, code), got
    if pattern == ANY_TEXT:
        assert got.text.startswith(CODE_NAMES[code]), got
        return
    text = pattern.replace("{q}", "queue '{n}' in vhost '/'")
    text = text.replace("{x}", "exchange '{n}' in vhost '/'").replace("{n}", name)
    assert got.text == f"{CODE_NAMES[code]} - {text}"
