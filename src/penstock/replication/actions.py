"""What a member wants done, in the order in which it wants it. The server carries it out."""

from msgspec import Struct

from penstock.replication.config import ClusterConfig, Promise
from penstock.replication.frames import Frame
from penstock.replication.positions import Entry, Position
from penstock.replication.state import MemberState


class Send(Struct, frozen=True):
    """Send a frame; without a link it is dropped."""

    peer: str
    frame: Frame


class Drop(Struct, frozen=True):
    """Close the link to a peer, which was told why."""

    peer: str
    words: str


class Persist(Struct, frozen=True):
    """Write the state and sync it, then call `persisted`."""

    number: int
    state: MemberState


class Apply(Struct, frozen=True):
    """Apply entries in their order, sync them, store the position, then call `applied`."""

    entries: tuple[Entry, ...]


class StartLeading(Struct, frozen=True):
    """Start the broker on the directory; the first entry it sends has the number `next_seq`."""

    epoch: int
    next_seq: int


class Serve(Struct, frozen=True):
    """The epoch's first entry is committed: clients may come in."""

    epoch: int


class Committed(Struct, frozen=True):
    """Everything up to `seq` is committed."""

    epoch: int
    seq: int


class StopLeading(Struct, frozen=True):
    """Stop the broker, then call `stopped`. is_orderly: it may end its work first."""

    epoch: int
    words: str
    is_orderly: bool


class BeginResync(Struct, frozen=True):
    """Make the directory the leader's, then call `copied`. base: what the position becomes."""

    leader: str
    epoch: int
    session: int
    base: Position


class AbortResync(Struct, frozen=True):
    """Stop copying; the directory stays a mixture."""

    words: str


class WholeAt(Struct, frozen=True):
    """After a copy: the directory is whole when `position` is applied, at once when it is the base
    of the resync. `applied` is called with it in any case."""

    position: Position


class AskMark(Struct, frozen=True):
    """Have the broker end and send the entry it is at, then call `marked` behind that entry: a copy
    that was read from its directory holds nothing of entries that were not sent."""

    number: int


class ServeResync(Struct, frozen=True):
    """Answer the resync of a follower."""

    peer: str
    session: int
    base: Position


class ReadConfig(Struct, frozen=True):
    """Read the configuration, then call `config_seen`."""


class Swap(Struct, frozen=True):
    """Replace the configuration if it still has that revision, 0 when there is none."""

    number: int
    expected_revision: int
    config: ClusterConfig


class PutPromise(Struct, frozen=True):
    """Put a promise where every voter sees it."""

    promise: Promise


class PutSuspicion(Struct, frozen=True):
    """Put where every voter sees it that the leader of this epoch is not heard."""

    epoch: int


class WithdrawSuspicion(Struct, frozen=True):
    """Take it back."""

    epoch: int


class Refuse(Struct, frozen=True):
    """The member takes part no longer; words: why, and what an operator can do."""

    words: str


class Closed(Struct, frozen=True):
    """Everything is in order for the process to end."""


Action = (
    Send
    | Drop
    | Persist
    | Apply
    | StartLeading
    | Serve
    | Committed
    | StopLeading
    | BeginResync
    | AbortResync
    | WholeAt
    | AskMark
    | ServeResync
    | ReadConfig
    | Swap
    | PutPromise
    | PutSuspicion
    | WithdrawSuspicion
    | Refuse
    | Closed
)
