"""What AMQP has a method for, done over the control socket as an operator who may do everything."""

from typing import Final

from penstock.base.errors import OperatorError, PenstockError
from penstock.cli.way import Row
from penstock.cli.ways import WAYS
from penstock.client.errors import (
    ChannelClosedError,
    ClientError,
    ConnectError,
    ConnectionClosedError,
)
from penstock.client.io_blocking import open_over
from penstock.client.url import BrokerUrl
from penstock.server.control.control_client import amqp_socket, not_utf8

NAME: Final = "penstock command"


def over_amqp(path: str, request: Row) -> Row:
    """Do `request` on a channel of its vhost. Raises: OperatorError with the broker's own text."""
    amqp = WAYS[f"{request['op']} {request['do']}"].amqp
    assert amqp is not None, "commands ask the others"
    where = BrokerUrl(user="", password="", vhost=str(request["vhost"]))
    sock = amqp_socket(path)
    try:
        connection = open_over(sock, where, NAME)
    except ConnectError as error:
        sock.close()
        raise OperatorError(str(error).rpartition(": ")[2] or str(error)) from error
    try:
        return amqp(connection.channel(), request)
    except (ChannelClosedError, ConnectionClosedError) as error:
        raise OperatorError(error.text.partition(" - ")[2] or error.text) from error
    except OperatorError:
        raise
    except UnicodeEncodeError as error:
        raise OperatorError(not_utf8(error)) from error
    except (ClientError, ValueError, TypeError, OverflowError) as error:
        raise OperatorError(str(error)) from error
    except PenstockError as error:
        # A value that AMQP cannot carry.
        raise OperatorError(str(getattr(error, "reason", error))) from error
    finally:
        connection.close()
