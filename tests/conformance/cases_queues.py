"""Queue methods: declare, equivalence, arguments, delete, purge, bind, exclusiveness.

Every code and text was recorded from RabbitMQ 3.10.8.
"""

from datetime import UTC, datetime
from typing import Any, Final

from pamqp.commands import Basic, Queue

from tests.conformance.cases import DEFAULT, Case, differs
from tests.conformance.peer import Step
from tests.conformance.steps import bind, consume, delete, put, q, unbind

LOCKED: Final = (
    "cannot obtain exclusive access to locked {q}. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)
NO_LAST: Final = (404, "no previously declared queue")
QUORUM: Final = {"x-queue-type": "quorum"}
INTEGER: Final = '"expected integer, got '

# What is wrong with the last of these arguments.
INVALID: Final[tuple[tuple[str, dict[str, Any], str], ...]] = (
    ("queue-ttl-negative", {"x-message-ttl": -1}, "{value_negative,-1}"),
    ("queue-ttl-text", {"x-message-ttl": "abc"}, INTEGER + 'longstr"'),
    ("queue-ttl-digits", {"x-message-ttl": "1000"}, INTEGER + 'longstr"'),
    ("queue-ttl-huge", {"x-message-ttl": 2**40}, "{value_too_large,1099511627776}"),
    ("queue-ttl-float", {"x-message-ttl": 1.5}, INTEGER + 'float"'),
    ("queue-ttl-true", {"x-message-ttl": True}, INTEGER + 'bool"'),
    ("queue-ttl-date", {"x-message-ttl": datetime.fromtimestamp(5, UTC)}, INTEGER + 'timestamp"'),
    ("queue-expires-zero", {"x-expires": 0}, "{value_zero,0}"),
    ("queue-expires-negative", {"x-expires": -5}, "{value_negative,-5}"),
    ("queue-expires-text", {"x-expires": "soon"}, INTEGER + 'longstr"'),
    ("queue-max-length-negative", {"x-max-length": -1}, "{value_negative,-1}"),
    ("queue-max-length-bytes-text", {"x-max-length-bytes": "big"}, INTEGER + 'longstr"'),
    ("queue-max-priority-negative", {"x-max-priority": -1}, "{value_negative,-1}"),
    ("queue-max-priority-256", {"x-max-priority": 256}, "{max_value_exceeded,256}"),
    ("queue-overflow-unknown", {"x-overflow": "spill"}, "invalid_overflow"),
    ("queue-overflow-number", {"x-overflow": 3}, "{unacceptable_type,byte}"),
    ("queue-mode-unknown", {"x-queue-mode": "busy"}, "\"unsupported queue mode 'busy'\""),
    ("queue-type-unknown", {"x-queue-type": "magic"}, "\"unsupported queue type 'magic'\""),
    ("queue-type-number", {"x-queue-type": 3}, "{unacceptable_type,byte}"),
    (
        "queue-dlrk-without-dlx",
        {"x-dead-letter-routing-key": "k"},
        "routing_key_but_no_dlx_defined",
    ),
    (
        "queue-dlrk-number",
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 3},
        "{unacceptable_type,byte}",
    ),
    (
        "queue-single-active-text",
        {"x-single-active-consumer": "yes"},
        "{unacceptable_type,longstr}",
    ),
)

# Second declarations of the same queue that differ in one thing.
DIFFERENT: Final = (
    differs(q, "queue-durable-differs", {}, {"durable": True}),
    differs(q, "queue-auto-delete-differs", {}, {"auto_delete": True}),
    differs(q, "queue-ttl-differs", {"x-message-ttl": 1000}, {"x-message-ttl": 2000}),
    differs(q, "queue-ttl-absent", {"x-message-ttl": 1000}, {}, "short"),
    differs(q, "queue-ttl-added", {}, {"x-message-ttl": 1000}, "short"),
    differs(q, "queue-max-length-differs", {"x-max-length": 5}, {"x-max-length": 6}),
    differs(q, "queue-max-length-differs-much", {"x-max-length": 5}, {"x-max-length": 70_000}),
    differs(
        q, "queue-dlx-differs", {"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": "b"}
    ),
)


def invalid_again(case: str, arguments: dict[str, Any], kind: str) -> Case:
    """A second declaration with an argument that would be invalid in a first one."""
    ((key, value),) = arguments.items()
    text = f"inequivalent arg '{key}' for {{q}}: received the value '{value}' of type '{kind}' "
    return Case(
        case, lambda n: [q(n), q(n, arguments=arguments)], (406, f"{text}but current is none")
    )


