"""Basic, confirm and tx methods: publish, get, consume, acknowledge, qos, direct reply-to.

Every code and text was recorded from RabbitMQ 3.10.8.
"""

from typing import Final

from pamqp.commands import Basic, Channel, Confirm, Queue, Tx

from tests.conformance.cases import FINE, Case
from tests.conformance.peer import On, Step
from tests.conformance.steps import consume, put, q, raw, x

REPLY_TO: Final = "amq.rabbitmq.reply-to"
NO_LAST: Final = "no previously declared queue"

# What a queue is told of a message's lifetime, and what is wrong with it.
EXPIRATIONS: Final = (
    ("publish-expiration-text", "soon", "no_integer"),
    ("publish-expiration-negative", "-1", "{value_negative,-1}"),
    ("publish-expiration-fraction", "1.5", '{leftover_string,".5"}'),
    ("publish-expiration-spaces", " 5", "no_integer"),
    ("publish-expiration-empty", "", ""),
    ("publish-expiration-huge", str(2**33), ""),
)


def expires(case: str, text: str, fault: str) -> Case:
    """A publish with this expiration; fault: "" for none."""
    expected = (406, f"invalid expiration '{text}': {fault}") if fault else FINE
    return Case(case, lambda n: [q(n), put("", n, expiration=text)], expected)


# Answers to deliveries that are not there, or are not there any more.
ANSWERS: Final[tuple[tuple[str, int, tuple[Step, ...]], ...]] = (
    ("ack-unknown-tag", 7, (Basic.Ack(7),)),
    ("ack-zero-single", 0, (Basic.Ack(0),)),
    ("ack-multiple-unknown", 9, (Basic.Ack(9, multiple=True),)),
    ("nack-unknown-tag", 3, (Basic.Nack(3),)),
    ("reject-unknown-tag", 4, (Basic.Reject(4),)),
    ("tx-ack-unknown", 5, (Tx.Select(), Basic.Ack(5), Tx.Commit())),
)
SETTLED: Final[tuple[tuple[str, bool, tuple[Step, ...]], ...]] = (
    ("ack-twice", False, (Basic.Ack(1), Basic.Ack(1))),
    ("ack-of-no-ack", True, (Basic.Ack(1),)),
    ("reject-twice", False, (Basic.Reject(1), Basic.Reject(1))),
)


def unknown(case: str, tag: int, steps: tuple[Step, ...]) -> Case:
    """Nothing waits for `tag`."""
    return Case(case, lambda _: steps, (406, f"unknown delivery tag {tag}"))


def settled(case: str, no_ack: bool, steps: tuple[Step, ...]) -> Case:
    """Nothing waits for the only message got."""
    return Case(
        case,
        lambda n: [q(n), put("", n), Basic.Get(queue=n, no_ack=no_ack), *steps],
        (406, "unknown delivery tag 1"),
    )


