"""Users while the broker runs: made, changed, deleted, kept; logins with argon2id (F97 to F99)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.base.config import UserConfig
from penstock.base.errors import OperatorError
from penstock.broker.admin import users
from penstock.broker.session.access import PasswordWork
from penstock.broker.session.passwords import (
    ARGON2,
    MEMORY_KIB_MAX,
    SHA256,
    hash_fault,
    hash_password,
    is_password,
)
from penstock.broker.vhost.rights import FULL
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.sasl import Credentials
from tests.definitions import import_definitions
from tests.unit.broker.peer import Bed, Peer, start_ok
from tests.unit.server.durable_bed import DurableBed

HASH = hash_password("pw", b"0123456789abcdef", ARGON2)


class Later(PasswordWork):
    """Does nothing until it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], bool], Callable[[bool | None], None]]] = []

    def submit(
        self, address: str, work: Callable[[], bool], done: Callable[[bool | None], None]
    ) -> None:
        self.waiting.append((work, done))

    def do(self) -> None:
        for work, done in self.waiting:
            done(work())
        self.waiting.clear()


def ended(bed: Bed, name: str) -> int:
    """How many connections were closed when `name` was deleted."""
    steps = users.delete(bed.broker, name)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value)


def log_in(bed: Bed, user: str, password: str, host: str = "127.0.0.1") -> Peer:
    """A peer that has said who it is."""
    peer = Peer(bed, f"{user}-{bed.broker.connection_count}", host)
    peer.send(PROTOCOL_HEADER)
    peer.one(m.ConnectionStart)
    peer.say(0, start_ok(user=user, password=password))
    return peer


def judged(bed: Bed, user: str, password: str) -> str:
    told: list[str] = []
    bed.broker.access.judge(Credentials(user, password), "10.0.0.1", told.append)
    assert len(told) == 1
    return told[0]


def test_a_new_user_may_log_in_and_do_nothing() -> None:
    bed = Bed()
    users.add(bed.broker, "app", HASH, ARGON2)
    peer = log_in(bed, "app", "pw")
    peer.one(m.ConnectionTune)
    peer.say(0, m.ConnectionTuneOk(10, 131_072, 0), m.ConnectionOpen("/"))
    close = peer.one(m.ConnectionClose)
    assert close.reply_text == "NOT_ALLOWED - access to vhost '/' refused for user 'app'"


def test_connections_of_a_deleted_user_are_closed_with_words_of_rabbitmq() -> None:
    bed = Bed(vhosts=("/", "t"))
    users.add(bed.broker, "other", HASH, ARGON2)
    first, second = bed.connect("first"), bed.connect("second", vhost="t")
    assert ended(bed, "other") == 0 and ended(bed, "guest") == 2
    bed.run()
    for peer in (first, second):
        close = peer.one(m.ConnectionClose)
        assert (close.reply_code, close.class_id) == (320, 0)
        assert close.reply_text == "CONNECTION_FORCED - user 'guest' is deleted"
    assert "invalid credentials" in judged(bed, "guest", "guest")


def test_who_is_deleted_between_login_and_open_does_not_get_in() -> None:
    bed = Bed()
    users.add(bed.broker, "app", HASH, ARGON2)
    bed.broker.permissions.set("app", "/", FULL)
    peer = log_in(bed, "app", "pw")
    peer.one(m.ConnectionTune)
    ended(bed, "app")
    peer.say(0, m.ConnectionTuneOk(10, 131_072, 0), m.ConnectionOpen("/"))
    assert peer.one(m.ConnectionClose).reply_code == 530


def test_users_outlive_the_broker(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "db")
    users.add(bed.broker, "app", HASH, ARGON2, ("monitoring", "team"))
    users.add(bed.broker, "gone", HASH, ARGON2)
    bed.broker.permissions.set("gone", "/", FULL)
    bed.broker.limits.set("user", "gone", {"max-channels": 1})
    ended(bed, "gone")
    ended(bed, "guest")
    bed.close()
    again = DurableBed(tmp_path / "db")
    assert list(again.broker.access.users) == ["app"]
    assert again.broker.access.users["app"].tags == ("monitoring", "team")
    assert judged(again, "app", "pw") == "" and list(again.broker.limits.rows()) == []
    # Who comes back under the name of before has none of what he had.
    users.add(again.broker, "guest", HASH, ARGON2)
    users.add(again.broker, "gone", HASH, ARGON2)
    again.close()
    last = DurableBed(tmp_path / "db")
    assert sorted(last.broker.access.users) == ["app", "gone", "guest"]
    assert list(last.broker.permissions.rows()) == []
    assert last.broker.access.users["guest"].is_loopback_only
    last.close()


def test_the_default_user_keeps_the_password_and_the_tags_it_was_given(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "db")
    assert users.set_tags(bed.broker, "guest", ("impersonator", "mine")) == ("mine",)
    assert judged(bed, "guest", "guest").startswith("user 'guest' can only connect via localhost")
    users.change_password(bed.broker, "guest", HASH, ARGON2)
    bed.close()
    again = DurableBed(tmp_path / "db")
    assert "invalid credentials" in judged(again, "guest", "guest")
    assert again.broker.permissions.of("guest", "/") == FULL
    assert again.broker.access.users["guest"].tags == ("impersonator", "mine")
    again.close()


