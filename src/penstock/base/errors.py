"""The families of faults: the peer's (a reply code), the operator's (what to do), and ours.

A peer's fault closes either its channel or its whole connection, with the reply code and text that
RabbitMQ gives. Nothing else may leave a protocol or broker room as an exception; a bug in Penstock
is an AssertionError and becomes 541 INTERNAL_ERROR at the boundary.
"""


class PenstockError(Exception):
    """Base of everything Penstock raises on purpose."""


class PeerError(PenstockError):
    """The peer broke a rule. `code`: AMQP reply code; `text`: reply text without the code's name;
    `class_id`, `method_id`: the method at fault, 0 when there is none."""

    def __init__(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id


class ChannelFault(PeerError):
    """Closes the channel (channel.close); the connection goes on."""


class ConnectionFault(PeerError):
    """Closes the connection (connection.close)."""


class OperatorError(PenstockError):
    """The operator can mend this: the message names the value, the limit, who, and the fix."""


class UnavailableError(OperatorError):
    """Nothing is wrong with what is asked: who could answer it does not now."""
