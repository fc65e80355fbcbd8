"""The other end of the control socket, for commands: where it is, one request, one answer.

A broker makes its socket in the first of these that there is, and commands look in all of them:

    $RUNTIME_DIRECTORY     of a service of systemd, /run/penstock
    $XDG_RUNTIME_DIR       of a user's session
    /tmp/penstock-UID

Root looks in those of every user besides. A socket is of its broker's user alone.
"""

import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwuid
from typing import Final

from penstock.base.errors import OperatorError

SERVICE: Final = Path("/run/penstock")
"""RuntimeDirectory of packaging/systemd, whose configuration names control.sock in it."""
SESSIONS: Final = Path("/run/user")
OF_CLUSTER: Final = "-cluster"
"""Ending of the socket where a node of a cluster answers, besides that of its broker."""
NOBODY_LEADS: Final = (
    "no node of the cluster leads now, so nobody can answer: look at `penstock cluster status`"
)
UNKNOWN: Final = "unknown question"
"""What a broker says to one that another version has."""
HELLO: Final = b'{"op":"amqp"}\n'
"""Has the broker speak AMQP over the control socket from then on."""


def _own_places() -> list[Path]:
    given = [os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]]
    given.append(os.environ.get("XDG_RUNTIME_DIR", ""))
    given.append(os.path.join(tempfile.gettempdir(), f"penstock-{os.getuid()}"))
    return [Path(one) for one in given if one]


def control_path(port: int) -> str:
    """Where the broker on `port` makes its control socket unless told otherwise."""
    return str(_own_places()[0] / f"penstock-{port}.sock")


def find_control(port: int, ending: str = "") -> str:
    """The control socket of the broker on `port`, whoever runs it; where it would be if there is
    none. ending: of another socket of that broker. Raises: OperatorError if several answer."""
    name = f"penstock-{port}{ending}.sock"
    found: list[str] = []
    paths = [*(place / name for place in _places()), SERVICE / f"control{ending}.sock"]
    for path in paths:
        try:
            if stat.S_ISSOCK(path.stat().st_mode):
                found.append(str(path))
        except OSError:
            continue
    if len(found) > 1:
        found = [one for one in found if is_heard(one)] or found[:1]
    if len(found) > 1:
        raise OperatorError(
            f"several brokers have a control socket for port {port}: {', '.join(found)}; "
            "name one with --control"
        )
    return found[0] if found else str(_own_places()[0] / name)


def _places() -> list[Path]:
    """Own ones first, each once."""
    places = [*_own_places(), SERVICE]
    if os.getuid() == 0:
        places += _places_of_others()
    return list(dict.fromkeys(places))


def _places_of_others() -> Iterator[Path]:
    """Directories of other users, each only if it is that user's own: anybody may make one of any
    name in /tmp."""
    for parent, prefix in ((Path(tempfile.gettempdir()), "penstock-"), (SESSIONS, "")):
        try:
            names = sorted(os.listdir(parent))
        except OSError:
            continue
        for name in names:
            number = name.removeprefix(prefix)
            if not name.startswith(prefix) or not number.isdecimal():
                continue
            place = parent / name
            try:
                about = place.lstat()
            except OSError:
                continue
            if stat.S_ISDIR(about.st_mode) and about.st_uid == int(number):
                yield place


def is_heard(path: str) -> bool:
    """Whether somebody listens at this socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(1.0)
        try:
            sock.connect(path)
        except OSError:
            return False
    return True


def cluster_path(port: int, control: str = "") -> str:
    """Where the node whose clients come to `port` answers questions about its cluster: beside its
    broker's control socket. control: that socket, if it is elsewhere."""
    whole = Path(control or control_path(port))
    return str(whole.with_name(f"{whole.stem}{OF_CLUSTER}.sock"))


def find_cluster(port: int, control: str = "") -> str:
    """That socket, whoever runs the node. control: the broker's or that socket, if it was named.
    Raises: OperatorError if several answer."""
    if not control:
        return find_control(port, OF_CLUSTER)
    beside = cluster_path(port, control)
    return beside if Path(beside).exists() else control


