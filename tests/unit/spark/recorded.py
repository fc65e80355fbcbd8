"""Events at random, such as brokers might tell of: lost ones, repeated ones, three boots of two
nodes with the same names, two of them at the same time."""

from hypothesis import strategies as st

from penstock.spark.schema.formats import STATE_FIELDS
from tests.spark.flow_events import FlowEvent

WIDTH_NS = 40
ACTORS = ("conn:A", "chan:A/1", "queue:/q", "queue:/r", "consumer:a@A", "consumer:b@B")
WAY = (*ACTORS[:4], "consumers:/q", *ACTORS[4:], "store:/", "rate:A", "alarm:memory")
EDGES = [(actor, peer) for at, actor in enumerate(WAY) for peer in WAY[at + 1 :] if actor in ACTORS]
"""Who may wait for whom. None leads back: where a bucket has a cycle, which a broker never has, the
oracle follows it moment by moment and the tables do not (`test_blame_columns.py`)."""
KINDS = ("gate_closed", "gate_opened")

gates = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(EDGES),
    st.sampled_from(("credit", "prefetch")),
    st.integers(-5, 50),
).map(lambda one: (one[0], *one[1], *one[2:]))
others = st.one_of(
    st.tuples(
        st.sampled_from(("actor_down", "actor_up", "time_sample")),
        st.sampled_from(ACTORS),
        st.sampled_from(("", "queue:/q")),
        st.just(""),
        st.integers(0, 3),
    ),
    st.tuples(
        st.just("queue_sample"),
        st.sampled_from(("queue:/q", "queue:/r")),
        st.just(""),
        st.just(""),
        st.integers(0, 3),
    ),
    st.tuples(
        st.sampled_from(("alarm_set", "alarm_cleared", "dropped")),
        st.sampled_from(("alarm:memory", "alarm:disk")),
        st.just(""),
        st.just(""),
        st.integers(1, 3),
    ),
)
steps = st.tuples(st.one_of(gates, gates, others), st.integers(0, 30), st.integers(0, 9))
"""What happened, how long after what came before, and whether it was lost (0) or repeated (1)."""
Moves = list[tuple[tuple[str, str, str, str, int], int, int]]


def recorded(moves: Moves) -> list[FlowEvent]:
    events: list[FlowEvent] = []
    t_ns = 1_000
    for seq, ((kind, actor, peer, reason, amount), step_ns, fate) in enumerate(moves):
        t_ns += step_ns
        boot_id, node = ("c1", "m") if seq % 3 == 0 else ("b1" if seq < 30 else "b2", "n")
        numbers: dict[str, int] = {}
        if kind == "time_sample":
            numbers = {name: t_ns * (at + 1) // 7 for at, name in enumerate(STATE_FIELDS)}
        elif kind == "queue_sample":
            numbers = {"ready": amount, "unacked": 1, "consumers": amount % 2, "acked": t_ns}
        one = FlowEvent(boot_id, seq, t_ns, kind, actor, peer, reason, amount, numbers, node)
        events += [one] * ((0, 2)[fate] if fate < 2 else 1)
    return events
