"""What can go wrong for a client, in words that name the broker, the reply code and the way out."""

from penstock.base.errors import PenstockError


class ClientError(PenstockError):
    """Base of everything the client raises on purpose."""


class ConnectError(ClientError):
    """No open connection came about; the text names host and port, and never the password. `code`:
    the reply code of a broker that refused it, 0 where none did."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class NoReplyError(ClientError):
    """The broker did not answer in the time given; the connection itself is still there."""


class ConnectionClosedError(ClientError):
    """The connection is closed. `code`: AMQP reply code; `text`: the reply text as received."""

    def __init__(self, code: int, text: str, is_by_broker: bool) -> None:
        who = "the broker closed the connection" if is_by_broker else "the connection is closed"
        super().__init__(f"{who}: {code} {text}")
        self.code = code
        self.text = text
        self.is_by_broker = is_by_broker


class ChannelClosedError(ClientError):
    """A channel is closed. `channel`: its number; `code`, `text`: as the broker gave them."""

    def __init__(self, channel: int, code: int, text: str) -> None:
        super().__init__(f"channel {channel} is closed: {code} {text}")
        self.channel = channel
        self.code = code
        self.text = text


class ConsumerCancelledError(ClientError):
    """The broker has ended a consumer, because what it reads is gone. `consumer_tag`: which."""

    def __init__(self, consumer_tag: str) -> None:
        super().__init__(
            f"the broker has cancelled consumer '{consumer_tag}': its queue is deleted, or what it "
            "reads there is gone"
        )
        self.consumer_tag = consumer_tag


class NackedError(ClientError):
    """The broker refused publishes it was asked to confirm. `sequences`: which, ascending."""

    def __init__(self, sequences: tuple[int, ...]) -> None:
        shown = ", ".join(str(sequence) for sequence in sequences[:5])
        more = "" if len(sequences) <= 5 else f" and {len(sequences) - 5} more"
        super().__init__(f"the broker refused {len(sequences)} publishes (nack): {shown}{more}")
        self.sequences = sequences