# RabbitMQ says what differs before it looks whether a declaration makes sense.
INVALID_AGAIN: Final = (
    invalid_again("queue-again-ttl-negative", {"x-message-ttl": -1}, "byte"),
    invalid_again("queue-again-ttl-text", {"x-message-ttl": "a"}, "longstr"),
    invalid_again("queue-again-expires-zero", {"x-expires": 0}, "byte"),
    invalid_again("queue-again-max-length-text", {"x-max-length": "z"}, "longstr"),
    invalid_again("queue-again-overflow-unknown", {"x-overflow": "nope"}, "longstr"),
    invalid_again("queue-again-type-unknown", {"x-queue-type": "nope"}, "longstr"),
    invalid_again("queue-again-type-number", {"x-queue-type": 5}, "byte"),
    invalid_again("queue-again-priority-too-high", {"x-max-priority": 300}, "short"),
    invalid_again("queue-again-dlx-number", {"x-dead-letter-exchange": 5}, "byte"),
    Case(
        "queue-again-ttl-negative-differs",
        lambda n: [
            q(n, arguments={"x-message-ttl": 5}),
            q(n, arguments={"x-message-ttl": -5}),
        ],
        (406, "inequivalent arg 'x-message-ttl' for {q}: received '-5' but current is '5'"),
    ),
)


def quorum(case: str, text: str, arguments: dict[str, Any] | None = None, **flags: bool) -> Case:
    """A quorum queue that cannot be declared like this."""
    table = {**QUORUM, **(arguments or {})}
    return Case(case, lambda n: [q(n, arguments=table, **flags)], (406, text))


QUORUMS: Final = (
    Case("queue-quorum", lambda n: [q(n, durable=True, arguments=QUORUM)]),
    quorum("queue-quorum-not-durable", "invalid property 'non-durable' for {q}"),
    quorum("queue-quorum-exclusive", "invalid property 'exclusive-owner' for {q}", exclusive=True),
    quorum(
        "queue-quorum-auto-delete",
        "invalid property 'auto-delete' for {q}",
        durable=True,
        auto_delete=True,
    ),
    Case(
        "queue-quorum-without-a-name",
        lambda n: [q("", durable=True, arguments=QUORUM)],
        (406, "Cannot declare a server-named queue for type rabbit_quorum_queue"),
    ),
    quorum(
        "queue-quorum-priorities",
        "invalid arg 'x-max-priority' for {q} of queue type rabbit_quorum_queue",
        {"x-max-priority": 3},
        durable=True,
    ),
    Case(
        "queue-quorum-once-more-as-classic",
        lambda n: [
            q(n, durable=True, arguments=QUORUM),
            q(n, durable=True, arguments={"x-queue-type": "classic"}),
        ],
        (
            406,
            "inequivalent arg 'x-queue-type' for {q}: received 'classic' but current is 'quorum'",
        ),
    ),
    quorum(
        "queue-quorum-no-group",
        "invalid arg 'x-quorum-initial-group-size' for {q}: {value_zero,0}",
        {"x-quorum-initial-group-size": 0},
        durable=True,
    ),
    quorum(
        "queue-quorum-leader-nowhere",
        "invalid arg 'x-queue-leader-locator' for {q}: invalid_queue_locator_arg",
        {"x-queue-leader-locator": "near"},
        durable=True,
    ),
)


