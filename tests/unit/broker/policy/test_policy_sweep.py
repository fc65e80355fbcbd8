"""A changed policy reaches many queues in slices, and nobody waits for all of them."""

from penstock.base.limits import POLICY_SWEEP_MATCHES
from penstock.base.policy import Policy
from penstock.broker.policy.policy_manager import CHANGES_PER_SLICE, MESSAGES_PER_SLICE, Sweep
from penstock.broker.vhost.vhost import VirtualHost
from tests.unit.broker.peer import Bed


def policy(maximum: int, pattern: str = "^q") -> Policy:
    return Policy("/", "p", pattern, {"max-length": maximum}, 0, "queues")


def with_queues(count: int) -> tuple[Bed, VirtualHost]:
    bed = Bed()
    vhost = bed.broker.vhosts["/"]
    for number in range(count):
        vhost.add_queue(bed.broker.make_queue(vhost, f"q{number}", False, False, "", {}))
    bed.run()
    return bed, vhost


def limits(vhost: VirtualHost) -> list[int]:
    return [
        -1 if one.ruling is None else int(one.ruling.rules.max_length)
        for one in vhost.queues.values()
    ]


def test_changes_are_made_in_slices() -> None:
    count = 3 * CHANGES_PER_SLICE
    bed, vhost = with_queues(count)
    outcome = bed.broker.policy_manager.set(policy(5), False)
    assert (outcome.changed, outcome.left) == (CHANGES_PER_SLICE, count - CHANGES_PER_SLICE)
    bed.run()
    assert limits(vhost) == [5] * count


def test_looking_is_bounded_too() -> None:
    count = 2 * POLICY_SWEEP_MATCHES.default
    bed, vhost = with_queues(count)
    outcome = bed.broker.policy_manager.set(policy(5, "^nothing"), False)
    exchanges = len(vhost.router.exchanges())
    looked = count + exchanges - outcome.left
    assert outcome.changed == 0 and looked == POLICY_SWEEP_MATCHES.default
    bed.run()
    assert limits(vhost) == [-1] * count


def test_many_policies_make_slices_shorter() -> None:
    bed, vhost = with_queues(20)
    for number in range(POLICY_SWEEP_MATCHES.default):
        one = Policy("/", f"x{number}", "^nothing", {"expires": 1}, 0)
        bed.broker.policies.put(one, False)
    sweep = Sweep(vhost, bed.broker.policies, bed.broker.rulebook)
    before = sweep.left
    assert sweep.step() and before - sweep.left == 1


def test_a_long_queue_ends_its_slice() -> None:
    bed, vhost = with_queues(3)
    peer = bed.connect()
    peer.publish("q0", *([b"x"] * MESSAGES_PER_SLICE))
    outcome = bed.broker.policy_manager.set(policy(MESSAGES_PER_SLICE), False)
    assert (outcome.changed, outcome.left) == (1, 2)
    bed.settle()
    assert limits(vhost) == [MESSAGES_PER_SLICE] * 3


def test_a_change_under_way_is_overtaken_by_the_next() -> None:
    count = 4 * CHANGES_PER_SLICE
    bed, vhost = with_queues(count)
    bed.broker.policy_manager.set(policy(5), False)
    second = bed.broker.policy_manager.set(policy(7), False)
    assert second.left > 0 and limits(vhost).count(5) == CHANGES_PER_SLICE
    bed.run()
    assert limits(vhost) == [7] * count


def test_queues_may_come_and_go_meanwhile() -> None:
    count = 2 * CHANGES_PER_SLICE
    bed, vhost = with_queues(count)
    bed.broker.policy_manager.set(policy(5), False)
    vhost.remove_queue(vhost.queues[f"q{count - 1}"])
    vhost.add_queue(bed.broker.make_queue(vhost, "q-new", False, False, "", {}))
    bed.settle()
    assert limits(vhost) == [5] * count
