"""The depth mark of each queue: what it may hold before its publishers wait, and who has said so.

    setting    queue.depth:/orders, set while the broker runs
    rules      x-depth-mark of the queue, depth-mark of its policies; 0 for none
    node       queue.depth, which begins as queue_depth_bytes of the configuration
The first that says anything counts. Profiles without depth marks know none of them.
Source: architecture section 5 (depth); scenario 116.
"""

from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import DEPTH_MARKS
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.vhost.context import Context
from penstock.queues.applied import PREFIX
from penstock.queues.policy_keys import DEPTH_MARK
from penstock.queues.rules import NEVER, QueueRules

SETTING: Final = "queue.depth"


class DepthMarks:
    """default_bytes: of a queue that nothing is said of, 0 for none. Owner: the broker."""

    def __init__(self, context: Context, default_bytes: int) -> None:
        self.default_bytes = default_bytes
        self._context = context
        self._named: dict[str, int] = {}

    def has_marks(self) -> bool:
        """Whether the profile in force knows depth marks."""
        return self._context.profile.is_depth_aware

    def apply(self, actor: ClassicActor, rules: QueueRules) -> None:
        """`actor`, which goes by `rules`, has the mark they leave it from now on; the store of a
        delaying exchange has bounds of its own."""
        if not self.has_marks() or actor.delays:
            return
        name = actor.identity[6:]
        said = self._named.get(name)
        if said is not None:
            actor.set_depth(said, f"{SETTING}:{name}")
        elif rules.depth_bytes != NEVER:
            actor.set_depth(rules.depth_bytes, _source(actor, int(rules.depth_bytes)))
        else:
            actor.set_depth(self.default_bytes, "")

    # -- what is set while the broker runs -------------------------------------------------------

    def named(self) -> list[str]:
        """The queues with a mark of their own, set while the broker runs."""
        return list(self._named)

    def mark_of(self, name: str) -> int | None:
        """What was set for the queue `name` alone, None for nothing."""
        return self._named.get(name)

    def set_default(self, bytes_: int) -> None:
        """The mark of queues that nothing is said of."""
        self.default_bytes = bytes_

    def set_named(self, name: str, bytes_: int | None) -> None:
        """The mark of the queue `name`, which need not exist yet; None for what else is said of it.
        Raises: OperatorError at DEPTH_MARKS."""
        if bytes_ is None:
            self._named.pop(name, None)
            return
        if name not in self._named and len(self._named) >= DEPTH_MARKS.default:
            raise OperatorError(
                f"{len(self._named)} queues have a depth mark of their own, and "
                f"{DEPTH_MARKS.default} may; give one of them back with {SETTING}:NAME=default, or "
                "set a policy with depth-mark"
            )
        self._named[name] = bytes_


def _source(actor: ClassicActor, bytes_: int) -> str:
    """Whose word `bytes_` is: the policy's, or that of the queue's own argument."""
    applied = actor.applied
    if applied is not None and applied.definition.get(DEPTH_MARK) == bytes_:
        return applied.source_of(DEPTH_MARK)
    return PREFIX + DEPTH_MARK