def test_users_of_the_configuration_are_changed_there() -> None:
    bed = Bed(users=(UserConfig("app", "pw"),))
    for change in (
        lambda: ended(bed, "app"),
        lambda: users.set_tags(bed.broker, "app", ()),
        lambda: users.change_password(bed.broker, "app", HASH, ARGON2),
    ):
        with pytest.raises(OperatorError, match="is in the configuration, which goes first"):
            change()


@pytest.mark.parametrize(
    ("name", "hashed", "hashing", "tags", "fault"),
    [
        ("guest", HASH, ARGON2, (), "is there already"),
        ("", HASH, ARGON2, (), "1 to 255 bytes"),
        ("x" * 256, HASH, ARGON2, (), "1 to 255 bytes"),
        ("a", "", ARGON2, (), "is missing"),
        ("a", HASH, "md4", (), "unknown"),
        ("a", "x", SHA256, (), "not base64"),
        ("a", HASH, ARGON2, ("a,b",), "without commas"),
    ],
)
def test_what_cannot_be_is_refused(
    name: str, hashed: str, hashing: str, tags: tuple[str, ...], fault: str
) -> None:
    bed = Bed()
    with pytest.raises(OperatorError, match=fault):
        users.add(bed.broker, name, hashed, hashing, tags)
    assert list(bed.broker.access.users) == ["guest"]


def test_hashes_that_would_cost_too_much_are_refused() -> None:
    dear = HASH.replace("m=19456", f"m={MEMORY_KIB_MAX + 1}")
    assert "may cost" in hash_fault(dear, ARGON2)
    assert "has to be argon2id" in hash_fault(HASH.replace("argon2id", "argon2i"), ARGON2)
    assert hash_fault("$argon2id$", ARGON2) != "" and not is_password("pw", "$argon2id$", ARGON2)


def test_a_login_that_is_being_checked_holds_nothing_and_keeps_its_order() -> None:
    bed = Bed()
    later = Later()
    bed.broker.access.work = later
    users.add(bed.broker, "app", HASH, ARGON2)
    bed.broker.permissions.set("app", "/", FULL)
    peer = log_in(bed, "app", "pw")
    assert peer.heard() == []
    peer.say(0, m.ConnectionTuneOk(10, 131_072, 0), m.ConnectionOpen("/"))
    bed.connect("honest").call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    assert peer.heard() == []
    later.do()
    bed.run()
    heard = [type(one.method) for one in peer.heard()]
    assert heard == [m.ConnectionTune, m.ConnectionOpenOk]
    # The second login of the same password costs nothing; another password does.
    log_in(bed, "app", "pw").one(m.ConnectionTune)
    assert log_in(bed, "app", "other").heard() == [] and len(later.waiting) == 1


def test_a_client_that_goes_while_it_is_checked() -> None:
    bed = Bed()
    later = Later()
    bed.broker.access.work = later
    users.add(bed.broker, "app", HASH, ARGON2)
    log_in(bed, "app", "pw").hang_up()
    later.do()
    bed.run()
    assert bed.broker.connections == {} and bed.broker.guessing.strangers == {}
    bed.settle()


def test_an_unknown_user_costs_as_much_as_a_wrong_password() -> None:
    """F98."""
    bed = Bed()
    later = Later()
    bed.broker.access.work = later
    users.add(bed.broker, "app", HASH, ARGON2)
    log_in(bed, "app", "wrong")
    log_in(bed, "nobody", "wrong")
    assert len(later.waiting) == 2


def test_a_password_of_rabbitmq_is_hashed_anew_at_the_next_login() -> None:
    """F99."""
    bed = Bed()
    row = {"name": "app", "password_hash": hash_password("pw", b"salt"), "tags": "x"}
    import_definitions(bed.broker, {"users": [row]})
    assert bed.broker.access.users["app"].hashing == SHA256
    assert judged(bed, "app", "wrong") != "" and judged(bed, "app", "pw") == ""
    user = bed.broker.access.users["app"]
    assert user.hashing == ARGON2 and user.tags == ("x",) and judged(bed, "app", "pw") == ""


def test_hashes_stay_as_they_are_where_that_is_asked_for() -> None:
    bed = Bed(upgrade_passwords=False)
    import_definitions(bed.broker, {"users": [{"name": "app", "password": "pw"}]})
    assert judged(bed, "app", "pw") == "" and bed.broker.access.users["app"].hashing == SHA256


def test_a_blank_password_is_never_right() -> None:
    """F97."""
    bed = Bed(users=(UserConfig("blank", ""),))
    assert "blank" in judged(bed, "blank", "") and "blank" in judged(bed, "nobody", "")
    with pytest.raises(OperatorError, match="blank"):
        import_definitions(bed.broker, {"users": [{"name": "app", "password": ""}]})
