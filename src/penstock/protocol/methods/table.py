"""The AMQP methods: one table of classes, methods and their fields on the wire.

A row is a class: its ids, its name (QueueBindOk is queue.bind-ok) and, one a line, its fields with
wire type and default. Encoding and decoding follow from it: protocol/methods/codec.
"""

from typing import ClassVar

from msgspec import field

from penstock.protocol.methods.base import (
    Bit,
    FieldTable,
    Long,
    LongLong,
    LongStr,
    Method,
    Octet,
    Secret,
    Short,
    ShortStr,
    method,
)

# connection: negotiation, closing, blocking, new secrets. AMQP 0-9-1 section 1.4.2; blocked,
# unblocked and update-secret as RabbitMQ.


@method(10, 10)
class ConnectionStart(Method):
    """The server opens the negotiation. mechanisms, locales: separated by spaces."""

    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: FieldTable = field(default_factory=dict)
    mechanisms: LongStr = b"PLAIN"
    locales: LongStr = b"en_US"


@method(10, 11)
class ConnectionStartOk(Method):
    """The client chooses a mechanism and answers it. response: a secret, kept out of repr."""

    client_properties: FieldTable = field(default_factory=dict)
    mechanism: ShortStr = "PLAIN"
    response: Secret = b""
    locale: ShortStr = "en_US"


@method(10, 20)
class ConnectionSecure(Method):
    """The server challenges the client once more."""

    challenge: LongStr = b""


@method(10, 21)
class ConnectionSecureOk(Method):
    """The client answers the challenge. response: a secret, kept out of repr."""

    response: Secret = b""


@method(10, 30)
class ConnectionTune(Method):
    """What the server offers. frame_max: bytes; heartbeat: seconds; 0 means no limit."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method(10, 31)
class ConnectionTuneOk(Method):
    """What the client takes. frame_max: bytes; heartbeat: seconds; 0 means no limit."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method(10, 40)
class ConnectionOpen(Method):
    """The client enters a virtual host."""

    virtual_host: ShortStr = "/"
    reserved_1: ClassVar[ShortStr] = ""
    reserved_2: ClassVar[Bit] = False


@method(10, 41)
class ConnectionOpenOk(Method):
    """The virtual host is open."""

    reserved_1: ClassVar[ShortStr] = ""


@method(10, 50)
class ConnectionClose(Method):
    """Either side closes. class_id, method_id: the method at fault, 0 when none."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    class_id: Short = 0
    method_id: Short = 0


@method(10, 51)
class ConnectionCloseOk(Method):
    """The connection is closed."""


@method(10, 60)
class ConnectionBlocked(Method):
    """The broker is low on a resource and reads no more publishes."""

    reason: ShortStr = ""


@method(10, 61)
class ConnectionUnblocked(Method):
    """The broker reads publishes again."""


@method(10, 70)
class ConnectionUpdateSecret(Method):
    """The client renews its credentials. new_secret: kept out of repr."""

    new_secret: Secret = b""
    reason: ShortStr = ""


@method(10, 71)
class ConnectionUpdateSecretOk(Method):
    """The new credentials were taken."""


# channel: opening, flow, closing. AMQP 0-9-1 section 1.5.2.


@method(20, 10)
class ChannelOpen(Method):
    """The client opens this channel."""

    reserved_1: ClassVar[ShortStr] = ""


@method(20, 11)
class ChannelOpenOk(Method):
    """The channel is open."""

    reserved_1: ClassVar[LongStr] = b""


@method(20, 20)
class ChannelFlow(Method):
    """Stop (false) or resume (true) publishing or delivering content."""

    active: Bit = True


@method(20, 21)
class ChannelFlowOk(Method):
    """The state of flow after obeying."""

    active: Bit = True


@method(20, 40)
class ChannelClose(Method):
    """Either side closes. class_id, method_id: the method at fault, 0 when none."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    class_id: Short = 0
    method_id: Short = 0


@method(20, 41)
class ChannelCloseOk(Method):
    """The channel is closed."""


# access: tickets for realms, which AMQP 0-8 had; clients of that time still ask. RabbitMQ answers
# with ticket 1 and means nothing by it.


@method(30, 10)
class AccessRequest(Method):
    """The client asks for a ticket."""

    realm: ShortStr = "/data"
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


@method(30, 11)
class AccessRequestOk(Method):
    """The ticket, which is in every method's reserved field and is not looked at."""

    ticket: Short = 1


# exchange: declare, delete, and binding exchanges to exchanges. AMQP 0-9-1 section 1.6.2;
# bind and unbind as RabbitMQ.


@method(40, 10)
class ExchangeDeclare(Method):
    """Make an exchange, or check that it is there as described."""

    reserved_1: ClassVar[Short] = 0
    exchange: ShortStr = ""
    type: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(40, 11)
class ExchangeDeclareOk(Method):
    """The exchange is there."""


@method(40, 20)
class ExchangeDelete(Method):
    """Delete an exchange."""

    reserved_1: ClassVar[Short] = 0
    exchange: ShortStr = ""
    if_unused: Bit = False
    no_wait: Bit = False


@method(40, 21)
class ExchangeDeleteOk(Method):
    """The exchange is gone."""


@method(40, 30)
class ExchangeBind(Method):
    """Bind exchange `destination` to exchange `source`."""

    reserved_1: ClassVar[Short] = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(40, 31)
class ExchangeBindOk(Method):
    """The binding is there."""


@method(40, 40)
class ExchangeUnbind(Method):
    """Undo exchange.bind with the same arguments."""

    reserved_1: ClassVar[Short] = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(40, 51)
class ExchangeUnbindOk(Method):
    """The binding is gone. Its id breaks the row, as RabbitMQ once gave it."""


