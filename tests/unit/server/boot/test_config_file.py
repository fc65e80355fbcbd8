"""Settings from a file: what is unknown, of the wrong type or out of range refuses to start."""

from pathlib import Path

import pytest

from penstock.base.config import (
    AlarmAction,
    Config,
    EntryLimits,
    RateRow,
    TopicPermissionConfig,
    UserConfig,
)
from penstock.base.errors import OperatorError
from penstock.base.policy import Policy
from penstock.server.boot.config_file import read_config


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "penstock.toml"
    path.write_text(text, encoding="utf-8")
    return read_config(str(path))


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert read(tmp_path, "") == Config()


def test_settings_and_users(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        'port = 5673\nheartbeat_s = 10\nvhosts = ["/", "b"]\n'
        '[[users]]\nname = "app"\npassword = "secret"\ntags = ["x"]\n',
    )
    assert (config.port, config.heartbeat_s, config.vhosts) == (5673, 10, ("/", "b"))
    assert config.users == (UserConfig("app", "secret", False, ("x",)),)
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "unknown key 'prot'; did you mean port?"),
        ("memory_limit = 1", "'memory_limit'; known: memory_high, memory_high_bytes$"),
        ("zzz = 1", "unknown key 'zzz'; known: account_connection_high, "),
        ("[tls]\nverfy = 1", "did you mean tls_verify?"),
        (
            "[tls]\nx = 1",
            "unknown key 'tls_x'; known: tls_ca, tls_cert, tls_ciphers, .*tls_verify$",
        ),
        ("port = -2", "port = -2 is not within -1..65535"),
        ("tls_port = 65536", "tls_port = 65536 is not within -1..65535"),
        ("management_port = 0", "management_port = 0 is not within 1..65535"),
        ("metrics_port = 99999", "metrics_port = 99999 is not within -1..65535"),
        (
            '[[users]]\nname = "a"\npassword = "x"\n[[users]]\nname = "a"\npassword = "y"',
            "user 'a' is given twice",
        ),
        ('port = "5672"', "port"),
        ("heartbeat_s = true", "heartbeat_s"),
        ("frame_bytes_max = 100", "frame_bytes_max"),
        ("vhosts = 3", "vhosts"),
        ("users = 3", "users"),
        ('[[users]]\npassword = "x"', "name"),
        ('[[users]]\nname = "x"', "password"),
        ('[[users]]\nname = "x"\npassword = "x"\nadmin = true', "admin"),
        ("port = ", "TOML"),
        ("[[user_limits]]\nmax-channels = 2", r"every \[\[user_limits\]\] table names its user"),
        ("vhost_limits = 3", "vhost_limits must be written as"),
        ("memory_high = true", "memory_high = True must be of type str"),
        ("disk_free_min = true", "disk_free_min = True must be of type str"),
        ("alarm_actions = 1", "must be written as"),
        ('[[alarm_actions]]\nvhost = "web"', "has no action"),
        ('[[alarm_actions]]\naction = "nack"\nqueue = "q"', "unknown key 'queue'"),
        ("[[alarm_actions]]\naction = 1", "strings only"),
        ('rates = "x"', "must be written as"),
        ("[[rates]]\nmessages = 5", "names one of user, vhost or queue"),
        ('[[rates]]\nuser = "a"\nvhost = "/"\nmessages = 5', "names one of user, vhost or queue"),
        ('[[rates]]\nuser = "a"', "user 'a' needs messages"),
        ('[[rates]]\nuser = "a"\nmessages = 0', "user 'a' needs messages"),
        ('[[rates]]\nuser = "a"\nmessages = true', "user 'a' needs messages"),
        ('[[rates]]\nuser = "a"\nmesages = 5', "unknown key 'mesages'"),
        ('policies = "short"', r"policies must be written as \[\[policies\]\] tables"),
        ('[[policies]]\npattern = ""', "needs a name"),
        ('[[operator_policies]]\nname = "a"', 'Key "pattern" not found in a'),
        (
            '[[policies]]\nname = "a"\npattern = ""\ndefinition = { expires = 1 }\n' * 2,
            "two .*policies.* tables are called 'a' in vhost '/'",
        ),
        ('store = "interval"', r"store must be written as a \[store\] table"),
        ("[store]\nspeed = 1", "unknown key 'store_speed'"),
        ("[store]\nsync_interval_ms = 0", "store_sync_interval_ms = 0 is not within 1..60000"),
        ("[store]\nsync = 1", "store_sync = 1 must be of type str"),
        ('store_sync = "none"\n[store]\nsync = "none"', "store_sync is given twice"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words) as caught:
        read(tmp_path, text)
    assert "penstock.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "memory_high", "disk_free_min"),
    [
        ('memory_high = "2GiB"\ndisk_free_min = "9000TB"', "2GiB", "9000TB"),
        ("memory_high = 0.6\ndisk_free_min = 50000000", "0.6", "50000000"),
        ('memory_high = 1000000000\ndisk_free_min = "mem:1.5"', "1000000000", "mem:1.5"),
    ],
)
def test_marks_are_texts_or_numbers(
    tmp_path: Path, text: str, memory_high: str, disk_free_min: str
) -> None:
    config = read(tmp_path, text)
    assert (config.memory_high, config.disk_free_min) == (memory_high, disk_free_min)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot read"):
        read_config(str(tmp_path / "none.toml"))


