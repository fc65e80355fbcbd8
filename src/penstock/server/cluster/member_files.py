"""What a member remembers in DIR/cluster besides its position: one small file, written whole."""

from pathlib import Path
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.replication.state import MemberState
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
    except FileNotFoundError:
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


def has_data(directory: Path) -> bool:
    """Whether a broker has been at work there."""
    return (directory / "VERSION").exists()
