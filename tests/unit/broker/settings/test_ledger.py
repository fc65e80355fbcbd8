"""broker/settings/ledger, its settings and its rows."""

import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.limits import USER_PAGES
from penstock.base.steps import whole
from penstock.broker.admin.flow_ledger import (
    LOOKED_AT,
    STEP_MESSAGES,
    ledger_rows,
)
from penstock.broker.admin.paging import Pager
from penstock.broker.admin.queue_causes import queue_causes
from penstock.broker.settings.ledger import (
    CONNECTION,
    NODE,
    USER,
    VHOST,
    DebtMark,
    Ledger,
    level_of,
    parse_mark,
)
from penstock.explain.naming import Names
from penstock.flow.account import Account
from penstock.flow.credit import Debt, Strategy
from penstock.protocol import methods as m
from tests.owed import owed_rows
from tests.unit.broker.peer import Bed, Peer, publish


def page_of(peer: Peer) -> Account:
    return peer.connection.account


def test_a_connection_is_under_the_node_until_it_opens() -> None:
    bed = Bed()
    unopened = Peer(bed, "early", "127.0.0.1")
    assert page_of(unopened).parent is bed.broker.node_account
    peer = bed.connect()
    user = page_of(peer).parent
    assert user is not None and user.name == "user:guest@/"
    assert user.parent is not None and user.parent.name == "vhost:/"
    assert [level_of(page) for page in bed.broker.ledger.pages()] == [
        NODE, CONNECTION, VHOST, USER, CONNECTION,
    ]  # fmt: skip
    unopened.hang_up()
    peer.hang_up()
    assert [page.name for page in bed.broker.ledger.pages()] == ["node", "vhost:/", "user:guest@/"]


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("64KiB", DebtMark(65_536, 32_768)),
        ("10/3", DebtMark(10, 3)),
        ("off", DebtMark()),
        ("7/7", DebtMark(7, 7)),
    ],
)
def test_limits_are_read_and_shown(text: str, mark: DebtMark) -> None:
    strategy = Strategy("none")
    assert parse_mark(text, strategy) == mark
    assert parse_mark(mark.show(), strategy) == mark


@pytest.mark.parametrize("text", ["", "0", "3/4", "much", "5/"])
def test_other_texts_are_no_limits(text: str) -> None:
    with pytest.raises(OperatorError):
        parse_mark(text, Strategy("none"))


def test_the_strategy_says_the_low_mark() -> None:
    assert parse_mark("100", Debt("debt")) == DebtMark(100, 100)


def test_the_configuration_limits_every_level() -> None:
    bed = Bed(
        account_connection_high="1MiB",
        account_connection_high_messages="50/10",
        account_user_high="2MiB",
        account_vhost_high_messages="off",
        account_node_high="4MiB/1MiB",
    )
    peer = bed.connect()
    account = page_of(peer)
    assert (account.high_bytes, account.low_bytes) == (1 << 20, 1 << 19)
    assert (account.high_messages, account.low_messages) == (50, 10)
    assert account.limited is account.parent
    node = bed.broker.node_account
    assert (node.high_bytes, node.low_bytes) == (4 << 20, 1 << 20)
    with pytest.raises(OperatorError, match="account_user_high: 'lots' is not a size"):
        Bed(account_user_high="lots")


def test_limits_change_while_the_broker_runs_for_all_and_for_one() -> None:
    bed = Bed()
    settings = bed.broker.settings
    peer = bed.connect()
    assert settings.write("account.connection.high", "1MiB") == ("32MiB/16MiB", "1MiB/512KiB")
    assert page_of(peer).high_bytes == 1 << 20
    assert settings.write("account.user.high_messages:guest@/", "9/3") == ("off", "9/3")
    user = page_of(peer).parent
    assert user is not None and (user.high_messages, user.low_messages) == (9, 3)
    settings.write("account.user.high_messages", "500")
    assert user.high_messages == 9, "what one has of his own stays"
    settings.write("account.connection.high_messages:peer", "4")
    assert page_of(peer).high_messages == 4 and page_of(peer).high_bytes == 1 << 20
    assert settings.get("account.connection.high").named() == ["peer"]
    peer.hang_up()
    assert settings.get("account.connection.high").named() == []
    for key, value in (
        ("account.user.high:nobody@/", "there is no user and virtual host 'nobody@/'"),
        ("account.vhost.high:elsewhere", "there is no virtual host 'elsewhere'"),
        ("account.connection.high:peer", "there is no connection 'peer'"),
        ("account.node.high:x", "set account.node.high"),
    ):
        with pytest.raises(OperatorError, match=value):
            settings.get(key)


