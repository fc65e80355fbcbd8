"""Who gives queues their rules: at declaration, when rules change, when a message asks for some."""

from typing import Final

from penstock.base.errors import OperatorError
from penstock.broker.dead_letter.dead_letter_manager import DeadLetterManager
from penstock.broker.dead_letter.dead_letters import address_dead_letters
from penstock.broker.policy.policies import Policies
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.queue.expiry_and_limits import Ruling
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.context import Context
from penstock.broker.vhost.queue_arguments import is_quorum, is_stream
from penstock.broker.vhost.vhost import REPLY_PREFIX
from penstock.queues.applied import Applied, merge_arguments
from penstock.queues.consumer_selection import ConsumerSelection
from penstock.queues.policy_keys import ALARM_ACTION
from penstock.queues.rules import NEVER, OVERFLOW_NAMES, QueueRules, rules_from

OVERFLOW_KEYS: Final = ("x-overflow", "overflow")


class RuleManager:
    """vhosts: of the broker, live; dues: where timers of queues stand; policies: those there are.
    Owner: the broker."""

    def __init__(self, context: Context, policies: Policies) -> None:
        config = context.config
        self.vhosts = context.vhosts
        self.dues = context.dues
        self.policies = policies
        self.max_length = config.queue_max_length or NEVER
        self.max_bytes = config.queue_max_bytes or NEVER
        self.overflow = _overflow(config.queue_overflow)
        for key, value in (
            ("queue_max_length", config.queue_max_length),
            ("queue_max_bytes", config.queue_max_bytes),
        ):
            if value < 0:
                raise OperatorError(f"{key} = {value}: must be 0 (no limit) or more")
        self.letters = DeadLetterManager(context)

    # -- giving ----------------------------------------------------------------------------------

    def made(self, actor: QueueActor) -> None:
        """A queue is declared: it gets what its arguments, the policies that match its name and the
        node's defaults ask for."""
        actor.takes_policies = True
        actor.applied = self._policies_of(actor)
        if not actor.has_rules:
            return
        rules = self.rules_of(actor)
        if rules.is_single_active:
            actor.choice = ConsumerSelection(True)
        self.apply(actor, rules)

    def rules_of(self, actor: QueueActor) -> QueueRules:
        """What `actor` is to go by."""
        said = actor.arguments
        if actor.applied is not None:
            said = merge_arguments(said, actor.applied.definition)
        return self.with_defaults(rules_from(said), said)

    def look_again(self, actor: QueueActor) -> bool:
        """The policies have changed; True if `actor` goes by others now."""
        if not actor.takes_policies:
            # The store of an exchange is no queue to policies.
            return False
        applied = self._policies_of(actor)
        if applied == actor.applied:
            return False
        actor.applied = applied
        actor.policies_changed()
        if actor.has_rules:
            self.apply(actor, self.rules_of(actor))
        return True

    def _policies_of(self, actor: QueueActor) -> Applied | None:
        # Replies to one consumer are no queue to RabbitMQ's policies.
        if actor.name.startswith(REPLY_PREFIX):
            return None
        said = actor.arguments
        applied = self.policies.for_queue(actor.vhost, actor.name, is_quorum(said), is_stream(said))
        if applied is not None and ALARM_ACTION in applied.definition:
            self.vhosts[actor.vhost].has_alarm_actions = True
        return applied

    def with_defaults(self, rules: QueueRules, said: dict[str, object]) -> QueueRules:
        """`rules` with the node's default depth where they say none; the node's overflow belongs
        to its own depth, and stands back behind what is `said`."""
        if not rules.is_limited() and (self.max_length != NEVER or self.max_bytes != NEVER):
            rules.max_length = self.max_length
            rules.max_bytes = self.max_bytes
            if not any(key in said for key in OVERFLOW_KEYS):
                rules.overflow = self.overflow
        return rules

    def apply(self, actor: QueueActor, rules: QueueRules) -> None:
        """`actor` goes by `rules` from now on, whatever it had before."""
        actor.go_by(rules)
        ruling = actor.ruling
        if ruling is not None:
            address_dead_letters(self.letters, actor, ruling, rules)

    def new_ruling(self, actor: ClassicActor) -> Ruling:
        return Ruling(actor, self.dues, self.unused)

    # -- ending and pausing ----------------------------------------------------------------------

    def unused(self, actor: ClassicActor) -> None:
        self.vhosts[actor.vhost].remove_queue(actor)


def _overflow(name: str) -> int:
    if name not in OVERFLOW_NAMES:
        known = ", ".join(OVERFLOW_NAMES)
        raise OperatorError(f"queue_overflow = '{name}' is unknown; one of: {known}")
    return OVERFLOW_NAMES.index(name)
