"""What queues and exchanges go by: rules at a declaration, and policies set while the broker runs.

RuleManager gives a queue its rules. PolicyManager sets and clears policies: recorded, logged, and
put in force by a Sweep, in steps.
"""

from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import POLICY_SWEEP_MATCHES
from penstock.base.policy import Policy, shown
from penstock.broker.actors.actor import Errand
from penstock.broker.actors.cleanup import Cleanup
from penstock.broker.dead_letter.dead_letter_manager import DeadLetterManager
from penstock.broker.dead_letter.dead_letters import address_dead_letters
from penstock.broker.policy.depth_marks import DepthMarks
from penstock.broker.policy.policies import COMPONENT, POLICY_COMPONENT, Policies
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.queue.expiry_and_limits import ExpiryAndLimits
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.context import Context
from penstock.broker.vhost.queue_arguments import is_quorum, is_stream
from penstock.broker.vhost.vhost import REPLY_PREFIX, VirtualHost
from penstock.queues.applied import Applied, merge_arguments
from penstock.queues.consumer_selection import ConsumerSelection
from penstock.queues.policy_keys import ALARM_ACTION, ALTERNATE
from penstock.queues.rules import NEVER, OVERFLOW_NAMES, QueueRules, rules_from
from penstock.routing.default import DEFAULT_EXCHANGE_NAME
from penstock.routing.exchange import Exchange
from penstock.telemetry.events import SETTING_CHANGED

CHANGES_PER_SLICE = 64
"""Queues and exchanges that go by other rules, in one slice."""
MESSAGES_PER_SLICE = 4096
"""Messages in the queues that were changed, after which a slice ends: they may be moved."""

OVERFLOW_KEYS: Final = ("x-overflow", "overflow")


class RuleManager:
    """vhosts: of the broker, live; dues: where timers of queues stand; policies: those there are;
    depth_marks: of every queue. Owner: the broker."""

    def __init__(self, context: Context, policies: Policies, depth_marks: DepthMarks) -> None:
        config = context.config
        self.vhosts = context.vhosts
        self.dues = context.dues
        self.policies = policies
        self.depth_marks = depth_marks
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

    def made(self, actor: QueueActor) -> None:
        """A queue is declared: it gets what its arguments, the policies that match its name and the
        node's defaults ask for."""
        actor.takes_policies = True
        actor.applied = self._policies_of(actor)
        if actor.durability is not None:
            actor.durability.policies_changed(actor)
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
        if actor.durability is not None:
            actor.durability.policies_changed(actor)
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
        if isinstance(actor, ClassicActor):
            self.depth_marks.apply(actor, rules)
        queue_limits = actor.queue_limits
        if queue_limits is not None:
            address_dead_letters(self.letters, actor, queue_limits, rules)

    def new_limits(self, actor: ClassicActor) -> ExpiryAndLimits:
        return ExpiryAndLimits(actor, self.dues, self.unused)

    # -- ending and pausing ----------------------------------------------------------------------

    def unused(self, actor: ClassicActor) -> None:
        self.vhosts[actor.vhost].remove_queue(actor)


def _overflow(name: str) -> int:
    if name not in OVERFLOW_NAMES:
        known = ", ".join(OVERFLOW_NAMES)
        raise OperatorError(f"queue_overflow = '{name}' is unknown; one of: {known}")
    return OVERFLOW_NAMES.index(name)


