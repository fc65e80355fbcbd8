"""Who may do what (F95, F103, F104): RabbitMQ's table of operations and rights, one row a case.

Every case has a user of its own, called after it, whose permissions are those of the case and
nothing else. `definitions()` is what makes them all, on Penstock as on RabbitMQ. Each operation is
tried with all it needs, and again without each of these.
Source: RabbitMQ 3.10.8; its Java client's Permissions and TopicPermissions tests of the server.
"""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from pamqp.commands import Basic, Exchange, Queue

from tests.conformance.cases import ANY_TEXT, FINE, Expected
from tests.conformance.peer import Content, Step
from tests.conformance.steps import (
    bind,
    bind_exchange,
    delete,
    put,
    q,
    raw,
    unbind,
    unbind_exchange,
    x,
)

PASSWORD: Final = "pw"
CONFIGURE, WRITE, READ = "configure", "write", "read"
RIGHTS: Final = (CONFIGURE, WRITE, READ)
QUEUE, EXCHANGE = "perm.q", "perm.x"
OTHER, TOPIC, INNER, FRESH = "perm.other", "perm.topic", "perm.inner", "perm.fresh"


class Case(NamedTuple):
    """permissions: a pattern by right, "" where there is none, None for no row at all; topics: rows
    of exchange, write and read."""

    id: str
    steps: Sequence[Step]
    permissions: dict[str, str] | None
    expected: Expected = FINE
    topics: tuple[tuple[str, str, str], ...] = ()
    tags: str = ""


class Operation(NamedTuple):
    """needs: right, kind and name of a resource, in the order in which they are asked for."""

    id: str
    steps: Sequence[Step]
    needs: tuple[tuple[str, str, str], ...]


SETUP: Final[Sequence[Step]] = (
    q(QUEUE),
    x(EXCHANGE),
    x(OTHER),
    x(TOPIC, "topic"),
    x(INNER, internal=True),
    bind(QUEUE, EXCHANGE, "k"),
)
"""Done once, by somebody who may do everything."""

DEAD: Final = {"x-dead-letter-exchange": OTHER}
ALTERNATE: Final = {"alternate-exchange": OTHER}
OF_QUEUE: Final = "queue"
OF_EXCHANGE: Final = "exchange"

OPERATIONS: Final = (
    Operation("exchange-declare", (x(FRESH),), ((CONFIGURE, OF_EXCHANGE, FRESH),)),
    Operation("exchange-declare-known", (x(EXCHANGE),), ((CONFIGURE, OF_EXCHANGE, EXCHANGE),)),
    Operation("exchange-declare-passive", (x(EXCHANGE, passive=True),), ()),
    Operation(
        "exchange-declare-alternate",
        (Exchange.Delete(exchange=f"{FRESH}.ae"), x(f"{FRESH}.ae", arguments=ALTERNATE)),
        (
            (CONFIGURE, OF_EXCHANGE, f"{FRESH}.ae"),
            (READ, OF_EXCHANGE, f"{FRESH}.ae"),
            (WRITE, OF_EXCHANGE, OTHER),
        ),
    ),
    Operation(
        "exchange-delete",
        (Exchange.Delete(exchange=f"{FRESH}.gone"),),
        ((CONFIGURE, OF_EXCHANGE, f"{FRESH}.gone"),),
    ),
    Operation(
        "exchange-bind",
        (bind_exchange(EXCHANGE, OTHER),),
        ((WRITE, OF_EXCHANGE, EXCHANGE), (READ, OF_EXCHANGE, OTHER)),
    ),
    Operation(
        "exchange-unbind",
        (unbind_exchange(EXCHANGE, OTHER),),
        ((WRITE, OF_EXCHANGE, EXCHANGE), (READ, OF_EXCHANGE, OTHER)),
    ),
    Operation("queue-declare", (q(FRESH),), ((CONFIGURE, OF_QUEUE, FRESH),)),
    Operation("queue-declare-passive", (q(QUEUE, passive=True),), ()),
    Operation(
        "queue-declare-dead-letters",
        (delete(f"{FRESH}.dlx"), q(f"{FRESH}.dlx", arguments=DEAD)),
        (
            (CONFIGURE, OF_QUEUE, f"{FRESH}.dlx"),
            (READ, OF_QUEUE, f"{FRESH}.dlx"),
            (WRITE, OF_EXCHANGE, OTHER),
        ),
    ),
    Operation("queue-delete", (delete(f"{FRESH}.no"),), ((CONFIGURE, OF_QUEUE, f"{FRESH}.no"),)),
    Operation(
        "queue-bind",
        (bind(QUEUE, EXCHANGE, "k"),),
        ((WRITE, OF_QUEUE, QUEUE), (READ, OF_EXCHANGE, EXCHANGE)),
    ),
    Operation(
        "queue-unbind",
        (unbind(QUEUE, EXCHANGE, "other"),),
        ((WRITE, OF_QUEUE, QUEUE), (READ, OF_EXCHANGE, EXCHANGE)),
    ),
    Operation("queue-purge", (Queue.Purge(queue=QUEUE),), ((READ, OF_QUEUE, QUEUE),)),
    Operation("consume", (Basic.Consume(queue=QUEUE),), ((READ, OF_QUEUE, QUEUE),)),
    Operation("get", (Basic.Get(queue=QUEUE),), ((READ, OF_QUEUE, QUEUE),)),
    Operation("publish", (put(EXCHANGE, "nobody"),), ((WRITE, OF_EXCHANGE, EXCHANGE),)),
    Operation(
        "publish-default",
        (put("", "perm.nobody"),),
        ((WRITE, OF_EXCHANGE, "amq.default"),),
    ),
)
"""In RabbitMQ's table of operations; what needs two rights names the queue or destination first."""


