"""Exchange methods: declare, equivalence, delete, bindings between exchanges.

Every code and text was recorded from RabbitMQ 3.10.8.
"""

from typing import Final

from pamqp.commands import Exchange

from tests.conformance.cases import DEFAULT, Case, differs
from tests.conformance.steps import bind, bind_exchange, q, unbind_exchange, x

ALTERNATE: Final = "alternate-exchange"

CASES: Final = (
    Case("exchange-passive-missing", lambda n: [x(n, passive=True)], (404, "no {x}")),
    Case("exchange-passive-default", lambda n: [x("", passive=True)], (403, DEFAULT)),
    differs(x, "exchange-durable-differs", {}, {"durable": True}),
    differs(x, "exchange-auto-delete-differs", {}, {"auto_delete": True}),
    differs(x, "exchange-internal-differs", {}, {"internal": True}),
    differs(x, "exchange-alternate-differs", {}, {ALTERNATE: "amq.direct"}, "longstr"),
    differs(x, "exchange-alternate-changed", {ALTERNATE: "amq.fanout"}, {ALTERNATE: "amq.direct"}),
    Case(
        "exchange-type-differs",
        lambda n: [x(n), x(n, "fanout")],
        (406, "inequivalent arg 'type' for {x}: received 'fanout' but current is 'direct'"),
    ),
    Case("exchange-other-argument-differs", lambda n: [x(n), x(n, arguments={"other": 1})]),
    Case(
        "exchange-alternate-number",
        lambda n: [x(n, arguments={"alternate-exchange": 5})],
        (406, "invalid type 'byte' for arg 'alternate-exchange' in {x}"),
    ),
    Case(
        "exchange-type-unknown", lambda n: [x(n, "magic")], (503, "unknown exchange type 'magic'")
    ),
    Case("exchange-type-empty", lambda n: [x(n, "")], (503, "invalid exchange type ''")),
    Case(
        "exchange-reserved-name",
        lambda n: [x("amq.x" + n)],
        (403, "exchange name 'amq.x{n}' contains reserved prefix 'amq.*'"),
    ),
    Case(
        "exchange-reserved-passive",
        lambda n: [x("amq.x" + n, passive=True)],
        (404, "no exchange 'amq.x{n}' in vhost '/'"),
    ),
    Case("exchange-builtin-again", lambda n: [x("amq.direct", durable=True)]),
    Case(
        "exchange-builtin-differs",
        lambda n: [x("amq.direct", "fanout", durable=True)],
        (
            406,
            "inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'fanout' but "
            "current is 'direct'",
        ),
    ),
    Case("exchange-default-declare", lambda n: [x("")], (403, DEFAULT)),
    Case("exchange-default-delete", lambda n: [Exchange.Delete(exchange="")], (403, DEFAULT)),
    Case(
        "exchange-builtin-delete",
        lambda n: [Exchange.Delete(exchange="amq.direct")],
        (403, "deletion of system exchange 'amq.direct' in vhost '/' not allowed"),
    ),
    Case("exchange-delete-missing", lambda n: [Exchange.Delete(exchange=n)]),
    Case(
        "exchange-delete-if-unused",
        lambda n: [
            x(n),
            q(n),
            bind(n, n),
            Exchange.Delete(exchange=n, if_unused=True),
        ],
        (406, "{x} in use"),
    ),
    Case(
        "exchange-delete-if-unused-ok",
        lambda n: [x(n), Exchange.Delete(exchange=n, if_unused=True)],
    ),
    Case(
        "exchange-bind-missing-source",
        lambda n: [x(n), bind_exchange(n, "x" + n)],
        (404, "no exchange 'x{n}' in vhost '/'"),
    ),
    Case(
        "exchange-bind-missing-destination",
        lambda n: [x(n), bind_exchange("x" + n, n)],
        (404, "no exchange 'x{n}' in vhost '/'"),
    ),
    Case(
        "exchange-bind-missing-both",
        lambda n: [bind_exchange("d" + n, "s" + n)],
        (404, "no exchange 's{n}' in vhost '/'"),
    ),
    Case("exchange-bind-default-source", lambda n: [x(n), bind_exchange(n, "")], (403, DEFAULT)),
    Case(
        "exchange-bind-default-destination", lambda n: [x(n), bind_exchange("", n)], (403, DEFAULT)
    ),
    Case("exchange-unbind-missing-binding", lambda n: [x(n), unbind_exchange(n, "amq.direct")]),
    Case("exchange-unbind-missing-source", lambda n: [x(n), unbind_exchange(n, "x" + n)]),
    Case("exchange-unbind-default", lambda n: [x(n), unbind_exchange(n, "")], (403, DEFAULT)),
)