class Sweep(Errand):
    """changed: queues and exchanges that got other rules since it began; left: those that have
    still to be looked at; is_done: nothing is left; is_over: the virtual host is gone."""

    def __init__(self, vhost: VirtualHost, policies: Policies, rules: RuleManager) -> None:
        self.vhost = vhost
        self.policies = policies
        self.rules = rules
        self.changed = 0
        self.is_again = False
        self.is_done = False
        self.is_over = False
        self.queues: list[str] = []
        self.exchanges: list[str] = []
        self._collect()

    @property
    def left(self) -> int:
        count = len(self.queues) + len(self.exchanges)
        if self.is_again:
            count += len(self.vhost.queues) + len(self.vhost.router.exchanges())
        return count

    def begin_again(self) -> None:
        """The policies have changed meanwhile."""
        self.is_again = True

    def step(self) -> bool:
        if self.is_over:
            return False
        looks = max(1, POLICY_SWEEP_MATCHES.default // max(1, self.policies.count(self.vhost.name)))
        changes, messages = CHANGES_PER_SLICE, MESSAGES_PER_SLICE
        while looks > 0 and changes > 0 and messages > 0 and self.exchanges:
            looks -= 1
            changes -= self._exchange(self.exchanges.pop())
        while looks > 0 and changes > 0 and messages > 0 and self.queues:
            looks -= 1
            actor = self.vhost.queues.get(self.queues.pop())
            if actor is not None and self.rules.look_again(actor):
                self.changed += 1
                changes -= 1
                messages -= int(actor.messages.ready_count())
        if self.queues or self.exchanges:
            return True
        if self.is_again:
            self.is_again = False
            self._collect()
            return True
        self.is_done = True
        return False

    def _collect(self) -> None:
        self.queues = list(self.vhost.queues)
        self.exchanges = [one.name for one in self.vhost.router.exchanges()]
        # They are taken from the end, and the oldest are to be first.
        self.queues.reverse()
        self.exchanges.reverse()

    def _exchange(self, name: str) -> int:
        exchange = self.vhost.find_exchange(name)
        if exchange is None or not follow(self.policies, self.vhost.name, exchange):
            return 0
        self.changed += 1
        return 1


def follow(policies: Policies, vhost: str, exchange: Exchange) -> bool:
    """Let `exchange` go by the policies that match it; True if that changes anything. The default
    exchange has none, as in RabbitMQ."""
    if exchange.name == DEFAULT_EXCHANGE_NAME:
        return False
    applied = policies.for_exchange(vhost, exchange.name)
    said = None if applied is None else applied.definition.get(ALTERNATE)
    before = exchange.alternate
    name = said if isinstance(said, str) else None
    if name == before:
        return False
    if isinstance(exchange.arguments.get(ALTERNATE), str):
        return False
    exchange.set_policy_alternate(name)
    return True


@dataclass(frozen=True, slots=True)
class Outcome:
    """before: the policy that had the name; changed: queues and exchanges that go by other rules
    already; left: those that are looked at in later turns."""

    before: Policy | None
    changed: int
    left: int


class PolicyManager:
    """policies, rules, vhosts, cleanup: the broker's own."""

    def __init__(
        self, context: Context, policies: Policies, rules: RuleManager, cleanup: Cleanup
    ) -> None:
        self.policies = policies
        self.rules = rules
        self.context = context
        self.vhosts = context.vhosts
        self.cleanup = cleanup
        self.recorder = context.recorder
        self.log = context.log
        self._sweeps: dict[str, Sweep] = {}
        for vhost in self.vhosts.values():
            for exchange in vhost.router.exchanges():
                self.exchange_made(vhost.name, exchange)

    def set(self, policy: Policy, is_operator: bool) -> Outcome:
        """Put `policy` in force. Raises: OperatorError, then nothing has changed."""
        before = self.policies.put(policy, is_operator)
        was = "none" if before is None else _in_words(before)
        self._note(policy.vhost, policy.name, is_operator, f"{was} -> {_in_words(policy)}")
        if before == policy:
            return Outcome(before, 0, 0)
        self.context.catalogue.parameter_set(
            policy.vhost, _component(is_operator), policy.name, policy.as_json()
        )
        return self._sweep(policy.vhost, before)

    def clear(self, vhost: str, name: str, is_operator: bool) -> Outcome:
        """Take a policy out of force. Raises: OperatorError if there is none."""
        before = self.policies.drop(vhost, name, is_operator)
        self.context.catalogue.parameter_cleared(vhost, _component(is_operator), name)
        self._note(vhost, name, is_operator, f"{_in_words(before)} -> none")
        return self._sweep(vhost, before)

    def bring_back(self, policy: Policy, is_operator: bool) -> None:
        """A policy that was kept, before anything listens: of queues there are none yet, but every
        virtual host has its first exchanges. Raises: OperatorError."""
        self.policies.put(policy, is_operator)
        for exchange in self.vhosts[policy.vhost].router.exchanges():
            self.exchange_made(policy.vhost, exchange)

    def vhost_gone(self, vhost: str) -> None:
        """Nothing is left in it, and its policies go."""
        sweep = self._sweeps.pop(vhost, None)
        if sweep is not None:
            sweep.is_over = True
        for is_operator in (False, True):
            for policy in self.policies.listing(is_operator, vhost):
                self.context.catalogue.parameter_cleared(
                    vhost, _component(is_operator), policy.name
                )
        self.policies.drop_vhost(vhost)

    def exchange_made(self, vhost: str, exchange: Exchange) -> None:
        """An exchange is new: it goes by the policies that match it from its first message on."""
        follow(self.policies, vhost, exchange)

    def _sweep(self, vhost: str, before: Policy | None) -> Outcome:
        sweep = self._sweeps.get(vhost)
        if sweep is None or sweep.is_done:
            sweep = Sweep(self.vhosts[vhost], self.policies, self.rules)
            self._sweeps[vhost] = sweep
            self.cleanup.begin(sweep)
        else:
            sweep.begin_again()
        return Outcome(before, sweep.changed, sweep.left)

    def _note(self, vhost: str, name: str, is_operator: bool, change: str) -> None:
        kind = "operator-policy" if is_operator else "policy"
        self.recorder.record(SETTING_CHANGED, f"{kind}:{vhost}:{name}", "", change, 0)
        self.log.info(f"{kind} '{name}' in vhost '{vhost}': {change}")


def _component(is_operator: bool) -> str:
    return COMPONENT if is_operator else POLICY_COMPONENT


def _in_words(policy: Policy) -> str:
    said = ", ".join(f"{key} {shown(value)}" for key, value in policy.definition.items())
    return f"{policy.apply_to} '{policy.pattern}' priority {policy.priority}: {said}"