CASES: Final = (
    *(expires(*row) for row in EXPIRATIONS),
    *(unknown(*row) for row in ANSWERS),
    *(settled(*row) for row in SETTLED),
    Case("publish-missing-exchange", lambda n: [put(n, "k")], (404, "no {x}")),
    Case(
        "publish-internal-exchange",
        lambda n: [x(n, internal=True), put(n, "k")],
        (403, "cannot publish to internal {x}"),
    ),
    Case("publish-immediate", lambda n: [put("", n, immediate=True)], (540, "immediate=true")),
    Case("publish-unroutable", lambda n: [put("", n)]),
    Case(
        "publish-wrong-user-id",
        lambda n: [put("", n, user_id="somebody")],
        (406, "user_id property set to 'somebody' but authenticated user was 'guest'"),
    ),
    Case("publish-own-user-id", lambda n: [put("", n, user_id="guest")]),
    Case(
        "publish-cc-not-array",
        lambda n: [q(n), put("", n, headers={"CC": "a"})],
        (406, 'invalid message: {unacceptable_type_in_header,"CC",longstr}'),
    ),
    Case(
        "publish-bcc-not-array",
        lambda n: [q(n), put("", n, headers={"BCC": 1})],
        (406, 'invalid message: {unacceptable_type_in_header,"BCC",byte}'),
    ),
    Case("publish-cc-not-text", lambda n: [q(n), put("", n, headers={"CC": [1]})]),
    Case("get-missing-queue", lambda n: [Basic.Get(queue=n)], (404, "no {q}")),
    Case("get-empty", lambda n: [q(n), Basic.Get(queue=n)]),
    Case(
        "get-last-declared-none", lambda n: [Basic.Get(queue="")], (404, NO_LAST), method=(60, 70)
    ),
    Case("consume-missing-queue", lambda n: [consume(n)], (404, "no {q}")),
    Case("consume-last-declared-none", lambda n: [consume("")], (404, NO_LAST), method=(60, 20)),
    Case(
        "consume-tag-taken",
        lambda n: [q(n), consume(n, "t"), consume(n, "t")],
        (530, "attempt to reuse consumer tag 't'"),
    ),
    Case(
        "consume-tag-taken-of-no-queue",
        lambda n: [On(2, Channel.Open()), On(2, q(n)), consume(n, "t"), consume("", "t")],
        (404, NO_LAST),
    ),
    Case(
        "consume-exclusive-second",
        lambda n: [q(n), consume(n, "a"), consume(n, "b", exclusive=True)],
        (403, "{q} in exclusive use"),
    ),
    Case(
        "consume-after-exclusive",
        lambda n: [q(n), consume(n, "a", exclusive=True), consume(n, "b")],
        (403, "{q} in exclusive use"),
    ),
    Case("get-beside-exclusive", lambda n: [q(n), consume(n, exclusive=True), Basic.Get(queue=n)]),
    Case("consume-no-local", lambda n: [q(n), consume(n, no_local=True)]),
    Case(
        "consume-priority-text",
        lambda n: [q(n), consume(n, arguments={"x-priority": "high"})],
        (406, "invalid arg 'x-priority' for {q}: \"expected integer, got longstr\""),
    ),
    Case("consume-priority-number", lambda n: [q(n), consume(n, arguments={"x-priority": -7})]),
    Case("consume-unknown-argument", lambda n: [q(n), consume(n, arguments={"x-anything": 1})]),
    Case(
        "consume-stream-offset",
        lambda n: [q(n), consume(n, arguments={"x-stream-offset": "first"})],
        (406, "invalid arg 'x-stream-offset' for {q} of queue type rabbit_classic_queue"),
    ),
    Case("declare-stream-offset", lambda n: [q(n, arguments={"x-stream-offset": "first"})]),
    Case(
        "declare-max-age",
        lambda n: [q(n, arguments={"x-max-age": "1D"})],
        (406, "invalid arg 'x-max-age' for {q} of queue type rabbit_classic_queue"),
    ),
    Case(
        "declare-stream-segment",
        lambda n: [q(n, arguments={"x-stream-max-segment-size-bytes": 100})],
        (
            406,
            (
                "invalid arg 'x-stream-max-segment-size-bytes' for {q} of queue type "
                "rabbit_classic_queue"
            ),
        ),
    ),
    Case("cancel-unknown-tag", lambda n: [Basic.Cancel(consumer_tag="nobody")]),
    Case("ack-zero-multiple-none", lambda n: [Basic.Ack(delivery_tag=0, multiple=True)]),
    Case(
        "qos-prefetch-size", lambda n: [Basic.Qos(prefetch_size=10)], (540, "prefetch_size!=0 (10)")
    ),
    Case("qos-global", lambda n: [Basic.Qos(prefetch_count=10, global_=True)]),
    Case("recover-no-requeue", lambda n: [Basic.Recover(requeue=False)], (540, "requeue=false")),
    Case("recover-requeue", lambda n: [Basic.Recover(requeue=True)]),
    Case(
        "recover-async-no-requeue",
        lambda n: [raw(1, 1, b"\x00\x3c\x00\x64\x00")],
        (540, "requeue=false"),
    ),
    Case("recover-async", lambda n: [raw(1, 1, b"\x00\x3c\x00\x64\x01")]),
    Case(
        "confirm-then-tx",
        lambda n: [Confirm.Select(), Tx.Select()],
        (406, "cannot switch from confirm to tx mode"),
    ),
    Case(
        "tx-then-confirm",
        lambda n: [Tx.Select(), Confirm.Select()],
        (406, "cannot switch from tx to confirm mode"),
    ),
    Case("confirm-twice", lambda n: [Confirm.Select(), Confirm.Select()]),
    Case("tx-twice", lambda n: [Tx.Select(), Tx.Select()]),
    Case("tx-commit-without", lambda n: [Tx.Commit()], (406, "channel is not transactional")),
    Case("tx-rollback-without", lambda n: [Tx.Rollback()], (406, "channel is not transactional")),
    Case(
        "tx-publish-missing-exchange",
        lambda n: [Tx.Select(), put(n, "k"), Tx.Commit()],
        (404, "no {x}"),
    ),
    Case(
        "body-longer-than-limit",
        lambda n: [put("", n, b"x" * (2**24 + 1))],
        (406, "message size 16777217 is larger than configured max size 16777216"),
    ),
    Case("body-at-limit", lambda n: [put("", n, b"x" * 2**24)]),
    Case(
        "direct-reply-publish-without-consumer",
        lambda n: [put("", REPLY_TO, reply_to=REPLY_TO)],
        (406, "fast reply consumer does not exist"),
    ),
    Case(
        "direct-reply-consume-with-ack",
        lambda n: [consume(REPLY_TO)],
        (406, "reply consumer cannot acknowledge"),
    ),
    Case("direct-reply-consume", lambda n: [consume(REPLY_TO, no_ack=True)]),
    Case(
        "direct-reply-consume-twice",
        lambda n: [
            consume(REPLY_TO, "a", no_ack=True),
            consume(REPLY_TO, "b", no_ack=True),
        ],
        (406, "reply consumer already set"),
    ),
    Case("direct-reply-declare", lambda n: [q(REPLY_TO, passive=True)]),
    Case("direct-reply-declare-active", lambda n: [q(REPLY_TO)]),
    Case(
        "direct-reply-bad-name",
        lambda n: [q("amq.rabbitmq.reply-to.nobody", passive=True)],
        (404, "no queue 'amq.rabbitmq.reply-to.nobody' in vhost '/'"),
    ),
    Case(
        "direct-reply-get",
        lambda n: [Basic.Get(queue=REPLY_TO)],
        (404, "no queue 'amq.rabbitmq.reply-to' in vhost '/'"),
    ),
    Case(
        "direct-reply-publish",
        lambda n: [
            consume(REPLY_TO, no_ack=True),
            q(n),
            put("", n, reply_to=REPLY_TO),
        ],
    ),
    Case(
        "direct-reply-publish-nobody",
        lambda n: [put("", n, reply_to=REPLY_TO)],
        (406, "fast reply consumer does not exist"),
    ),
    Case(
        "direct-reply-purge",
        lambda n: [Queue.Purge(queue=REPLY_TO)],
        (404, "no queue 'amq.rabbitmq.reply-to' in vhost '/'"),
    ),
    Case("direct-reply-delete", lambda n: [Queue.Delete(queue=REPLY_TO)]),
)
