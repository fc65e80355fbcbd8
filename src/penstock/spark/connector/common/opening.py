"""Opens connections for readers and writers: secrets from where they lie, TLS, a name. IO."""

import os
import ssl
from dataclasses import replace
from pathlib import Path

from penstock.base.errors import OperatorError
from penstock.client.io_blocking import Connection, connect
from penstock.client.url import BrokerUrl
from penstock.spark.connector.common.options import Endpoint

HEARTBEAT_S = 30


def open_connection(endpoint: Endpoint, name: str) -> Connection:
    """A connection to the broker, ready for channels. `name`: shown by the broker.

    Raises: OperatorError for a secret or certificate that is not there, ConnectError otherwise.
    """
    return connect(_with_secret(endpoint), name, _context(endpoint))


def _with_secret(endpoint: Endpoint) -> BrokerUrl:
    url = endpoint.url
    if url.heartbeat_s is None:
        url = replace(url, heartbeat_s=HEARTBEAT_S)
    if endpoint.password_env:
        secret = os.environ.get(endpoint.password_env)
        if secret is None:
            raise OperatorError(
                f"option passwordEnv: there is no {endpoint.password_env} in the environment of "
                f"process {os.getpid()}; set it for the driver and all executors"
            )
        return replace(url, password=secret)
    if endpoint.password_file:
        try:
            text = Path(endpoint.password_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(
                f"option passwordFile: {endpoint.password_file} cannot be read: {error}; it has to "
                "be there for the driver and all executors"
            ) from error
        return replace(url, password=text.partition("\n")[0].rstrip("\r"))
    return url


def _context(endpoint: Endpoint) -> ssl.SSLContext | None:
    if not endpoint.url.tls:
        return None
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file or None)
        if endpoint.cert_file:
            context.load_cert_chain(endpoint.cert_file, endpoint.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise OperatorError(
            f"options tls.*: a certificate or key cannot be used: {error}"
        ) from error
    return context