def _exactly(names: Sequence[str]) -> str:
    if not names:
        return ""
    return "^(" + "|".join(name.replace(".", "\\.") for name in names) + ")$"


def _granted(needs: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    return {right: _exactly([n for r, _, n in needs if r == right]) for right in RIGHTS}


def refusal(kind: str, name: str, user: str) -> Expected:
    """RabbitMQ's answer to who may not."""
    return 403, f"access to {kind} '{name}' in vhost '/' refused for user '{user}'"


def _of(operation: Operation) -> list[Case]:
    cases = [Case(f"may-{operation.id}", operation.steps, _granted(operation.needs))]
    for at, (right, kind, name) in enumerate(operation.needs):
        others = [need for place, need in enumerate(operation.needs) if place != at]
        identity = f"no-{right}-{operation.id}"
        expected = refusal(kind, name, identity)
        cases.append(Case(identity, operation.steps, _granted(others), expected))
    return cases


def _topic(key: str, user: str, exchange: str = TOPIC) -> Expected:
    text = f"access to topic '{key}' in exchange '{exchange}' in vhost '/' refused for user"
    return 403, f"{text} '{user}'"


ALL: Final = {CONFIGURE: ".*", WRITE: ".*", READ: ".*"}
NOTHING: Final = {CONFIGURE: "", WRITE: "", READ: ""}
ONLY_A: Final = ((TOPIC, "^a\\.", "^a\\."),)
NO_KEYS: Final = ((TOPIC, "", ""),)
NAMED: Final = ((TOPIC, "^{vhost}-{username}-x$", ""),)


def _carbon_copy(key: str, copy: str) -> Content:
    return Content(
        Basic.Publish(exchange=TOPIC, routing_key=key),
        b"m",
        Basic.Properties(headers={"CC": [copy]}),
    )


CASES: Final = (
    *(case for operation in OPERATIONS for case in _of(operation)),
    # A name that is not there is no reason to say so to who may not know.
    Case("consume-missing", (Basic.Consume(queue="perm.none"),), NOTHING,
         refusal(OF_QUEUE, "perm.none", "consume-missing")),
    Case("publish-missing", (put("perm.none", "k"),), NOTHING,
         refusal(OF_EXCHANGE, "perm.none", "publish-missing")),
    Case("bind-missing", (bind("perm.none", "perm.nox"),), NOTHING,
         refusal(OF_QUEUE, "perm.none", "bind-missing")),
    Case("delete-own-of-broker", (Exchange.Delete(exchange="amq.direct"),), NOTHING,
         (403, "deletion of system exchange 'amq.direct' in vhost '/' not allowed")),
    Case("bind-default", (bind("perm.none", ""),), NOTHING,
         refusal(OF_QUEUE, "perm.none", "bind-default")),
    Case("bind-default-write", (bind(QUEUE, ""),),
         {CONFIGURE: "", WRITE: "^perm\\.q$", READ: ""},
         (403, "operation not permitted on the default exchange")),
    Case("bind-exchange-default", (bind_exchange("", EXCHANGE),), NOTHING,
         refusal(OF_EXCHANGE, "amq.default", "bind-exchange-default")),
    Case("bind-default-all", (bind(QUEUE, ""),), ALL,
         (403, "operation not permitted on the default exchange")),
    Case("publish-internal", (put(INNER, "k"),), NOTHING,
         refusal(OF_EXCHANGE, INNER, "publish-internal")),
    Case("other-properties", (q(QUEUE, auto_delete=True),), NOTHING,
         refusal(OF_QUEUE, QUEUE, "other-properties")),
    Case("known-alternate", (x(EXCHANGE, arguments={}),),
         {CONFIGURE: "^perm\\.x$", WRITE: "", READ: ""}),
    Case("server-named", (q(""),), {CONFIGURE: "^amq\\.gen", WRITE: "", READ: ""}),
    Case("no-server-named", (q(""),), NOTHING, (403, ANY_TEXT)),
    Case("reply-to", (Basic.Consume(queue="amq.rabbitmq.reply-to", no_ack=True),), NOTHING),
    Case("line-end", (raw(1, 1, b"\x00\x32\x00\x0a\0\0\x07perm.q\n\0\0\0\0\0"),),
         {CONFIGURE: "^perm\\.q$", WRITE: "", READ: ""}),
    # Patterns are searched for, not matched as a whole (F104).
    Case("pattern-inside", (Basic.Get(queue=QUEUE),), {CONFIGURE: "", WRITE: "", READ: "erm"}),
    Case("pattern-empty", (Basic.Get(queue=QUEUE),), NOTHING,
         refusal(OF_QUEUE, QUEUE, "pattern-empty")),
    Case("pattern-start", (Basic.Get(queue=QUEUE),), {CONFIGURE: "", WRITE: "", READ: "^erm"},
         refusal(OF_QUEUE, QUEUE, "pattern-start")),
    Case("no-row", (), None, (530, "access to vhost '/' refused for user 'no-row'")),
    # Topics.
    Case("topic-publish", (put(TOPIC, "a.b"),), ALL, FINE, ONLY_A),
    Case("topic-publish-other", (put(TOPIC, "b.b"),), ALL, _topic("b.b", "topic-publish-other"),
         ONLY_A),
    Case("topic-bind", (bind(QUEUE, TOPIC, "a.*"),), ALL, FINE, ONLY_A),
    Case("topic-bind-other", (bind(QUEUE, TOPIC, "b.*"),), ALL, _topic("b.*", "topic-bind-other"),
         ONLY_A),
    Case("topic-unbind-other", (unbind(QUEUE, TOPIC, "b.*"),), ALL,
         _topic("b.*", "topic-unbind-other"), ONLY_A),
    Case("topic-bind-exchange", (bind_exchange(EXCHANGE, TOPIC),), ALL,
         _topic("k", "topic-bind-exchange"), ONLY_A),
    Case("topic-to-topic", (Exchange.Bind(destination=TOPIC, source=OTHER, routing_key="b"),),
         ALL, FINE, ONLY_A),
    Case("topic-none", (put(TOPIC, "b.b"),), ALL),
    Case("topic-elsewhere", (put("amq.topic", "b.b"),), ALL, FINE, ONLY_A),
    Case("topic-of-direct", (put(EXCHANGE, "b.b"),), ALL, FINE, ((EXCHANGE, "^a", "^a"),)),
    Case("topic-and-rights", (put(TOPIC, "a.b"),), NOTHING,
         refusal(OF_EXCHANGE, TOPIC, "topic-and-rights"), ONLY_A),
    Case("topic-named", (put(TOPIC, "/-topic-named-x"),), ALL, FINE, NAMED),
    Case("topic-misnamed", (put(TOPIC, "/-other-x"),), ALL, _topic("/-other-x", "topic-misnamed"),
         NAMED),
    # A name is no pattern, whatever its user is called (F101).
    Case("topic.*", (put(TOPIC, "/-topic-y-x"),), ALL, FINE, NAMED),
    Case("topic-empty", (put(TOPIC, "a"),), ALL, _topic("a", "topic-empty"), NO_KEYS),
    Case("topic-empty-key", (put(TOPIC, ""), bind(QUEUE, TOPIC, "")), ALL, FINE, NO_KEYS),
    Case("topic-carbon-copy", (_carbon_copy("a.b", "b.b"),), ALL, FINE, ONLY_A),
    # Whose a message is.
    Case("user-id-own", (put("", "none", user_id="user-id-own"),),
         ALL),
    Case("user-id-other", (put("", "none", user_id="guest"),), ALL,
         (406, "user_id property set to 'guest' but authenticated user was 'user-id-other'")),
    Case("user-id-impersonator",
         (put("", "none", user_id="guest"),), ALL, FINE, (),
         "impersonator"),
)  # fmt: skip


def definitions() -> dict[str, object]:
    """The users of all cases, as RabbitMQ's definitions have them."""
    return {
        "rabbit_version": "3.10.8",
        "vhosts": [{"name": "/"}],
        "users": [
            # Salt and hash of "pw", the same for all.
            {
                "name": case.id,
                "password_hash": "AAAAALEkKvUBGEzMSFzin0zK97z+wnfsndrUYKOF2RUry1wo",
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": case.tags,
            }
            for case in CASES
        ],
        "permissions": [
            {"user": case.id, "vhost": "/", **case.permissions}
            for case in CASES
            if case.permissions is not None
        ],
        "topic_permissions": [
            {"user": case.id, "vhost": "/", "exchange": name, "write": write, "read": read}
            for case in CASES
            for name, write, read in case.topics
        ],
    }


if __name__ == "__main__":
    print(json.dumps(definitions(), indent=1))
