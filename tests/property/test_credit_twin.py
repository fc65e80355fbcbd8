"""The emulation profiles against RabbitMQ's credit_flow, step by step: the same in everything that
either can be asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.profile import RABBITMQ_4, RABBITMQ_35, Profile
from tests.spec.credit_flow import Process
from tests.spec.pair import Processes

COUNT = 4
PAIRS = [(first, second) for first in range(COUNT) for second in range(first + 1, COUNT)]
STEP = st.tuples(st.sampled_from(PAIRS), st.booleans(), st.integers(1, 7))


@pytest.mark.parametrize("profile", [RABBITMQ_35, RABBITMQ_4], ids=lambda profile: profile.name)
@given(
    more=st.integers(1, 4), times=st.integers(1, 3), steps=st.lists(STEP, min_size=20, max_size=120)
)
def test_an_emulation_is_credit_flow(
    profile: Profile, more: int, times: int, steps: list[tuple[tuple[int, int], bool, int]]
) -> None:
    """Four processes that send downstream and take what came, obedient or not."""
    ours = Processes(profile.with_messages(more * times, more))
    world: dict[str, Process] = {}
    theirs = [Process(f"P{number}", (more * times, more), world) for number in range(COUNT)]
    wires = {
        (first, second): ours.wire(f"P{first}", f"P{second}", layer=first)
        for first, second in PAIRS
    }
    mail = dict.fromkeys(PAIRS, 0)
    for (first, second), is_send, count in steps:
        wire = wires[(first, second)]
        if is_send:
            wire.send(count)
            for _ in range(count):
                theirs[first].send(f"P{second}")
            mail[(first, second)] += count
        else:
            count = min(count, mail[(first, second)])
            wire.take(count)
            for _ in range(count):
                theirs[second].ack(f"P{first}")
            mail[(first, second)] -= count
        for (sender, receiver), each in wires.items():
            assert each.credit == theirs[sender].window(f"P{receiver}")
            owed = theirs[receiver].receive_count.get(f"P{sender}", more)
            assert each.hop.done == more - owed
            assert each.hop.deferred == more * theirs[receiver].deferred.count(f"P{sender}")
        for process in theirs:
            assert sorted(ours.blockers(process.name)) == sorted(process.blockers)
