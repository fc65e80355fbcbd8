"""What is pending at replicated queues is in the ledger and in rows of channels."""

import pytest

from penstock.base.steps import whole
from penstock.broker.admin.answers import AccountRow, Accounts
from penstock.broker.admin.flow_ledger import ledger_rows
from penstock.broker.admin.object_rows import channel_row
from penstock.broker.admin.pending_views import STEP_LANES, pending_by_page
from penstock.cli.flow import show_accounts
from penstock.flow.profile import PENSTOCK, RABBITMQ_4
from penstock.protocol import methods as m
from tests.spec.test_quorum_scenarios import NS_PER_S, STORE, QuorumBed
from tests.unit.broker.peer import Peer


def row(bed: QuorumBed, name: str) -> AccountRow:
    (found,) = [one for one in ledger_rows(bed.broker) if one.name == name]
    return found


def raft_commands(bed: QuorumBed, peer: Peer) -> object:
    """As the HTTP API has it."""
    connection = peer.connection
    wire: dict[str, object] = dict.fromkeys(("name", "user_provided_name", "peer_host"), "a")
    found = channel_row(bed.broker, connection, connection.channels[1], {}, wire | {"peer_port": 1})
    return found["pending_raft_commands"]


@pytest.mark.parametrize("profile", [PENSTOCK.name, RABBITMQ_4.name])
def test_the_ledger_names_who_is_held_and_by_which_store(
    profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bed = QuorumBed(profile)
    peer, other = bed.publisher("held"), bed.publisher("other")
    bed.send(other, 3)
    bed.send(other, 5, "c")
    bed.send(peer, 33)
    bed.later(2 * NS_PER_S)
    bed.send(peer, 1)
    mine, theirs = row(bed, peer.connection.account.name), row(bed, other.connection.account.name)
    most = 33 if profile == PENSTOCK.name else 34
    assert (mine.pending_messages, mine.pending_by) == (most, [STORE])
    assert mine.pending_for_ns >= 2 * NS_PER_S
    assert (theirs.pending_messages, theirs.pending_by, theirs.pending_for_ns) == (3, [], 0)
    above = row(bed, "user:guest@/")
    assert (above.pending_messages, above.pending_by) == (most + 3, [])
    assert row(bed, "node").pending_messages == most + 3
    assert raft_commands(bed, peer) == most and raft_commands(bed, other) == 3
    rows = ledger_rows(bed.broker)
    show_accounts(Accounts(rows, 0, len(rows), ""))
    said = capsys.readouterr().out
    assert "PENDING" in said and f"held 2.0 s by {STORE}" in said
    bed.write(peer)
    assert row(bed, "node").pending_messages == 0 and raft_commands(bed, peer) == 0
    assert row(bed, peer.connection.account.name).pending_by == []
    show_accounts(Accounts(ledger_rows(bed.broker), 0, len(rows), ""))
    assert "PENDING" not in capsys.readouterr().out
    bed.settle()


def test_very_many_hops_are_looked_at_in_steps() -> None:
    bed = QuorumBed(PENSTOCK.name)
    admin, peer = bed.connect("admin-2"), bed.publisher()
    for number in range(2 * STEP_LANES):
        admin.call(1, m.QueueDeclare(f"c{number}"), m.QueueDeclareOk)
        peer.publish(f"c{number}", b"x")
    bed.send(peer, 2)
    assert sum(1 for _ in pending_by_page(bed.broker)) == 2
    assert whole(pending_by_page(bed.broker))[bed.broker.node_account].messages == 2
