"""Opens the socket of a blocking client, with TLS where the address asks for it. IO."""

import errno
import socket
import ssl

from penstock.client.errors import ConnectError
from penstock.client.url import BrokerUrl


def open_socket(url: BrokerUrl, context: ssl.SSLContext | None) -> socket.socket:
    """A connected blocking socket without Nagle's delay; TLS for an amqps address.

    Raises: ConnectError naming host and port.
    """
    timeout_s = url.connection_timeout_ms / 1000
    try:
        plain = socket.create_connection((url.host, url.port), timeout_s)
    except OSError as error:
        raise _connect_error(url, error) from error
    except UnicodeError as error:
        # A name with an empty part, or one of more than 63 characters.
        raise ConnectError(
            f"cannot connect to {url.address()}: {url.host!r} is no name of a host ({error})"
        ) from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not url.tls:
            return plain
        chosen = context if context is not None else ssl.create_default_context()
        return chosen.wrap_socket(plain, server_hostname=url.host)
    except OSError as error:
        plain.close()
        raise _connect_error(url, error) from error


def _connect_error(url: BrokerUrl, error: OSError) -> ConnectError:
    """What went wrong while connecting, for people."""
    where = url.address()
    if isinstance(error, ConnectionRefusedError):
        reason = "connection refused; is a broker listening there?"
    elif isinstance(error, socket.gaierror):
        reason = f"the host name {url.host!r} cannot be resolved ({error.strerror})"
    elif isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        reason = f"no answer within {url.connection_timeout_ms} ms (connection_timeout)"
    elif isinstance(error, ssl.SSLError):
        reason = f"TLS failed: {error.reason or error}"
        if error.reason == "WRONG_VERSION_NUMBER":
            reason += "; what answers there speaks no TLS, is it the port of amqp://?"
        elif isinstance(error, ssl.SSLCertVerificationError):
            reason += f" ({error.verify_message})"
    else:
        reason = error.strerror or str(error) or type(error).__name__
    return ConnectError(f"cannot connect to {where}: {reason}")
