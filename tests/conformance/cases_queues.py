"""Queue methods: declare, equivalence, arguments, delete, purge, bind, exclusiveness.

Every code and text was recorded from RabbitMQ 3.10.8.
"""

from __future__ import annotations

from typing import Final

from pamqp.commands import Basic, Queue

from tests.conformance.cases import Case
from tests.conformance.peer import Step
from tests.conformance.steps import bind, consume, put, q, unbind

LOCKED: Final = (
    "cannot obtain exclusive access to locked {q}. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)
DEFAULT: Final = "operation not permitted on the default exchange"
NO_LAST: Final = "no previously declared queue"
QUORUM: Final = {"x-queue-type": "quorum"}


def exclusive(name: str) -> list[Step]:
    """Another connection holds the queue."""
    return [q(name, exclusive=True)]


def bound(name: str) -> list[Step]:
    """Another connection holds the queue, and has bound it."""
    return [q(name, exclusive=True), bind(name, "amq.direct", "k")]


CASES: Final = (
    Case("queue-passive-missing", lambda n: [q(n, passive=True)], (404, "no {q}")),
    Case(
        "queue-durable-differs",
        lambda n: [q(n), q(n, durable=True)],
        (406, "inequivalent arg 'durable' for {q}: received 'true' but current is 'false'"),
    ),
    Case(
        "queue-auto-delete-differs",
        lambda n: [q(n), q(n, auto_delete=True)],
        (406, ("inequivalent arg 'auto_delete' for {q}: received 'true' but current is 'false'")),
    ),
    Case("queue-exclusive-differs", lambda n: [q(n), q(n, exclusive=True)], (405, LOCKED)),
    Case("queue-exclusive-was", lambda n: [q(n, exclusive=True), q(n)], (405, LOCKED)),
    Case(
        "queue-ttl-differs",
        lambda n: [
            q(n, arguments={"x-message-ttl": 1000}),
            q(n, arguments={"x-message-ttl": 2000}),
        ],
        (406, ("inequivalent arg 'x-message-ttl' for {q}: received '2000' but current is '1000'")),
    ),
    Case(
        "queue-ttl-absent",
        lambda n: [q(n, arguments={"x-message-ttl": 1000}), q(n)],
        (
            406,
            (
                "inequivalent arg 'x-message-ttl' for {q}: received none but "
                "current is the value '1000' of type 'short'"
            ),
        ),
    ),
    Case(
        "queue-ttl-added",
        lambda n: [q(n), q(n, arguments={"x-message-ttl": 1000})],
        (
            406,
            (
                "inequivalent arg 'x-message-ttl' for {q}: received the "
                "value '1000' of type 'short' but current is none"
            ),
        ),
    ),
    Case(
        "queue-max-length-differs",
        lambda n: [q(n, arguments={"x-max-length": 5}), q(n, arguments={"x-max-length": 6})],
        (406, "inequivalent arg 'x-max-length' for {q}: received '6' but current is '5'"),
    ),
    Case(
        "queue-dlx-differs",
        lambda n: [
            q(n, arguments={"x-dead-letter-exchange": "a"}),
            q(n, arguments={"x-dead-letter-exchange": "b"}),
        ],
        (
            406,
            ("inequivalent arg 'x-dead-letter-exchange' for {q}: received 'b' but current is 'a'"),
        ),
    ),
    Case(
        "queue-unknown-argument-differs",
        lambda n: [q(n, arguments={"x-other": 1}), q(n, arguments={"x-other": 2})],
    ),
    Case(
        "queue-same-twice",
        lambda n: [q(n, arguments={"x-max-length": 5}), q(n, arguments={"x-max-length": 5})],
    ),
    Case(
        "queue-passive-ignores-arguments",
        lambda n: [q(n), q(n, passive=True, durable=True, arguments={"x-max-length": 5})],
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
        "queue-ttl-negative",
        lambda n: [q(n, arguments={"x-message-ttl": -1})],
        (406, "invalid arg 'x-message-ttl' for {q}: {value_negative,-1}"),
    ),
    Case(
        "queue-ttl-text",
        lambda n: [q(n, arguments={"x-message-ttl": "abc"})],
        (406, "invalid arg 'x-message-ttl' for {q}: \"expected integer, got longstr\""),
    ),
    Case(
        "queue-ttl-digits",
        lambda n: [q(n, arguments={"x-message-ttl": "1000"})],
        (406, "invalid arg 'x-message-ttl' for {q}: \"expected integer, got longstr\""),
    ),
    Case(
        "queue-ttl-huge",
        lambda n: [q(n, arguments={"x-message-ttl": 2**40})],
        (406, "invalid arg 'x-message-ttl' for {q}: {value_too_large,1099511627776}"),
    ),
    Case(
        "queue-ttl-float",
        lambda n: [q(n, arguments={"x-message-ttl": 1.5})],
        (406, "invalid arg 'x-message-ttl' for {q}: \"expected integer, got float\""),
    ),
    Case(
        "queue-ttl-true",
        lambda n: [q(n, arguments={"x-message-ttl": True})],
        (406, "invalid arg 'x-message-ttl' for {q}: \"expected integer, got bool\""),
    ),
    Case(
        "queue-expires-zero",
        lambda n: [q(n, arguments={"x-expires": 0})],
        (406, "invalid arg 'x-expires' for {q}: {value_zero,0}"),
    ),
    Case(
        "queue-expires-negative",
        lambda n: [q(n, arguments={"x-expires": -5})],
        (406, "invalid arg 'x-expires' for {q}: {value_negative,-5}"),
    ),
    Case(
        "queue-expires-text",
        lambda n: [q(n, arguments={"x-expires": "soon"})],
        (406, "invalid arg 'x-expires' for {q}: \"expected integer, got longstr\""),
    ),
    Case(
        "queue-max-length-negative",
        lambda n: [q(n, arguments={"x-max-length": -1})],
        (406, "invalid arg 'x-max-length' for {q}: {value_negative,-1}"),
    ),
    Case(
        "queue-max-length-bytes-text",
        lambda n: [q(n, arguments={"x-max-length-bytes": "big"})],
        (406, "invalid arg 'x-max-length-bytes' for {q}: \"expected integer, got longstr\""),
    ),
    Case(
        "queue-max-priority-negative",
        lambda n: [q(n, arguments={"x-max-priority": -1})],
        (406, "invalid arg 'x-max-priority' for {q}: {value_negative,-1}"),
    ),
    Case(
        "queue-max-priority-256",
        lambda n: [q(n, arguments={"x-max-priority": 256})],
        (406, "invalid arg 'x-max-priority' for {q}: {max_value_exceeded,256}"),
    ),
    Case(
        "queue-overflow-unknown",
        lambda n: [q(n, arguments={"x-overflow": "spill"})],
        (406, "invalid arg 'x-overflow' for {q}: invalid_overflow"),
    ),
    Case(
        "queue-overflow-number",
        lambda n: [q(n, arguments={"x-overflow": 3})],
        (406, "invalid arg 'x-overflow' for {q}: {unacceptable_type,byte}"),
    ),
    Case(
        "queue-mode-unknown",
        lambda n: [q(n, arguments={"x-queue-mode": "busy"})],
        (406, "invalid arg 'x-queue-mode' for {q}: \"unsupported queue mode 'busy'\""),
    ),
    Case(
        "queue-type-unknown",
        lambda n: [q(n, arguments={"x-queue-type": "magic"})],
        (406, "invalid arg 'x-queue-type' for {q}: \"unsupported queue type 'magic'\""),
    ),
    Case(
        "queue-type-number",
        lambda n: [q(n, arguments={"x-queue-type": 3})],
        (406, "invalid arg 'x-queue-type' for {q}: {unacceptable_type,byte}"),
    ),
    Case("queue-quorum", lambda n: [q(n, durable=True, arguments=QUORUM)]),
    Case(
        "queue-quorum-not-durable",
        lambda n: [q(n, arguments=QUORUM)],
        (406, "invalid property 'non-durable' for {q}"),
    ),
    Case(
        "queue-quorum-exclusive",
        lambda n: [q(n, exclusive=True, arguments=QUORUM)],
        (406, "invalid property 'exclusive-owner' for {q}"),
    ),
    Case(
        "queue-quorum-auto-delete",
        lambda n: [q(n, durable=True, auto_delete=True, arguments=QUORUM)],
        (406, "invalid property 'auto-delete' for {q}"),
    ),
    Case(
        "queue-quorum-without-a-name",
        lambda n: [q("", durable=True, arguments=QUORUM)],
        (406, "Cannot declare a server-named queue for type rabbit_quorum_queue"),
    ),
    Case(
        "queue-quorum-priorities",
        lambda n: [q(n, durable=True, arguments={**QUORUM, "x-max-priority": 3})],
        (406, "invalid arg 'x-max-priority' for {q} of queue type rabbit_quorum_queue"),
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
    Case(
        "queue-quorum-no-group",
        lambda n: [q(n, durable=True, arguments={**QUORUM, "x-quorum-initial-group-size": 0})],
        (406, "invalid arg 'x-quorum-initial-group-size' for {q}: {value_zero,0}"),
    ),
    Case(
        "queue-quorum-leader-nowhere",
        lambda n: [q(n, durable=True, arguments={**QUORUM, "x-queue-leader-locator": "near"})],
        (406, "invalid arg 'x-queue-leader-locator' for {q}: invalid_queue_locator_arg"),
    ),
    Case(
        "queue-dlx-number",
        lambda n: [q(n, arguments={"x-dead-letter-exchange": 3})],
        (406, "invalid type 'byte' for arg 'x-dead-letter-exchange' in {q}"),
    ),
    Case(
        "queue-dlrk-without-dlx",
        lambda n: [q(n, arguments={"x-dead-letter-routing-key": "k"})],
        (406, ("invalid arg 'x-dead-letter-routing-key' for {q}: routing_key_but_no_dlx_defined")),
    ),
    Case(
        "queue-dlrk-number",
        lambda n: [q(n, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 3})],
        (406, "invalid arg 'x-dead-letter-routing-key' for {q}: {unacceptable_type,byte}"),
    ),
    Case(
        "queue-single-active-text",
        lambda n: [q(n, arguments={"x-single-active-consumer": "yes"})],
        (406, "invalid arg 'x-single-active-consumer' for {q}: {unacceptable_type,longstr}"),
    ),
    Case("queue-unknown-x-argument", lambda n: [q(n, arguments={"x-nobody-knows": "yes"})]),
    Case("queue-delete-missing", lambda n: [Queue.Delete(queue=n)]),
    Case(
        "queue-delete-if-empty",
        lambda n: [q(n), put("", n), Queue.Delete(queue=n, if_empty=True)],
        (406, "{q} not empty"),
    ),
    Case(
        "queue-delete-if-unused",
        lambda n: [q(n), consume(n), Queue.Delete(queue=n, if_unused=True)],
        (406, "{q} in use"),
    ),
    Case(
        "queue-delete-if-unused-ok",
        lambda n: [q(n), Queue.Delete(queue=n, if_unused=True, if_empty=True)],
    ),
    Case(
        "queue-delete-last-declared-none",
        lambda n: [Queue.Delete(queue="")],
        (404, NO_LAST),
        method=(50, 40),
    ),
    Case("queue-purge-missing", lambda n: [Queue.Purge(queue=n)], (404, "no {q}")),
    Case(
        "queue-purge-last-declared-none",
        lambda n: [Queue.Purge(queue="")],
        (404, NO_LAST),
        method=(50, 30),
    ),
    Case(
        "queue-bind-missing-queue",
        lambda n: [Queue.Bind(queue=n, exchange="amq.direct", routing_key="k")],
        (404, "no {q}"),
    ),
    Case(
        "queue-bind-missing-exchange",
        lambda n: [q(n), Queue.Bind(queue=n, exchange=n, routing_key="k")],
        (404, "no {x}"),
    ),
    Case(
        "queue-bind-missing-both",
        lambda n: [Queue.Bind(queue=n, exchange=n, routing_key="k")],
        (404, "no {x}"),
    ),
    Case(
        "queue-bind-default-exchange",
        lambda n: [q(n), Queue.Bind(queue=n, exchange="", routing_key="k")],
        (403, DEFAULT),
    ),
    Case(
        "queue-bind-last-declared-none",
        lambda n: [Queue.Bind(queue="", exchange="amq.direct", routing_key="k")],
        (404, NO_LAST),
        method=(50, 20),
    ),
    Case(
        "queue-bind-last-declared-none-exchange-missing",
        lambda n: [Queue.Bind(queue="", exchange=n, routing_key="k")],
        (404, NO_LAST),
        method=(50, 20),
    ),
    Case(
        "queue-unbind-last-declared-none",
        lambda n: [unbind("", "amq.direct")],
        (404, NO_LAST),
        method=(50, 50),
    ),
    Case(
        "queue-passive-without-a-name",
        lambda n: [q(n), q("", passive=True)],
        (404, "no queue '' in vhost '/'"),
        method=(50, 10),
    ),
    Case(
        "queue-bind-headers-bad-x-match",
        lambda n: [
            q(n),
            Queue.Bind(queue=n, exchange="amq.headers", arguments={"x-match": "some"}),
        ],
        (
            406,
            (
                'Invalid x-match field value <<"some">>; expected all, any, '
                "all-with-x, or any-with-x"
            ),
        ),
    ),
    Case(
        "queue-bind-headers-x-match-number",
        lambda n: [q(n), Queue.Bind(queue=n, exchange="amq.headers", arguments={"x-match": 1})],
        (406, "Invalid x-match field type byte (value 1); expected longstr"),
    ),
    Case(
        "queue-bind-headers-no-x-match",
        lambda n: [q(n), Queue.Bind(queue=n, exchange="amq.headers", arguments={"a": 1})],
    ),
    Case(
        "queue-bind-headers-all-with-x",
        lambda n: [
            q(n),
            Queue.Bind(queue=n, exchange="amq.headers", arguments={"x-match": "all-with-x"}),
        ],
    ),
    Case("queue-unbind-missing-binding", lambda n: [q(n), unbind(n, "amq.direct")]),
    Case("queue-unbind-missing-queue", lambda n: [unbind(n, "amq.direct")]),
    Case("queue-unbind-missing-exchange", lambda n: [q(n), unbind(n, n)]),
    Case("queue-unbind-default-exchange", lambda n: [q(n), unbind(n, "")], (403, DEFAULT)),
    Case("locked-declare", lambda n: [q(n, exclusive=True)], (405, LOCKED), owner=exclusive),
    Case("locked-declare-plain", lambda n: [q(n)], (405, LOCKED), owner=exclusive),
    Case("locked-passive", lambda n: [q(n, passive=True)], (405, LOCKED), owner=exclusive),
    Case("locked-delete", lambda n: [Queue.Delete(queue=n)], (405, LOCKED), owner=exclusive),
    Case("locked-purge", lambda n: [Queue.Purge(queue=n)], (405, LOCKED), owner=exclusive),
    Case("locked-bind", lambda n: [bind(n, "amq.direct")], (405, LOCKED), owner=exclusive),
    Case("locked-unbind", lambda n: [unbind(n, "amq.direct")], owner=exclusive),
    Case(
        "locked-unbind-of-a-binding",
        lambda n: [unbind(n, "amq.direct", "k")],
        (405, LOCKED),
        owner=bound,
        method=(50, 50),
    ),
    Case(
        "locked-unbind-of-another-binding",
        lambda n: [unbind(n, "amq.direct", "other")],
        owner=bound,
    ),
    Case(
        "locked-bind-again",
        lambda n: [bind(n, "amq.direct", "k")],
        (405, LOCKED),
        owner=bound,
        method=(50, 20),
    ),
    Case("locked-consume", lambda n: [consume(n)], (405, LOCKED), owner=exclusive),
    Case("locked-get", lambda n: [Basic.Get(queue=n)], (405, LOCKED), owner=exclusive),
    Case("locked-publish", lambda n: [put("", n)], owner=exclusive),
)
