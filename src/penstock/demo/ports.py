"""Which port the broker gets, and who has it if it is taken."""

import socket
from typing import Final

import psutil

from penstock.base.errors import OperatorError

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535


def choose_port(port: int) -> int:
    """`port` if it is free, any free one for 0.

    The port is free when asked; somebody may still take it before the broker does, which the broker
    then reports itself. Raises: OperatorError naming the owner and the fix.
    """
    if not 0 <= port <= PORT_MAX:
        raise OperatorError(f"port {port} does not exist; choose 1 to {PORT_MAX}, or 0 for any")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as fault:
            raise OperatorError(
                f"port {port} may only be used by root → penstock run --port 0 picks a free port"
            ) from fault
        except OSError as fault:
            raise OperatorError(
                f"port {port} is used by {owner_of(port)} → penstock run --port 0 picks a free port"
            ) from fault
        bound: int = probe.getsockname()[1]
        return bound


def connected_from(pid: int, port: int) -> list[str]:
    """Local addresses of the connections of a process to `port`, sorted; [] if unknown."""
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return []
    return sorted(
        f"{one.laddr.ip}:{one.laddr.port}"
        for one in found
        if one.status == psutil.CONN_ESTABLISHED and one.raddr and one.raddr.port == port
    )


def owner_of(port: int) -> str:
    """The process that listens on `port`, as a person would name it."""
    try:
        listening = [
            found.pid
            for found in psutil.net_connections("tcp")
            if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port
        ]
        for pid in listening:
            if pid is not None:
                name = psutil.Process(pid).name()
                hint = ", RabbitMQ?" if name == "beam.smp" else ""
                return f"pid {pid} ({name}{hint})"
    except psutil.Error:
        return "a process this user may not see"
    return "another process"