def test_alarm_actions_are_tables_of_strings(tmp_path: Path) -> None:
    config = read(tmp_path, '[[alarm_actions]]\naction = "nack"\nvhost = "web"\n')
    assert config.alarm_actions == (AlarmAction("nack", "web"),)


def test_rate_limits_are_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "rate_connection_messages = 100\n"
        '[[rates]]\nuser = "app"\nmessages = 500\n'
        '[[rates]]\nqueue = "/slow*"\nbytes = 1000\n',
    )
    assert config.rate_connection_messages == 100
    assert config.rates == (RateRow("user", "app", 500), RateRow("queue", "/slow*", 0, 1000))


def test_policies_are_tables(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '[[policies]]\nname = "short"\npattern = "^logs"\npriority = 2\napply-to = "queues"\n'
        'definition = { max-length = 10, overflow = "backpressure" }\n'
        '[[operator_policies]]\nname = "cap"\nvhost = "t"\npattern = ""\n'
        "definition = { expires = 5 }\n",
    )
    said = {"max-length": 10, "overflow": "backpressure"}
    assert config.policies == (Policy("/", "short", "^logs", said, 2, "queues"),)
    assert config.operator_policies == (Policy("t", "cap", "", {"expires": 5}),)


def test_limits_of_vhosts_and_users_are_tables(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '[[vhost_limits]]\nvhost = "/"\nmax-queues = 3\n'
        '[[user_limits]]\nuser = "app"\nmax-channels = 2\nmax-connections = 1\n',
    )
    assert config.vhost_limits == (EntryLimits("vhost", "/", {"max-queues": 3}),)
    both = {"max-channels": 2, "max-connections": 1}
    assert config.user_limits == (EntryLimits("user", "app", both),)


def test_tokens_have_a_table_of_their_own(tmp_path: Path) -> None:
    text = """
[oauth]
resource_server_id = "orders"
verify_aud = false
algorithms = ["ES256"]
preferred_username_claims = ["email"]
scope_aliases = { admin = ["a.read:*/*", "a.tag:administrator"], reader = "a.read:*/* b" }
"""
    config = read(tmp_path, text)
    assert (config.oauth_resource_server_id, config.oauth_verify_aud) == ("orders", False)
    assert config.oauth_algorithms == ("ES256",)
    assert config.oauth_preferred_username_claims == ("email",)
    assert config.oauth_scope_aliases == {
        "admin": ("a.read:*/*", "a.tag:administrator"),
        "reader": ("a.read:*/*", "b"),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("issuer = 5", "oauth_issuer = 5 must be of type str"),
        ("audience = 'x'", "unknown key 'oauth_audience'"),
        ("jwks_age_s = 0", "oauth_jwks_age_s = 0 is not within 1..86400 seconds"),
        ("scope_aliases = ['x']", "oauth_scope_aliases must be a table"),
        ("scope_aliases = { a = [1] }", "oauth_scope_aliases.a must be a list of strings"),
    ],
)
def test_what_is_wrong_about_tokens_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(OperatorError) as fault:
        read(tmp_path, f"[oauth]\n{text}\n")
    assert said in str(fault.value)


def test_the_store_has_a_table_of_its_own(tmp_path: Path) -> None:
    """`[store] sync` and `store_sync` are the same."""
    config = read(tmp_path, '[store]\nsync = "interval"\nsync_interval_ms = 50\n')
    assert (config.store_sync, config.store_sync_interval_ms) == ("interval", 50)
    assert config == read(tmp_path, 'store_sync = "interval"\nstore_sync_interval_ms = 50\n')
    assert Config().store_sync == "always"


def test_topic_permissions_are_tables(tmp_path: Path) -> None:
    row = "[[topic_permissions]]\nuser = 'app'\nexchange = 'amq.topic'\nwrite = '^app'\nread = ''\n"
    assert read(tmp_path, row).topic_permissions == (
        TopicPermissionConfig("app", "/", "amq.topic", "^app", ""),
    )
    for text, said in (
        (row + row, "for 'amq.topic' are there twice"),
        (row.replace("read = ''", ""), "write, read are patterns"),
        (row.replace("'^app'", "'('"), "topic permissions of user 'app'"),
        (row.replace("exchange = 'amq.topic'", ""), "names its exchange"),
        (row.replace("user = 'app'", ""), "names its user"),
        (row + "configure = ''\n", "unknown key 'configure'"),
    ):
        with pytest.raises(OperatorError, match=said):
            read(tmp_path, text)


def test_a_whole_number_is_a_number(tmp_path: Path) -> None:
    config = read(tmp_path, "paging_ratio = 1")
    assert isinstance(config.paging_ratio, float) and config.paging_ratio == 1.0
    with pytest.raises(OperatorError, match="must be of type float"):
        read(tmp_path, "paging_ratio = true")


@pytest.mark.parametrize("key", ["host", "management_host"])
def test_an_empty_host_is_not_every_address(tmp_path: Path, key: str) -> None:
    with pytest.raises(OperatorError, match=rf"{key} is empty; write 127\.0\.0\.1, or 0\.0\.0\.0"):
        read(tmp_path, f'{key} = ""')
