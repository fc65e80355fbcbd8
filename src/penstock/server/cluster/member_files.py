"""What a member remembers in DIR/cluster besides its position: one small file, written whole."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.replication.operations import OperationFault
from penstock.replication.state import MemberState
from penstock.server.cluster.applier import replay
from penstock.server.cluster.position import PositionFile
from penstock.server.disk.data_directory import WORKERS, DataDirectory
from penstock.server.disk.whole_file import write_whole

FOLDER: Final = "cluster"
STATE: Final = "state.json"


def state_path(directory: Path) -> Path:
    return directory / FOLDER / STATE


def read_state(directory: Path) -> MemberState | None:
    """None: the directory has never been a member's. Raises: OperatorError."""
    path = state_path(directory)
    try:
        return msgspec.json.decode(path.read_bytes(), type=MemberState)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise OperatorError(f"{path} cannot be read: {fault.strerror}") from fault
    except msgspec.DecodeError as fault:
        raise OperatorError(
            f"{path} is damaged ({fault}); move the data directory of this node away, run "
            "`penstock cluster forget` for it on another one, and start it empty: it is copied anew"
        ) from fault


def write_state(directory: Path, state: MemberState) -> None:
    """Durable when it returns. Raises: OSError."""
    path = state_path(directory)
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(state))


def single_fault(directory: Path) -> str:
    """Why a broker may not be started on it without the cluster, "" if it may.
    Raises: OperatorError for a state that is damaged."""
    state = read_state(directory)
    if state is None or state.cluster_id == "":
        # One that was refused before it had joined is still what it was.
        return ""
    return (
        f"{directory} belongs to a node of a cluster, which would not know what is changed here: "
        "start it with --coordinator and --name, or take it out of the cluster for good: "
        f"penstock cluster leave {directory}"
    )


def leave(directory: Path) -> int:
    """Make a node's directory a single broker's, and those of its other workers with it; how many
    workers it has. The node is stopped. None of them is changed while something is wrong with one,
    and what was ended in the middle can be done again. Raises: OperatorError."""
    others = sorted((directory / WORKERS).glob("*/"))
    left = [one for one in others if (one / FOLDER).exists()]
    if read_state(directory) is None and not left:
        raise OperatorError(f"{directory} belongs to no cluster")
    found = [one for one in (*left, directory) if read_state(one) is not None]
    with ExitStack() as held:
        for one in found:
            lock = DataDirectory(one, "leave")
            held.callback(lock.close)
            _finish(one)
        # The first one last: as long as it belongs to the cluster no broker starts on it.
        for one in found:
            try:
                shutil.rmtree(one / FOLDER)
            except OSError as fault:
                raise OperatorError(f"{one} cannot be changed: {fault.strerror}") from fault
    return len(others) + 1


def _finish(directory: Path) -> None:
    """What its journal has is in its files, and it is no half copy. Raises: OperatorError."""
    position = PositionFile(directory)
    try:
        stored = replay(directory, position)
        state = read_state(directory)
        if state is None or not state.is_whole or stored is None or not stored.is_whole:
            raise OperatorError(
                f"{directory} is half a copy of its leader's directory: take another node's"
            )
    except OSError as fault:
        raise OperatorError(f"{directory} cannot be changed: {fault.strerror}") from fault
    except OperationFault as fault:
        raise OperatorError(f"{directory} cannot leave the cluster: {fault}") from fault
    finally:
        position.close()


def has_data(directory: Path, state: MemberState | None) -> bool:
    """Whether a broker has been at work there. state: what `read_state` says of it."""
    if state is None:
        return (directory / "VERSION").exists()
    # A member makes that file as well, and may have ended before it had joined: etcd was not
    # there, or a port was taken. What a broker makes besides is not there then.
    return (directory / "vhosts").exists() or (directory / "INVENTORY").exists()