# queue: declare, bind, purge, delete. AMQP 0-9-1 section 1.7.2.


@method(50, 10)
class QueueDeclare(Method):
    """Make a queue, or check that it is there; an empty name asks for a fresh one."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortStr = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(50, 11)
class QueueDeclareOk(Method):
    """The queue is there. message_count: messages ready, not those unacknowledged."""

    queue: ShortStr = ""
    message_count: Long = 0
    consumer_count: Long = 0


@method(50, 20)
class QueueBind(Method):
    """Bind a queue to an exchange."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(50, 21)
class QueueBindOk(Method):
    """The binding is there."""


@method(50, 30)
class QueuePurge(Method):
    """Drop every ready message of a queue."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortStr = ""
    no_wait: Bit = False


@method(50, 31)
class QueuePurgeOk(Method):
    """message_count: messages dropped."""

    message_count: Long = 0


@method(50, 40)
class QueueDelete(Method):
    """Delete a queue."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortStr = ""
    if_unused: Bit = False
    if_empty: Bit = False
    no_wait: Bit = False


@method(50, 41)
class QueueDeleteOk(Method):
    """message_count: messages that went with the queue."""

    message_count: Long = 0


@method(50, 50)
class QueueUnbind(Method):
    """Undo queue.bind with the same arguments; it has no no-wait."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    arguments: FieldTable = field(default_factory=dict)


@method(50, 51)
class QueueUnbindOk(Method):
    """The binding is gone."""


# basic: publishing, delivering, and answering deliveries. AMQP 0-9-1 section 1.8.3; nack and
# server-sent cancel as RabbitMQ.


@method(60, 10)
class BasicQos(Method):
    """Bound the unacknowledged deliveries; 0 means no bound.

    prefetch_size: bytes; prefetch_count: deliveries; global_: per channel, not per consumer.
    """

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


@method(60, 11)
class BasicQosOk(Method):
    """The bound holds."""


@method(60, 20)
class BasicConsume(Method):
    """Start a consumer; an empty tag asks for a fresh one."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortStr = ""
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = field(default_factory=dict)


@method(60, 21)
class BasicConsumeOk(Method):
    """The consumer is there."""

    consumer_tag: ShortStr = ""


@method(60, 30)
class BasicCancel(Method):
    """End a consumer; from the broker: its queue has gone."""

    consumer_tag: ShortStr = ""
    no_wait: Bit = False


@method(60, 31)
class BasicCancelOk(Method):
    """The consumer is gone."""

    consumer_tag: ShortStr = ""


@method(60, 40)
class BasicPublish(Method):
    """A content for an exchange follows."""

    reserved_1: ClassVar[Short] = 0
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    mandatory: Bit = False
    immediate: Bit = False


@method(60, 50)
class BasicReturn(Method):
    """A content that could not be routed follows."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@method(60, 60)
class BasicDeliver(Method):
    """A content for a consumer follows."""

    consumer_tag: ShortStr = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@method(60, 70)
class BasicGet(Method):
    """Ask for one message."""

    reserved_1: ClassVar[Short] = 0
    queue: ShortStr = ""
    no_ack: Bit = False


@method(60, 71)
class BasicGetOk(Method):
    """The content asked for follows. message_count: messages still ready."""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    message_count: Long = 0


@method(60, 72)
class BasicGetEmpty(Method):
    """The queue has no ready message."""

    reserved_1: ClassVar[ShortStr] = ""


@method(60, 80)
class BasicAck(Method):
    """From a consumer: done. From the broker: a confirm. multiple: all tags up to this one."""

    delivery_tag: LongLong = 0
    multiple: Bit = False


@method(60, 90)
class BasicReject(Method):
    """A consumer refuses one delivery."""

    delivery_tag: LongLong = 0
    requeue: Bit = True


@method(60, 100)
class BasicRecoverAsync(Method):
    """As recover, without an answer; deprecated."""

    requeue: Bit = False


@method(60, 110)
class BasicRecover(Method):
    """Deliver everything unacknowledged on this channel again."""

    requeue: Bit = False


@method(60, 111)
class BasicRecoverOk(Method):
    """The recovery has started."""


@method(60, 120)
class BasicNack(Method):
    """From a consumer: refused. From the broker: a publish that was lost."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


# confirm: the broker answers every publish of a channel. RabbitMQ extension.


@method(85, 10)
class ConfirmSelect(Method):
    """Number the publishes of this channel and answer each."""

    no_wait: Bit = False


@method(85, 11)
class ConfirmSelectOk(Method):
    """Publishes are numbered from 1 on."""


# tx: local transactions on a channel. AMQP 0-9-1 section 1.9.2.


@method(90, 10)
class TxSelect(Method):
    """Collect the publishes and answers of this channel until commit."""


@method(90, 11)
class TxSelectOk(Method):
    """The channel is transactional."""


@method(90, 20)
class TxCommit(Method):
    """Do what was collected."""


@method(90, 21)
class TxCommitOk(Method):
    """It is done."""


@method(90, 30)
class TxRollback(Method):
    """Forget what was collected."""


@method(90, 31)
class TxRollbackOk(Method):
    """It is forgotten."""


# request: what AMQP has no method for, asked on a channel and answered. Our extension; a broker
# that has it announces the capability `penstock.requests`. Arguments and answer are tables, so that
# another verb needs no other method. Answers come in the order of the channel's methods. Verbs:
# docs/requests.md.


@method(240, 10)
class RequestAsk(Method):
    """Do `verb`, such as `stream.offsets`."""

    verb: ShortStr = ""
    arguments: FieldTable = field(default_factory=dict)


@method(240, 11)
class RequestAskOk(Method):
    """It is done, and safe where it says so."""

    answer: FieldTable = field(default_factory=dict)
