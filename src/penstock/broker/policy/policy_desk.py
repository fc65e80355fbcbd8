"""Where policies are set and cleared while the broker runs: recorded, logged, and put in force."""

from dataclasses import dataclass

from penstock.base.policy import Policy, shown
from penstock.broker.actors.cleanup import Cleanup
from penstock.broker.policy.policies import COMPONENT, POLICY_COMPONENT, Policies
from penstock.broker.policy.policy_sweep import Sweep, follow
from penstock.broker.policy.rulebook import RuleBook
from penstock.broker.vhost.context import Context
from penstock.routing.exchange import Exchange
from penstock.telemetry.events import SETTING_CHANGED


@dataclass(frozen=True, slots=True)
class Outcome:
    """before: the policy that had the name; changed: queues and exchanges that go by other rules
    already; left: those that are looked at in later turns."""

    before: Policy | None
    changed: int
    left: int


class PolicyDesk:
    """policies, rulebook, vhosts, cleanup: the broker's own."""

    def __init__(
        self,
        context: Context,
        policies: Policies,
        rulebook: RuleBook,
        cleanup: Cleanup,
    ) -> None:
        self.policies = policies
        self.rulebook = rulebook
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

    def exchange_made(self, vhost: str, exchange: Exchange) -> None:
        """An exchange is new: it goes by the policies that match it from its first message on."""
        follow(self.policies, vhost, exchange)

    def _sweep(self, vhost: str, before: Policy | None) -> Outcome:
        sweep = self._sweeps.get(vhost)
        if sweep is None or sweep.is_done:
            sweep = Sweep(self.vhosts[vhost], self.policies, self.rulebook)
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
