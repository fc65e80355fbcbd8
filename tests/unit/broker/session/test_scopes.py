"""Scopes of tokens as permissions: the cases of RabbitMQ's documentation and of its own tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.session.scopes import (
    PERMISSIONS,
    Pattern,
    Scopes,
    scopes_in,
    values_at,
    with_aliases,
)

MATCHING = [
    # Exactly.
    ("foo", "foo"),
    ("", ""),
    ("case with * special / characters", "case+with+%2a+special+%2f+characters"),
    ("string with unescaped *", "string+with+unescaped+*"),
    ("wildcard * is matched by wildcard", "wildcard * is matched by wildcard"),
    ("wildcard * and anything else is matched by wildcard", "wildcard * is matched by wildcard"),
    ("wildcard * is matched by urlencoded", "wildcard+%2a+is+matched+by+urlencoded"),
    ("pattern with  spaces", "pattern with  spaces"),
    ("юникод", "юник*"),
    ("юникод", "%D1%8Eникод"),
    # Suffixes.
    ("foo", "*oo"),
    ("foo", "*foo"),
    ("foo", "*"),
    ("", "*"),
    ("line * with * special * characters", "*+characters"),
    ("line * with * special * characters", "*special+%2A+characters"),
    # Prefixes.
    ("foo", "fo*"),
    ("foo", "foo*"),
    ("line * with * special * characters", "line+*"),
    ("line * with * special * characters", "line+%2a*"),
    # Both, and several.
    ("string", "*str*ing*"),
    ("str*ing", "*str*ing*"),
    ("some long string", "some*string"),
    ("some long string", "some*long*string"),
    ("some long string", "*some*string*"),
    ("some long string", "*long*"),
    ("some long string", "*+*+*"),
    ("some long string", "s*e*str*"),
    ("foo", "foo**"),
    # What RabbitMQ's page says and its code does not: the first "ab" is not the last.
    ("abab", "*ab"),
]
DIFFERENT = [
    ("casesensitive", "CaseSensitive"),
    ("foo", "fo"),
    ("foo", "fooo"),
    ("foo", ""),
    ("string with unescaped % character", "string with unescaped % character"),
    ("wildcard * and extra content is not matched by urlencoded", "wildcard+%2a+is+not+matched"),
    ("foo", "*r"),
    ("foo", "*foobar"),
    ("foo", "b*"),
    ("foo", "barfoo*"),
    ("some string", "*+*+*"),
    ("some long string", "some*other*string"),
    ("some long string", "s*z*str*"),
    ("string", "*some*"),
    ("string", "*some*string*"),
    # Parts do not share characters.
    ("aba", "ab*ba"),
    ("abc", "ab*b*c"),
]


def matches(subject: str, pattern: str) -> bool:
    """In a scope, where a pattern that is none matches nothing."""
    rights = Scopes((f"read:v/{pattern}",), {}).in_vhost("v")
    return rights is not None and rights.may("read", subject)


@pytest.mark.parametrize(("subject", "pattern"), MATCHING)
def test_patterns_match(subject: str, pattern: str) -> None:
    assert matches(subject, pattern)


@pytest.mark.parametrize(("subject", "pattern"), DIFFERENT)
def test_patterns_do_not_match(subject: str, pattern: str) -> None:
    assert not matches(subject, pattern)


@pytest.mark.parametrize("text", ["%", "a%2", "%zz", "%ff", "*%*"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Pattern(text)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_patterns_are_what_they_say(pattern: str, subject: str) -> None:
    """Beside a slow twin, which tries every way."""

    def twin(rest: str, left: str) -> bool:
        if not rest:
            return not left
        if rest[0] == "*":
            return any(twin(rest[1:], left[n:]) for n in range(len(left) + 1))
        return bool(left) and left[0] == rest[0] and twin(rest[1:], left[1:])

    assert Pattern(pattern).matches(subject) == twin(pattern, subject)


VHOSTS = ["/", "foo", "*", "foo/bar", "юникод"]
NAMES = ["foo", "foo/bar", "*", "*/*", "юникод"]


@pytest.mark.parametrize("permission", PERMISSIONS)
@pytest.mark.parametrize("end", ["*/*", "*/*/*"])
def test_any_name_anywhere(permission: str, end: str) -> None:
    scopes = Scopes((f"{permission}:{end}",), {})
    for vhost in VHOSTS:
        rights = scopes.in_vhost(vhost)
        assert rights is not None
        for name in NAMES:
            assert [one for one in PERMISSIONS if rights.may(one, name)] == [permission]


def test_one_vhost() -> None:
    strange = "foo/bar/*/"
    scopes = Scopes(("read:foo/*", "write:foo%2Fbar%2F%2A%2F/*"), {})
    assert scopes.in_vhost("/") is None and scopes.in_vhost("foo/bar/x/") is None
    plain, other = scopes.in_vhost("foo"), scopes.in_vhost(strange)
    assert plain is not None and other is not None
    assert plain.may("read", "x") and not plain.may("write", "x")
    assert other.may("write", "x") and not other.may("read", "x")


def test_one_name() -> None:
    rights = Scopes(("configure:*/bar%2A%2Fbaz",), {}).in_vhost("any")
    assert rights is not None
    assert rights.may("configure", "bar*/baz") and not rights.may("configure", "barx/baz")
    assert not any(rights.may("configure", name) for name in NAMES)


@pytest.mark.parametrize(
    ("scope", "vhost", "exchange", "key", "is_allowed"),
    [
        ("read:*/*/*", "/", "x", "rout", True),
        ("read:vhost/*/*", "vhost", "x", "rout", True),
        ("read:*/exchange/*", "/", "exchange", "rout", True),
        ("read:*/exchange/*", "/", "other", "rout", False),
        ("read:*/*/rout", "/", "x", "rout", True),
        ("read:*/*/rout", "/", "x", "norout", False),
        ("read:*/*/*rout", "/", "x", "sprout", True),
        ("read:*/*/*rout", "/", "x", "", False),
        ("read:*/*/a%2Fb", "/", "x", "a/b", True),
        ("read:*/*", "/", "x", "rout", False),
        ("write:*/*/*", "/", "x", "rout", False),
    ],
)
def test_topics_need_a_scope_with_a_routing_key(
    scope: str, vhost: str, exchange: str, key: str, is_allowed: bool
) -> None:
    rights = Scopes((scope,), {}).in_vhost(vhost)
    assert rights is not None and rights.may_topic("read", exchange, key) == is_allowed


@pytest.mark.parametrize(
    "scope",
    ["", "read", "read:", "read:*", "read:a/b/c/d", "READ:*/*", "admin:*/*", "tag:administrator"],
)
def test_what_is_no_permission_opens_nothing(scope: str) -> None:
    assert Scopes((scope,), {}).in_vhost("*") is None


def test_tags() -> None:
    scopes = Scopes(("tag:monitoring", "read:*/*", "tag:administrator", "tag:", "x"), {})
    assert scopes.tags == ("administrator", "monitoring")


def test_variables_stand_for_claims_and_never_for_patterns() -> None:
    claims: dict[str, object] = {"sub": "bob", "star": "*", "n": 3}
    rights = Scopes(("read:{vhost}/q-{sub}-*", "read:*/{star}", "read:*/{n}"), claims).in_vhost("/")
    assert rights is not None
    assert rights.may("read", "q-bob-1") and not rights.may("read", "q-eve-1")
    assert rights.may("read", "*") and not rights.may("read", "anything")
    assert rights.may("read", "n") and not rights.may("read", "3")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("a  b c", ["a", "b", "c"]),
        (["a b", "c", 3, None], ["a b", "c"]),
        ({"rs": "a b", "other": ["c"]}, ["rs.a", "rs.b"]),
        ({"rs": ["a"]}, ["rs.a"]),
        ({"rs": {"rs": "a"}}, []),
        (None, []),
        (7, []),
    ],
)
def test_scopes_of_a_claim(value: object, found: list[str]) -> None:
    assert scopes_in(value, "rs") == found


def test_paths_look_into_lists() -> None:
    claims = {
        "authorization": {"permissions": [{"scopes": ["a"]}, {"x": 1}, {"scopes": "b c"}, 5]},
        "resource_access": {"account": {"roles": ["d"]}},
    }
    assert values_at(claims, "authorization.permissions.scopes") == [["a"], "b c"]
    assert values_at(claims, "resource_access.account.roles") == [["d"]]
    assert values_at(claims, "resource_access.nobody.roles") == []
    assert values_at(claims, "authorization.permissions.scopes.more") == []


def test_aliases_are_besides_what_they_stand_for() -> None:
    aliases = {"admin": ("rs.tag:administrator", "rs.read:*/*"), "rs.read:*/*": ("never",)}
    found = with_aliases(["admin", "else"], aliases)
    assert found == ["admin", "else", "rs.tag:administrator", "rs.read:*/*"]