def test_a_limit_that_is_passed_already_holds_at_once() -> None:
    bed = Bed()
    peer = bed.connect()
    page_of(peer).charge(5, 500)
    bed.broker.settings.write("account.vhost.high_messages", "4")
    row = next(row for row in ledger_rows(bed.broker) if row.level == CONNECTION)
    assert row.held_by == ["vhost:/"] and not row.is_held
    assert row.held_for_ns == 0
    bed.broker.settings.write("account.vhost.high_messages", "off")
    assert peer.connection.gate.is_open
    page_of(peer).repay(5, 500)


def test_the_emulations_keep_their_limits() -> None:
    for profile, messages, bytes_ in (
        ("penstock", 100_000, 32 << 20), ("rabbitmq-4", 0, 0), ("syndicate", 100, 0)
    ):  # fmt: skip
        account = page_of(Bed(profile=profile).connect())
        assert (account.high_messages, account.high_bytes) == (messages, bytes_)
        assert account.is_lenient == (profile == "syndicate")


def test_who_owes_what_names_place_and_cause() -> None:
    bed = Bed()
    peer, other = bed.connect(), bed.connect("other")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.send(publish(1, "", "q", b"12345") * 3)
    other.send(publish(1, "", "q", b"1"))
    bed.run()
    other.say(1, m.BasicGet("q", False))
    bed.run()
    rows = {(row.place, row.kind, row.origin): row.messages for row in owed_rows(bed.broker)}
    assert rows == {
        ("queue:/q", "unanswered", "conn:peer"): 1,
        ("queue:/q", "stored", "conn:peer"): 2,
        ("queue:/q", "stored", "conn:other"): 1,
    }
    sums = {row.name: (row.stored_messages, row.depth) for row in ledger_rows(bed.broker)}
    assert sums["node"] == (4, 0) and sums["conn:peer"] == (3, 3) and sums["conn:other"] == (1, 3)


def test_a_long_queue_is_looked_at_in_part() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.send(publish(1, "", "q", b"1"))
    bed.run()
    queue = bed.broker.vhosts["/"].queues["q"]
    exact = whole(queue_causes(bed.broker, "q", "size", Names({}), Pager(9)))
    assert exact.rows[0].messages == 1 and not exact.is_estimate
    many = queue.messages.ready_messages() * (2 * LOOKED_AT)
    queue.messages.add_all(many, sum(len(one.raw) for one in many))
    answer = whole(queue_causes(bed.broker, "q", "size", Names({}), Pager(9)))
    (row,) = answer.rows
    assert answer.is_estimate and abs(row.messages - 2 * LOOKED_AT) <= 3
    assert row.bytes // row.messages == exact.rows[0].bytes
    steps = sum(1 for _ in queue_causes(bed.broker, "q", "size", Names({}), Pager(9)))
    assert steps >= LOOKED_AT // 2 // STEP_MESSAGES


def test_a_ledger_without_a_broker_adopts_a_profile() -> None:
    bed = Bed()
    ledger = Ledger(Config(), bed.broker.access, ["/"])
    ledger.adopt(bed.broker.profile, bed.broker.strategy)
    account = Account("conn:x", ledger.node, None, 0)
    ledger.admit(account)
    ledger.enter(account, "guest", "/")
    assert ledger.marks_of(CONNECTION, "x").bytes_.high == 32 << 20


def test_pages_of_users_who_are_gone_are_dropped_when_there_are_many() -> None:
    """Tokens name as many users as their issuer has. Kept are those who have something."""
    bed = Bed()
    ledger = bed.broker.ledger
    accounts = [Account(f"conn:{n}", None, None, 0) for n in range(3 * USER_PAGES.default)]
    present = accounts[7]
    for number, account in enumerate(accounts):
        ledger.enter(account, f"user-{number}", "/")
        if account is not present:
            account.close()
    names = [page.name for page in ledger.pages()]
    assert len(names) <= USER_PAGES.default + 3
    assert "user:user-7@/" in names and "vhost:/" in names
    assert present.parent is not None and present.parent.name == "user:user-7@/"


def test_a_user_with_limits_of_its_own_keeps_its_page() -> None:
    bed = Bed()
    ledger = bed.broker.ledger
    ledger.set_marks(USER, "guest@/", ledger.marks_of(USER))
    for number in range(USER_PAGES.default + 1):
        account = Account(f"conn:{number}", None, None, 0)
        ledger.enter(account, f"user-{number}", "/")
        account.close()
    assert "user:guest@/" in [page.name for page in ledger.pages()]
