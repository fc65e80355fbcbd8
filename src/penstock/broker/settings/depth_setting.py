"""The setting `queue.depth`, of all queues and of one: what is said of depth marks while running.

queue.depth=100MB               every queue of which nothing else is said
queue.depth:/orders=20MB        queue orders in vhost / (queue q in vhost v: v/q)
queue.depth:/orders=default     what its arguments, its policies or the node say
"""

from collections.abc import Callable
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import QUEUE_DEPTH_BYTES
from penstock.base.quantities import parse_bytes, show_bytes
from penstock.base.shown_names import vhost_and_name
from penstock.broker.actors.actor import Errand
from penstock.broker.actors.cleanup import Cleanup
from penstock.broker.policy.depth_marks import SETTING, DepthMarks
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.settings.settings import Setting, Settings
from penstock.broker.vhost.context import Context
from penstock.queues.rules import NEVER, QueueRules

CHANGES_PER_SLICE: Final = 512
"""Queues that are given another mark in one slice."""
OFF: Final = "off"


class DepthSweep(Errand):
    """Gives queues the marks that were changed, in slices. queues: those left."""

    def __init__(
        self, queues: list[ClassicActor], look_again: Callable[[ClassicActor], None]
    ) -> None:
        self.queues = queues
        self.look_again = look_again

    def step(self) -> bool:
        for _ in range(min(CHANGES_PER_SLICE, len(self.queues))):
            actor = self.queues.pop()
            if actor.is_alive:
                self.look_again(actor)
        return len(self.queues) > 0


class DepthSettings:
    """What `queue.depth` reads and writes. Owner: the broker."""

    def __init__(
        self,
        context: Context,
        marks: DepthMarks,
        rules_of: Callable[[ClassicActor], QueueRules],
        cleanup: Cleanup,
    ) -> None:
        self.marks = marks
        self._vhosts = context.vhosts
        self._rules_of = rules_of
        self._cleanup = cleanup

    def in_force(self, name: str) -> int:
        """The mark of the queue `name`, "" for the node's. A queue that does not exist has what was
        set for it, or the node's."""
        if name == "":
            return self.marks.default_bytes
        for actor in self._queues(name):
            return int(actor.depth_bytes)
        said = self.marks.mark_of(name)
        return self.marks.default_bytes if said is None else said

    def change(self, name: str, bytes_: int | None) -> None:
        """Set the mark of the queue `name`, "" for the node's; None for what else is said of it.
        Raises: OperatorError."""
        if not self.marks.has_marks():
            raise OperatorError(
                "the flow profile has no depth marks; start the broker with profile penstock, "
                "adaptive or static-N"
            )
        if name == "":
            assert bytes_ is not None, "the node has always one"
            self.marks.set_default(bytes_)
            queues = [
                actor
                for vhost in self._vhosts.values()
                for actor in vhost.queues.values()
                if isinstance(actor, ClassicActor) and actor.takes_policies
            ]
            self._cleanup.begin(DepthSweep(queues, self._look_again))
            return
        actors = self._queues(name)
        if bytes_ is not None and actors and all(bytes_ == self._without(one) for one in actors):
            # What holds for it anyway needs no entry of its own.
            bytes_ = None
        self.marks.set_named(name, bytes_)
        for actor in actors:
            self._look_again(actor)

    def _without(self, actor: ClassicActor) -> int:
        """The mark of `actor` if nothing were set for it alone."""
        said = self._rules_of(actor).depth_bytes
        return self.marks.default_bytes if said == NEVER else int(said)

    def _look_again(self, actor: ClassicActor) -> None:
        self.marks.apply(actor, self._rules_of(actor))

    def _queues(self, name: str) -> list[ClassicActor]:
        """That called so, if there is one."""
        place = vhost_and_name(name)
        host = None if place is None else self._vhosts.get(place[0])
        actor = None if host is None or place is None else host.queues.get(place[1])
        return [actor] if isinstance(actor, ClassicActor) and actor.takes_policies else []


def add_depth_setting(settings: Settings, depths: DepthSettings) -> None:
    """Offer queue.depth, of all queues and of one."""
    settings.add(_depth(depths, ""))


def _depth(depths: DepthSettings, name: str) -> Setting:
    """name: of one queue, "" for all of which nothing else is said."""
    key = f"{SETTING}:{name}" if name else SETTING
    most = QUEUE_DEPTH_BYTES.highest

    def read() -> str:
        bytes_ = depths.in_force(name)
        return OFF if bytes_ == 0 or not depths.marks.has_marks() else show_bytes(bytes_)

    def write(text: str) -> None:
        word = text.strip().lower()
        if name != "" and word == "default":
            depths.change(name, None)
            return
        bytes_ = 0 if word == OFF else parse_bytes(text)
        if bytes_ > most or (bytes_ == 0 and word != OFF):
            raise OperatorError(f"{key}={text}: write a size of 1..{most} bytes, or {OFF}")
        depths.change(name, bytes_)

    def alone(wanted: str) -> Setting:
        if "/" not in wanted:
            raise OperatorError(
                f"{SETTING}:{wanted}: write VHOST/QUEUE, or /{wanted} for queue {wanted} in vhost /"
            )
        return _depth(depths, wanted)

    return Setting(
        key,
        "bytes or off" if name == "" else "bytes, off or default",
        "what a queue may hold before its publishers wait, unless x-depth-mark or a policy says; "
        f"{SETTING}:NAME for one alone, whatever these say",
        read,
        write,
        depths.marks.named if name == "" else list,
        alone if name == "" else None,
    )
