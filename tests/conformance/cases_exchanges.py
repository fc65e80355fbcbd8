"""Exchange methods: declare, equivalence, delete, bindings between exchanges.

Every code and text was recorded from RabbitMQ 3.10.8.
"""

from __future__ import annotations

from typing import Final

from pamqp.commands import Exchange, Queue

from tests.conformance.cases import Case
from tests.conformance.steps import q, x

DEFAULT: Final = "operation not permitted on the default exchange"

CASES: Final = (
    Case("exchange-passive-missing", lambda n: [x(n, passive=True)], (404, "no {x}")),
    Case("exchange-passive-default", lambda n: [x("", passive=True)], (403, DEFAULT)),
    Case(
        "exchange-type-differs",
        lambda n: [x(n), x(n, "fanout")],
        (406, "inequivalent arg 'type' for {x}: received 'fanout' but current is 'direct'"),
    ),
    Case(
        "exchange-durable-differs",
        lambda n: [x(n), x(n, durable=True)],
        (406, "inequivalent arg 'durable' for {x}: received 'true' but current is 'false'"),
    ),
    Case(
        "exchange-auto-delete-differs",
        lambda n: [x(n), x(n, auto_delete=True)],
        (406, ("inequivalent arg 'auto_delete' for {x}: received 'true' but current is 'false'")),
    ),
    Case(
        "exchange-internal-differs",
        lambda n: [x(n), x(n, internal=True)],
        (406, "inequivalent arg 'internal' for {x}: received 'true' but current is 'false'"),
    ),
    Case(
        "exchange-alternate-differs",
        lambda n: [x(n), x(n, arguments={"alternate-exchange": "amq.direct"})],
        (
            406,
            (
                "inequivalent arg 'alternate-exchange' for {x}: received the "
                "value 'amq.direct' of type 'longstr' but current is none"
            ),
        ),
    ),
    Case(
        "exchange-alternate-changed",
        lambda n: [
            x(n, arguments={"alternate-exchange": "amq.fanout"}),
            x(n, arguments={"alternate-exchange": "amq.direct"}),
        ],
        (
            406,
            (
                "inequivalent arg 'alternate-exchange' for {x}: received "
                "'amq.direct' but current is 'amq.fanout'"
            ),
        ),
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
            (
                "inequivalent arg 'type' for exchange 'amq.direct' in vhost "
                "'/': received 'fanout' but current is 'direct'"
            ),
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
            Queue.Bind(queue=n, exchange=n, routing_key=""),
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
        lambda n: [x(n), Exchange.Bind(destination=n, source="x" + n, routing_key="k")],
        (404, "no exchange 'x{n}' in vhost '/'"),
    ),
    Case(
        "exchange-bind-missing-destination",
        lambda n: [x(n), Exchange.Bind(destination="x" + n, source=n, routing_key="k")],
        (404, "no exchange 'x{n}' in vhost '/'"),
    ),
    Case(
        "exchange-bind-missing-both",
        lambda n: [Exchange.Bind(destination="d" + n, source="s" + n, routing_key="k")],
        (404, "no exchange 's{n}' in vhost '/'"),
    ),
    Case(
        "exchange-bind-default-source",
        lambda n: [x(n), Exchange.Bind(destination=n, source="", routing_key="k")],
        (403, DEFAULT),
    ),
    Case(
        "exchange-bind-default-destination",
        lambda n: [x(n), Exchange.Bind(destination="", source=n, routing_key="k")],
        (403, DEFAULT),
    ),
    Case(
        "exchange-unbind-missing-binding",
        lambda n: [x(n), Exchange.Unbind(destination=n, source="amq.direct", routing_key="k")],
    ),
    Case(
        "exchange-unbind-missing-source",
        lambda n: [x(n), Exchange.Unbind(destination=n, source="x" + n, routing_key="k")],
    ),
    Case(
        "exchange-unbind-default",
        lambda n: [x(n), Exchange.Unbind(destination=n, source="", routing_key="k")],
        (403, DEFAULT),
    ),
)
