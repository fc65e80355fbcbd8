"""Brings a changed policy to the queues and exchanges that are there already, a slice at a time.

One sweep a virtual host. A change while it is under way begins it again after its end: whatever it
looked at before the change is looked at once more, and costs a comparison where nothing is new.
"""

from penstock.base.limits import POLICY_SWEEP_MATCHES
from penstock.broker.actors.cleanup import Errand
from penstock.broker.policy.policies import Policies
from penstock.broker.policy.rulebook import RuleBook
from penstock.broker.vhost.vhost import VirtualHost
from penstock.queues.policy_keys import ALTERNATE
from penstock.routing.default import DEFAULT_EXCHANGE_NAME
from penstock.routing.exchange import Exchange

CHANGES_PER_SLICE = 64
"""Queues and exchanges that go by other rules, in one slice."""
MESSAGES_PER_SLICE = 4096
"""Messages in the queues that were changed, after which a slice ends: they may be moved."""


class Sweep(Errand):
    """changed: queues and exchanges that got other rules since it began; left: those that have
    still to be looked at; is_done: nothing is left."""

    def __init__(self, vhost: VirtualHost, policies: Policies, rulebook: RuleBook) -> None:
        self.vhost = vhost
        self.policies = policies
        self.rulebook = rulebook
        self.changed = 0
        self.is_again = False
        self.is_done = False
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
        looks = max(1, POLICY_SWEEP_MATCHES.default // max(1, self.policies.count(self.vhost.name)))
        changes, messages = CHANGES_PER_SLICE, MESSAGES_PER_SLICE
        while looks > 0 and changes > 0 and messages > 0 and self.exchanges:
            looks -= 1
            changes -= self._exchange(self.exchanges.pop())
        while looks > 0 and changes > 0 and messages > 0 and self.queues:
            looks -= 1
            actor = self.vhost.queues.get(self.queues.pop())
            if actor is not None and self.rulebook.look_again(actor):
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