BOUND: Final = (
    Case("queue-bind-missing-queue", lambda n: [bind(n, "amq.direct", "k")], (404, "no {q}")),
    Case("queue-bind-missing-exchange", lambda n: [q(n), bind(n, n, "k")], (404, "no {x}")),
    Case("queue-bind-missing-both", lambda n: [bind(n, n, "k")], (404, "no {x}")),
    Case("queue-bind-default-exchange", lambda n: [q(n), bind(n, "", "k")], (403, DEFAULT)),
    Case(
        "queue-bind-headers-bad-x-match",
        lambda n: [q(n), bind(n, "amq.headers", "", {"x-match": "some"})],
        (
            406,
            'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
        method=(50, 20),
    ),
    Case(
        "queue-bind-headers-x-match-number",
        lambda n: [q(n), bind(n, "amq.headers", "", {"x-match": 1})],
        (406, "Invalid x-match field type byte (value 1); expected longstr"),
    ),
    Case("queue-bind-headers-no-x-match", lambda n: [q(n), bind(n, "amq.headers", "", {"a": 1})]),
    Case(
        "queue-bind-headers-all-with-x",
        lambda n: [q(n), bind(n, "amq.headers", "", {"x-match": "all-with-x"})],
    ),
    Case("queue-unbind-missing-binding", lambda n: [q(n), unbind(n, "amq.direct")]),
    Case("queue-unbind-missing-queue", lambda n: [unbind(n, "amq.direct")]),
    Case("queue-unbind-missing-exchange", lambda n: [q(n), unbind(n, n)]),
    Case("queue-unbind-default-exchange", lambda n: [q(n), unbind(n, "")], (403, DEFAULT)),
)

# Methods about the queue declared last, on a channel that has declared none.
UNNAMED: Final[tuple[tuple[str, Step, int], ...]] = (
    ("queue-delete-last-declared-none", delete(""), 40),
    ("queue-purge-last-declared-none", Queue.Purge(queue=""), 30),
    ("queue-bind-last-declared-none", bind("", "amq.direct", "k"), 20),
    ("queue-bind-last-declared-none-exchange-missing", bind("", "nowhere", "k"), 20),
    ("queue-unbind-last-declared-none", unbind("", "amq.direct"), 50),
)


def exclusive(name: str) -> list[Step]:
    """Another connection holds the queue."""
    return [q(name, exclusive=True)]


def bound(name: str) -> list[Step]:
    """Another connection holds the queue, and has bound it."""
    return [q(name, exclusive=True), bind(name, "amq.direct", "k")]


OWNED: Final = (
    Case("locked-declare", exclusive, (405, LOCKED), exclusive),
    Case("locked-declare-plain", lambda n: [q(n)], (405, LOCKED), exclusive),
    Case("locked-passive", lambda n: [q(n, passive=True)], (405, LOCKED), exclusive),
    Case("locked-delete", lambda n: [delete(n)], (405, LOCKED), exclusive),
    Case("locked-purge", lambda n: [Queue.Purge(queue=n)], (405, LOCKED), exclusive),
    Case("locked-bind", lambda n: [bind(n, "amq.direct")], (405, LOCKED), exclusive),
    Case("locked-unbind", lambda n: [unbind(n, "amq.direct")], owner=exclusive),
    Case(
        "locked-unbind-of-a-binding",
        lambda n: [unbind(n, "amq.direct", "k")],
        (405, LOCKED),
        bound,
        (50, 50),
    ),
    Case(
        "locked-unbind-of-another-binding",
        lambda n: [unbind(n, "amq.direct", "other")],
        owner=bound,
    ),
    Case(
        "locked-bind-again", lambda n: [bind(n, "amq.direct", "k")], (405, LOCKED), bound, (50, 20)
    ),
    Case("locked-consume", lambda n: [consume(n)], (405, LOCKED), exclusive),
    Case("locked-get", lambda n: [Basic.Get(queue=n)], (405, LOCKED), exclusive),
    Case("locked-publish", lambda n: [put("", n)], owner=exclusive),
)


def invalid(case: str, arguments: dict[str, Any], why: str) -> Case:
    """A queue that cannot be declared with these arguments."""
    text = f"invalid arg '{list(arguments)[-1]}' for {{q}}: {why}"
    return Case(case, lambda n: [q(n, arguments=arguments)], (406, text))


def unnamed(case: str, step: Step, method: int) -> Case:
    """A method about no queue at all."""
    return Case(case, lambda _: [step], NO_LAST, method=(50, method))


CASES: Final = (
    *DIFFERENT,
    *INVALID_AGAIN,
    *(invalid(*row) for row in INVALID),
    *QUORUMS,
    *BOUND,
    *(unnamed(*row) for row in UNNAMED),
    *OWNED,
    Case("queue-passive-missing", lambda n: [q(n, passive=True)], (404, "no {q}")),
    Case(
        "queue-exclusive-is-not-durable",
        lambda n: [q(n, durable=True, exclusive=True), q(n, exclusive=True)],
    ),
    Case("queue-exclusive-differs", lambda n: [q(n), q(n, exclusive=True)], (405, LOCKED)),
    Case("queue-exclusive-was", lambda n: [q(n, exclusive=True), q(n)], (405, LOCKED)),
    Case(
        "queue-unknown-argument-differs",
        lambda n: [q(n, arguments={"x-other": 1}), q(n, arguments={"x-other": 2})],
    ),
    Case("queue-same-twice", lambda n: [q(n, arguments={"x-max-length": 5})] * 2),
    Case(
        "queue-passive-ignores-arguments",
        lambda n: [q(n), q(n, passive=True, durable=True, arguments={"x-max-length": 5})],
    ),
    Case(
        "queue-passive-without-a-name",
        lambda n: [q(n), q("", passive=True)],
        (404, "no queue '' in vhost '/'"),
        method=(50, 10),
    ),
    Case(
        "queue-reserved-name",
        lambda n: [q("amq.x" + n)],
        (403, "queue name 'amq.x{n}' contains reserved prefix 'amq.*'"),
    ),
    Case(
        "queue-reserved-name-passive",
        lambda n: [q("amq.x" + n, passive=True)],
        (404, "no queue 'amq.x{n}' in vhost '/'"),
    ),
    Case(
        "queue-dlx-number",
        lambda n: [q(n, arguments={"x-dead-letter-exchange": 3})],
        (406, "invalid type 'byte' for arg 'x-dead-letter-exchange' in {q}"),
    ),
    Case("queue-unknown-x-argument", lambda n: [q(n, arguments={"x-nobody-knows": "yes"})]),
    Case("queue-delete-missing", lambda n: [delete(n)]),
    Case(
        "queue-delete-if-empty",
        lambda n: [q(n), put("", n), delete(n, if_empty=True)],
        (406, "{q} not empty"),
    ),
    Case(
        "queue-delete-if-unused",
        lambda n: [q(n), consume(n), delete(n, if_unused=True)],
        (406, "{q} in use"),
    ),
    Case("queue-delete-if-unused-ok", lambda n: [q(n), delete(n, if_unused=True, if_empty=True)]),
    Case("queue-purge-missing", lambda n: [Queue.Purge(queue=n)], (404, "no {q}")),
)
