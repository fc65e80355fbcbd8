"""The answer to "why": plain frozen data, for the command line, the HTTP interface and tests.

`dataclasses.asdict` or msgspec turns it into JSON as it stands.
"""

from dataclasses import dataclass
from typing import Final

THROTTLED_SHARE: Final = 0.05
"""An actor is throttled when it was blocked, or publishes of it were parked, for at least this
share of the window."""

THROTTLED: Final = "throttled"
FREE: Final = "free"
UNKNOWN: Final = "unknown"


STORED_NOW: Final = "bytes stored in it"
OUTSTANDING: Final = "messages outstanding"
SENT_NOW: Final = "messages handed to it in this time"
SENT_EVER: Final = "messages handed to it by who is connected now"


@dataclass(frozen=True, slots=True)
class ChainStep:
    """`who` waited for `waits_for` because of `reason`; `ns` of the subject's blocked time.

    detail: numbers of this edge, `400 of 400 used`, or "".
    """

    who: str
    waits_for: str
    reason: str
    ns: int
    detail: str


@dataclass(frozen=True, slots=True)
class RootCause:
    """One root of the subject's blocked time.

    root: actor that is not held; reason: `cpu`, `consumer`, `disk`, `socket`, `credit`, `debt`,
    `stuck` (takes nothing of its mailboxes), `slow` (takes less than it is offered), `rate`,
    `flow`, `alarm:memory`, `alarm:disk`, `waiting`, `circle`, or the gate's own word where nothing
    is known of the root; detail: the root's numbers in words; ns, share: of the subject's
    blocked time (0..1); path: actors from the subject to the root.
    """

    root: str
    reason: str
    detail: str
    ns: int
    share: float
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActorShare:
    """An actor or account with its share, 0..1, of what the field that holds it says."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Wait:
    """answer: what was waited for; share: of the window, 0..1; count: waits; mean_ns: of one;
    in_flight: publishes that were unanswered when the answer came, on average, and `most` of them;
    stages: (name, mean nanoseconds) in the order of the way, which sum to mean_ns."""

    answer: str
    share: float
    count: int
    mean_ns: int
    in_flight: float
    most: int
    stages: tuple[tuple[str, int], ...]

    def plain(self) -> dict[str, object]:
        """For JSON: milliseconds."""
        return {
            "for": self.answer,
            "share": self.share,
            "count": self.count,
            "mean_ms": self.mean_ns / 1e6,
            "in_flight": self.in_flight,
            "in_flight_most": self.most,
            "stages": {name: ns / 1e6 for name, ns in self.stages},
        }

    def stage_ns(self, *names: str) -> int:
        """Nanoseconds of one wait in these stages together."""
        return sum(ns for name, ns in self.stages if name in names)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one actor waited during the last window, or that it did not.

    subject: actor id, or "" for the whole broker; about: its labels in words; state: THROTTLED,
    FREE or UNKNOWN (no such actor: see close_names); window_s: seconds looked at; blocked_share:
    0..1 of it; blocked_ns, stops, longest_ns; held_ns: how long it is being held right now
    without a break, None when it is not.
    shared: channels of the same connection that publish and were held by nothing else, with the
    share of the window they lost because the socket was not read (U11);
    chain: links from the subject to the first cause's root; causes: largest first, they sum to
    blocked_ns; victims: other connections held by the first cause's root, with the share of
    their window it took; victims_more: how many beside those; unaffected: connections that were
    not throttled; loaded: the actor whose load `owners` share, or ""; owned: what is shared:
    STORED_NOW, OUTSTANDING, SENT_NOW or SENT_EVER.
    notes: what else is known of the subject, each a sentence; suggestions: at most three, best
    first; text: the verdict in a sentence.
    behind: of an actor that is not held: what it does to the one it holds most, victims being those
    it holds; or what stops the place where its publishes wait; None without either.
    parked_ns: of blocked_ns, when publishes of it were parked, which others may go past;
    waits: what its client waited for by its own choice, largest first; own_share: 0..1 of the
    window, what was neither that nor blocked.
    """

    subject: str
    about: str
    state: str
    window_s: float
    text: str
    blocked_share: float = 0.0
    blocked_ns: int = 0
    stops: int = 0
    longest_ns: int = 0
    held_ns: int | None = None
    chain: tuple[ChainStep, ...] = ()
    causes: tuple[RootCause, ...] = ()
    victims: tuple[ActorShare, ...] = ()
    victims_more: int = 0
    unaffected: int = 0
    loaded: str = ""
    owners: tuple[ActorShare, ...] = ()
    owned: str = ""
    shared: tuple[ActorShare, ...] = ()
    suggestions: tuple[str, ...] = ()
    close_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    own_share: float = 0.0
    behind: RootCause | None = None
    parked_ns: int = 0

    def exit_status(self) -> int:
        """For a command: 3 throttled, 2 no such actor, 0 otherwise."""
        if self.state == THROTTLED:
            return 3
        return 2 if self.state == UNKNOWN else 0
