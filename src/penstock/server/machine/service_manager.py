"""What systemd, or whatever else has started the broker as a service, is told: that it is ready.

Protocol: a datagram `READY=1` to the local socket named by NOTIFY_SOCKET, as sd_notify(3) sends it;
a name that begins with @ is in the abstract namespace.
"""

import os
import socket
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"


def tell_ready() -> None:
    """Clients may come. Nothing where no service manager waits for it, or has gone."""
    name = os.environ.get(VARIABLE, "")
    if name == "":
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(b"READY=1", address)
        except OSError:
            return
