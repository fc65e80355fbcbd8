"""The other end of the control socket, for commands: one request, one answer."""

import os
import socket
import tempfile
from pathlib import Path

import msgspec

from penstock.base.errors import OperatorError


def control_path(port: int) -> str:
    """Where the broker on `port` has its control socket unless told otherwise."""
    base = os.environ.get("XDG_RUNTIME_DIR") or os.path.join(
        tempfile.gettempdir(), f"penstock-{os.getuid()}"
    )
    return str(Path(base) / f"penstock-{port}.sock")


def cluster_path(port: int) -> str:
    """Where the node whose clients come to `port` answers questions about its cluster."""
    whole = Path(control_path(port))
    return str(whole.with_name(f"{whole.stem}-cluster.sock"))


def ask(path: str, request: dict[str, object], timeout_s: float = 60.0) -> dict[str, object]:
    """The broker's answer. Raises: OperatorError when there is no broker, or it says no."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout_s)
    try:
        sock.connect(path)
        sock.sendall(msgspec.json.encode(request) + b"\n")
        data = bytearray()
        while not data.endswith(b"\n"):
            piece = sock.recv(1 << 16)
            if not piece:
                break
            data += piece
    except OSError as error:
        raise OperatorError(
            f"no broker answers at {path} ({error.strerror or error}); is `penstock serve` "
            "running, and on this port? give --port or --control"
        ) from error
    finally:
        sock.close()
    if not data:
        raise OperatorError(f"the broker at {path} closed the control socket without an answer")
    answer = msgspec.json.decode(data, type=dict[str, object])
    if "error" in answer:
        raise OperatorError(str(answer["error"]))
    return answer
