"""What a member remembers in DIR/cluster besides its position: one small file, written whole."""

import shutil
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.replication.state import MemberState
from penstock.server.cluster.applier import replay
from penstock.server.cluster.position import PositionFile
from penstock.server.disk.data_directory import DataDirectory
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


def leave(directory: Path) -> None:
    """Make a node's directory a single broker's. The node is stopped. Raises: OperatorError."""
    state = read_state(directory)
    if state is None:
        raise OperatorError(f"{directory} belongs to no cluster")
    held = DataDirectory(directory, "leave")
    position = PositionFile(directory)
    try:
        stored = replay(directory, position)
        if not state.is_whole or stored is None or not stored.is_whole:
            raise OperatorError(
                f"{directory} is half a copy of its leader's directory: take another node's"
            )
        shutil.rmtree(directory / FOLDER)
    except OSError as fault:
        raise OperatorError(f"{directory} cannot be changed: {fault.strerror}") from fault
    finally:
        position.close()
        held.close()


def has_data(directory: Path, state: MemberState | None) -> bool:
    """Whether a broker has been at work there. state: what `read_state` says of it."""
    if state is None:
        return (directory / "VERSION").exists()
    # A member makes that file as well, and may have ended before it had joined: etcd was not
    # there, or a port was taken. What a broker makes besides is not there then.
    return (directory / "vhosts").exists() or (directory / "INVENTORY").exists()
