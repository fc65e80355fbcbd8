"""The methods of class basic: publishing, delivering, and answering deliveries.

Source: AMQP 0-9-1 section 1.8.3; nack and server-sent cancel as RabbitMQ.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.methods.base import Fields, Method
from penstock.protocol.values import Table


@dataclass(slots=True)
class BasicQos(Method):
    """Bound the unacknowledged deliveries; 0 means no bound.

    prefetch_size: bytes; prefetch_count: deliveries; global_: per channel, not per consumer.
    """

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 10
    NAME: ClassVar[str] = "basic.qos"
    FIELDS: ClassVar[Fields] = (
        ("prefetch_size", "long"),
        ("prefetch_count", "short"),
        ("global_", "bit"),
    )

    prefetch_size: int = 0
    prefetch_count: int = 0
    global_: bool = False


@dataclass(slots=True)
class BasicQosOk(Method):
    """The bound holds."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 11
    NAME: ClassVar[str] = "basic.qos-ok"


@dataclass(slots=True)
class BasicConsume(Method):
    """Start a consumer; an empty tag asks for a fresh one."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 20
    NAME: ClassVar[str] = "basic.consume"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("queue", "shortstr"),
        ("consumer_tag", "shortstr"),
        ("no_local", "bit"),
        ("no_ack", "bit"),
        ("exclusive", "bit"),
        ("no_wait", "bit"),
        ("arguments", "table"),
    )

    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class BasicConsumeOk(Method):
    """The consumer is there."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 21
    NAME: ClassVar[str] = "basic.consume-ok"
    FIELDS: ClassVar[Fields] = (("consumer_tag", "shortstr"),)

    consumer_tag: str = ""


@dataclass(slots=True)
class BasicCancel(Method):
    """End a consumer; from the broker: its queue has gone."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 30
    NAME: ClassVar[str] = "basic.cancel"
    FIELDS: ClassVar[Fields] = (("consumer_tag", "shortstr"), ("no_wait", "bit"))

    consumer_tag: str = ""
    no_wait: bool = False


@dataclass(slots=True)
class BasicCancelOk(Method):
    """The consumer is gone."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 31
    NAME: ClassVar[str] = "basic.cancel-ok"
    FIELDS: ClassVar[Fields] = (("consumer_tag", "shortstr"),)

    consumer_tag: str = ""


@dataclass(slots=True)
class BasicPublish(Method):
    """A content for an exchange follows."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 40
    NAME: ClassVar[str] = "basic.publish"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("exchange", "shortstr"),
        ("routing_key", "shortstr"),
        ("mandatory", "bit"),
        ("immediate", "bit"),
    )

    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


@dataclass(slots=True)
class BasicReturn(Method):
    """A content that could not be routed follows."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 50
    NAME: ClassVar[str] = "basic.return"
    FIELDS: ClassVar[Fields] = (
        ("reply_code", "short"),
        ("reply_text", "shortstr"),
        ("exchange", "shortstr"),
        ("routing_key", "shortstr"),
    )

    reply_code: int = 0
    reply_text: str = ""
    exchange: str = ""
    routing_key: str = ""


@dataclass(slots=True)
class BasicDeliver(Method):
    """A content for a consumer follows."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 60
    NAME: ClassVar[str] = "basic.deliver"
    FIELDS: ClassVar[Fields] = (
        ("consumer_tag", "shortstr"),
        ("delivery_tag", "longlong"),
        ("redelivered", "bit"),
        ("exchange", "shortstr"),
        ("routing_key", "shortstr"),
    )

    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""


@dataclass(slots=True)
class BasicGet(Method):
    """Ask for one message."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 70
    NAME: ClassVar[str] = "basic.get"
    FIELDS: ClassVar[Fields] = (("reserved_1", "short"), ("queue", "shortstr"), ("no_ack", "bit"))

    queue: str = ""
    no_ack: bool = False


@dataclass(slots=True)
class BasicGetOk(Method):
    """The content asked for follows. message_count: messages still ready."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 71
    NAME: ClassVar[str] = "basic.get-ok"
    FIELDS: ClassVar[Fields] = (
        ("delivery_tag", "longlong"),
        ("redelivered", "bit"),
        ("exchange", "shortstr"),
        ("routing_key", "shortstr"),
        ("message_count", "long"),
    )

    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0


@dataclass(slots=True)
class BasicGetEmpty(Method):
    """The queue has no ready message."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 72
    NAME: ClassVar[str] = "basic.get-empty"
    FIELDS: ClassVar[Fields] = (("reserved_1", "shortstr"),)


@dataclass(slots=True)
class BasicAck(Method):
    """From a consumer: done. From the broker: a confirm. multiple: all tags up to this one."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 80
    NAME: ClassVar[str] = "basic.ack"
    FIELDS: ClassVar[Fields] = (("delivery_tag", "longlong"), ("multiple", "bit"))

    delivery_tag: int = 0
    multiple: bool = False


@dataclass(slots=True)
class BasicReject(Method):
    """A consumer refuses one delivery."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 90
    NAME: ClassVar[str] = "basic.reject"
    FIELDS: ClassVar[Fields] = (("delivery_tag", "longlong"), ("requeue", "bit"))

    delivery_tag: int = 0
    requeue: bool = True


@dataclass(slots=True)
class BasicRecoverAsync(Method):
    """As recover, without an answer; deprecated."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 100
    NAME: ClassVar[str] = "basic.recover-async"
    FIELDS: ClassVar[Fields] = (("requeue", "bit"),)

    requeue: bool = False


@dataclass(slots=True)
class BasicRecover(Method):
    """Deliver everything unacknowledged on this channel again."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 110
    NAME: ClassVar[str] = "basic.recover"
    FIELDS: ClassVar[Fields] = (("requeue", "bit"),)

    requeue: bool = False


@dataclass(slots=True)
class BasicRecoverOk(Method):
    """The recovery has started."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 111
    NAME: ClassVar[str] = "basic.recover-ok"


@dataclass(slots=True)
class BasicNack(Method):
    """From a consumer: refused. From the broker: a publish that was lost."""

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 120
    NAME: ClassVar[str] = "basic.nack"
    FIELDS: ClassVar[Fields] = (
        ("delivery_tag", "longlong"),
        ("multiple", "bit"),
        ("requeue", "bit"),
    )

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True
