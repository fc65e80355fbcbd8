"""The sockets where clients come in: the member's all the time, its broker's while it leads.

So no port is ever closed while the node lives, and a client that comes while leadership changes
waits to be accepted. A Unix socket besides, of this user alone, is for forwarded clients.
"""

import os
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.server.boot.node import CLIENTS, FORWARDED, TLS_CLIENTS
from penstock.server.control.control_client import control_path
from penstock.server.net.listener import open_socket
from penstock.server.net.tls_endpoint import is_tls_wanted

BACKLOG: Final = 1024


class MemberSockets:
    """socks: by the names of boot/node; private: where the broker takes forwarded clients."""

    def __init__(self, config: Config) -> None:
        """Raises: OperatorError."""
        self.host = config.host
        self.socks: dict[str, socket.socket] = {}
        self.private: Path | None = None
        try:
            self._open(config)
        except BaseException:
            self.close()
            raise

    def _open(self, config: Config) -> None:
        if config.port >= 0:
            self.socks[CLIENTS] = open_socket(config.host, config.port)
        if is_tls_wanted(config):
            self.socks[TLS_CLIENTS] = open_socket(config.host, config.tls_port, "--tls-port")
        whole = Path(control_path(self.port))
        self._open_private(whole.with_name(f"{whole.stem}-forwarded.sock"))

    def _open_private(self, path: Path) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socks[FORWARDED] = sock
        sock.setblocking(False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileNotFoundError):
                path.unlink()
            before = os.umask(0o177)
            try:
                sock.bind(str(path))
            finally:
                os.umask(before)
            sock.listen(BACKLOG)
        except OSError as fault:
            raise OperatorError(
                f"cannot make the socket {path}: {fault.strerror}; set XDG_RUNTIME_DIR to a "
                "directory of this user"
            ) from fault
        self.private = path

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

    def shown(self) -> str:
        """Where clients come in, for people: `amqp://127.0.0.1:5672`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        schemes = ((CLIENTS, "amqp"), (TLS_CLIENTS, "amqps"))
        return " ".join(
            f"{scheme}://{host}:{self.port_of(name)}"
            for name, scheme in schemes
            if name in self.socks
        )

    def local(self) -> str:
        """The first of them, as a client on this machine calls it: `amqp://127.0.0.1:5672`."""
        host, port = self.public()[0][0].getsockname()[:2]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        scheme = "amqps" if self.public()[0][1] else "amqp"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def close(self) -> None:
        for sock in self.socks.values():
            sock.close()
        if self.private is not None:
            with suppress(OSError):
                self.private.unlink()
