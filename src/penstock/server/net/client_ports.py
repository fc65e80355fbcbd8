"""The ports where clients come in, of a process whose brokers are others, which inherit them.

So no port is ever closed while that process lives, and a client that comes while a broker starts
anew waits to be accepted.
"""

import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.server.net.listener import open_socket
from penstock.server.net.tls_endpoint import is_tls_wanted

CLIENTS: Final = "clients"
TLS_CLIENTS: Final = "tls_clients"
"""Names of listening sockets that a broker inherits."""
NO_PORT: Final = "port = -1 and no TLS: nobody could connect; give tls_cert, or another port"


class ClientPorts:
    """socks: by those names."""

    def __init__(self, config: Config, given: Mapping[str, int] | None = None) -> None:
        """given: descriptors of such ports, by name, of a process that has opened them already.
        Raises: OperatorError."""
        self.host = config.host
        self.socks: dict[str, socket.socket] = {}
        for name, handle in (given or {}).items():
            self.socks[name] = socket.socket(fileno=handle)
            self.socks[name].setblocking(False)
        if given is None:
            self._open(config)

    def _open(self, config: Config) -> None:
        try:
            if config.port >= 0:
                self.socks[CLIENTS] = open_socket(config.host, config.port)
            if is_tls_wanted(config):
                self.socks[TLS_CLIENTS] = open_socket(config.host, config.tls_port, "--tls-port")
            if not self.socks:
                raise OperatorError(NO_PORT)
        except BaseException:
            self.close()
            raise

    def port_of(self, name: str) -> int:
        """-1 where there is none."""
        sock = self.socks.get(name)
        return -1 if sock is None else int(sock.getsockname()[1])

    @property
    def port(self) -> int:
        """The first that there is; the control sockets are called by it."""
        return self.port_of(CLIENTS if CLIENTS in self.socks else TLS_CLIENTS)

    def public(self) -> list[tuple[socket.socket, bool]]:
        """Where clients come in, and whether that is for TLS."""
        return [
            (self.socks[name], name == TLS_CLIENTS)
            for name in (CLIENTS, TLS_CLIENTS)
            if name in self.socks
        ]

    def handles(self) -> tuple[int, ...]:
        """What a broker inherits."""
        return tuple(sock.fileno() for sock in self.socks.values())

    def inherited(self) -> dict[str, int]:
        return {name: sock.fileno() for name, sock in self.socks.items()}

    def settled(self, config: Config) -> Config:
        """`config` with the ports that there are."""
        return replace(config, port=self.port_of(CLIENTS), tls_port=self.port_of(TLS_CLIENTS))

    def addresses(self) -> list[str]:
        """Where clients come in, for people: `amqp://127.0.0.1:5672`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        schemes = ((CLIENTS, "amqp"), (TLS_CLIENTS, "amqps"))
        return [
            f"{scheme}://{host}:{self.port_of(name)}"
            for name, scheme in schemes
            if name in self.socks
        ]

    def shown(self) -> str:
        return " ".join(self.addresses())

    def local(self) -> str:
        """The first of them, as a client on this machine calls it: `amqp://127.0.0.1:5672`."""
        host, port = self.public()[0][0].getsockname()[:2]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        scheme = "amqps" if self.public()[0][1] else "amqp"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def close(self) -> None:
        for sock in self.socks.values():
            sock.close()