def ask(path: str, request: dict[str, object], timeout_s: float = 60.0) -> dict[str, object]:
    """The broker's answer. Raises: OperatorError when there is no broker, when it may not be asked,
    or when it says no."""
    sock, line = _exchange(path, _line_of(request), timeout_s)
    sock.close()
    answer = _object_in(path, line)
    if "error" in answer:
        raise OperatorError(str(answer["error"]))
    return answer


def amqp_socket(path: str, timeout_s: float = 10.0) -> socket.socket:
    """A socket over which the broker at `path` speaks AMQP, with an operator who may do everything.
    Raises: OperatorError as `ask`."""
    sock, line = _exchange(path, HELLO, timeout_s)
    try:
        answer = _object_in(path, line)
    except OperatorError:
        sock.close()
        raise
    if "error" in answer:
        sock.close()
        said = str(answer["error"])
        if UNKNOWN not in said:
            raise OperatorError(said)
        raise OperatorError(
            f"the broker at {path} is of another version, and lets no messages through its "
            "control socket; use --url, or the commands of that version"
        )
    return sock


def _line_of(request: dict[str, object]) -> bytes:
    """Python's own JSON: a faster one takes a quarter of a command's time to be imported.
    Raises: OperatorError for text that is no UTF-8."""
    try:
        return json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise OperatorError(not_utf8(error)) from error


def not_utf8(error: UnicodeEncodeError) -> str:
    """What is wrong with text of the command line that cannot be sent."""
    wrong = error.object[error.start : error.end]
    return (
        f"what was typed has {wrong!r} in it, which is not UTF-8 as all names of a broker are; set "
        "the terminal to UTF-8"
    )


def _object_in(path: str, line: bytes) -> dict[str, object]:
    """Raises: OperatorError for what no broker says."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OperatorError(
            f"what answers at {path} is no broker of Penstock: it says {line[:40]!r}; give the "
            "control socket of one with --control, or its --port"
        )
    return found


def _exchange(path: str, request: bytes, timeout_s: float) -> tuple[socket.socket, bytes]:
    """The socket, open, and the line that came back."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout_s)
    data = bytearray()
    try:
        sock.connect(path)
        sock.sendall(request)
        while not data.endswith(b"\n"):
            piece = sock.recv(1 << 16)
            if not piece:
                break
            data += piece
    except OSError as error:
        sock.close()
        raise OperatorError(_why_not(path, error)) from error
    if not data:
        sock.close()
        raise OperatorError(f"the broker at {path} closed the control socket without an answer")
    return sock, bytes(data)


def _why_not(path: str, error: OSError) -> str:
    """Whether a right is missing or a broker, and what to do."""
    if isinstance(error, PermissionError):
        owner = _owner(Path(path))
        return (
            f"you may not ask the broker at {path}: its control socket is of user {owner} alone; "
            f"run this as {owner} or as root (sudo), or ask over HTTP: --url http://127.0.0.1:15672"
        )
    said = f"no broker answers at {path} ({error.strerror or error})"
    if isinstance(error, ConnectionRefusedError) and not Path(path).is_socket():
        return f"{path} is no control socket of a broker, nor any socket; give --port or --control"
    if isinstance(error, ConnectionRefusedError):
        return f"{said}: one that has ended has left its socket; is `penstock serve` running?"
    said += "; is `penstock serve` running, and on this port? give --port or --control"
    closed = [one for one in _closed_places() if one != Path(path).parent]
    if isinstance(error, FileNotFoundError) and closed:
        shown = ", ".join(f"{one} of user {_owner(one)}" for one in closed[:3])
        said += f". Brokers of others may be there, which you may not look into: {shown} (sudo)"
    return said


def _closed_places() -> list[Path]:
    """Where brokers of others may have a socket that this user cannot see."""
    places = [one for one in [SERVICE, *_places_of_others()] if one.parent != SESSIONS]
    return [one for one in places if one.is_dir() and not os.access(one, os.X_OK)]


def _owner(path: Path) -> str:
    """The name of the user whose `path` is, or of the first directory above that can be seen."""
    for one in (path, *path.parents):
        try:
            uid = one.stat().st_uid
        except OSError:
            continue
        try:
            return getpwuid(uid).pw_name
        except KeyError:
            return str(uid)
    return "another"
