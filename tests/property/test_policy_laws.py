"""Laws of merging and choosing policies.

order       the policy that counts does not depend on the order in which they were set
tightness   an operator policy never lets a number grow that a policy has set
arguments   a policy never lets a number grow that a queue's argument has set
"""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.policy import Policy
from penstock.broker.policy.policies import Policies
from penstock.queues.applied import SMALLER, merge_arguments, merge_policies
from penstock.queues.policy_keys import KEYS
from penstock.queues.rules import NEVER, QueueRules, rules_from
from tests.definitions import policies_in

NUMBERS = sorted(SMALLER)
numbers = st.integers(0, 50)
limits = st.dictionaries(st.sampled_from(NUMBERS), numbers, max_size=4)
delivery = st.dictionaries(st.just("delivery-limit"), st.integers(-2, 9), max_size=1)
overflow = st.dictionaries(
    st.just("overflow"), st.sampled_from(["drop-head", "backpressure"]), max_size=1
)
definitions = st.builds(lambda one, two, three: one | two | three, limits, delivery, overflow)
names = st.text(alphabet="abc", min_size=1, max_size=3)


def bounds(rules: QueueRules) -> list[float]:
    found = (
        rules.ttl_ms,
        rules.expires_ms,
        rules.max_length,
        rules.max_bytes,
        rules.delivery_limit,
    )
    return [float("inf") if one == NEVER else float(one) for one in found]


@given(definitions, definitions)
def test_an_operator_policy_never_loosens(
    policy: dict[str, object], operator: dict[str, object]
) -> None:
    merged = bounds(rules_from(merge_policies(policy, operator)))
    for one in (policy, operator):
        assert all(
            now <= before for now, before in zip(merged, bounds(rules_from(one)), strict=True)
        )


@given(definitions, definitions)
def test_a_policy_never_loosens_an_argument(
    arguments: dict[str, object], policy: dict[str, object]
) -> None:
    said = {"x-" + key: value for key, value in arguments.items()}
    merged = bounds(rules_from(merge_arguments(said, policy)))
    for one in (arguments, policy):
        assert all(
            now <= before for now, before in zip(merged, bounds(rules_from(one)), strict=True)
        )


@given(limits, limits, limits)
def test_merging_numbers_does_not_depend_on_order(
    one: dict[str, object], two: dict[str, object], three: dict[str, object]
) -> None:
    assert merge_policies(one, two) == merge_policies(two, one)
    assert merge_policies(merge_policies(one, two), three) == merge_policies(
        one, merge_policies(two, three)
    )
    assert merge_policies(one, one) == one


policies = st.lists(
    st.builds(
        Policy,
        st.just("/"),
        names,
        st.sampled_from(["", "a", "^b", "c$", "^ab$"]),
        st.just({"max-length": 1}),
        st.integers(-1, 2),
        st.sampled_from(["queues", "exchanges", "all", "classic_queues", "streams"]),
    ),
    max_size=6,
    unique_by=lambda one: one.name,
)


@given(policies, st.randoms(use_true_random=False), names)
def test_the_order_of_setting_does_not_matter(
    wanted: list[Policy], shuffler: object, name: str
) -> None:
    shuffled = list(wanted)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis does not name its type
    one, other = Policies(["/"], wanted, []), Policies(["/"], shuffled, [])
    assert one.for_queue("/", name) == other.for_queue("/", name)
    assert one.for_exchange("/", name) == other.for_exchange("/", name)
    assert one.export() == other.export()


@given(policies, policies)
def test_what_is_exported_can_be_restored(first: list[Policy], second: list[Policy]) -> None:
    there = Policies(["/"], first, second)
    back = Policies(["/"], *policies_in(dict(there.export())))
    assert back.listing(False) == there.listing(False)
    assert back.listing(True) == there.listing(True)


def test_every_number_that_is_merged_is_a_key() -> None:
    assert KEYS.keys() >= SMALLER
