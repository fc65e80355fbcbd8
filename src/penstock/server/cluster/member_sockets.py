"""The sockets where clients come in: the member's all the time, its broker's while it leads.

A Unix socket besides the ports, of this user alone, is for forwarded clients.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.server.boot.node import FORWARDED
from penstock.server.control.control_client import control_path
from penstock.server.net.client_ports import ClientPorts

BACKLOG: Final = 1024


class MemberSockets(ClientPorts):
    """private: where the broker takes forwarded clients."""

    def __init__(self, config: Config, given: Mapping[str, int] | None = None) -> None:
        """given: the ports of a node with several members, as descriptors by name; then it is the
        control socket that each has to itself. Raises: OperatorError."""
        self.private: Path | None = None
        super().__init__(config, given)
        whole = Path(control_path(self.port) if given is None else config.control_socket)
        try:
            self._open_private(whole.with_name(f"{whole.stem}-forwarded.sock"))
        except BaseException:
            self.close()
            raise

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

    def close(self) -> None:
        super().close()
        if self.private is not None:
            with suppress(OSError):
                self.private.unlink()
