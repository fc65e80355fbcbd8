"""What the claims of a token must say, and whom they make of its bearer."""

from dataclasses import replace

import pytest

from penstock.base.config import Config
from penstock.base.limits import OAUTH_SCOPES
from penstock.broker.session.tokens import (
    NEVER_S,
    SKEW_S,
    TokenFault,
    TokenRules,
    TokenUser,
    is_token,
)

NOW_S = 1_700_000_000
CONFIG = Config(oauth_resource_server_id="orders")
CLAIMS: dict[str, object] = {"aud": "orders", "exp": NOW_S + 60, "sub": "bob"}


def user(claims: dict[str, object], **settings: object) -> TokenUser:
    changed = replace(CONFIG, **settings)  # type: ignore[arg-type]  # tests name fields of Config
    return TokenRules.of(changed).user_of({**CLAIMS, **claims}, NOW_S)


@pytest.mark.parametrize("aud", ["orders", "x orders", ["x", "orders"], ["orders"]])
def test_the_audience_names_the_resource_server(aud: object) -> None:
    assert user({"aud": aud}).name == "bob"


@pytest.mark.parametrize("aud", [None, "", "order", "orders2", ["x"], 5, {"orders": 1}])
def test_another_audience_is_refused(aud: object) -> None:
    with pytest.raises(TokenFault, match=r"aud is .* does not name .* 'orders'"):
        user({"aud": aud})
    assert user({"aud": aud}, oauth_verify_aud=False).name == "bob"


def test_the_issuer_where_one_is_configured() -> None:
    assert user({}).name == "bob"
    assert user({"iss": "https://here"}, oauth_issuer="https://here").name == "bob"
    for claims in ({}, {"iss": "https://there"}, {"iss": ["https://here"]}):
        with pytest.raises(TokenFault, match=r"iss is .* oauth_issuer 'https://here'"):
            user(dict(claims), oauth_issuer="https://here")


@pytest.mark.parametrize(
    ("exp", "expires_s"),
    [(NOW_S + 1, NOW_S + 1), (NOW_S + 1.9, NOW_S + 1)],
)
def test_the_end_of_a_token(exp: object, expires_s: int) -> None:
    assert user({"exp": exp}).expires_s == expires_s


@pytest.mark.parametrize(
    ("exp", "said"),
    [
        (NOW_S, "expired 0 s ago"),
        (NOW_S - 5, "expired 5 s ago"),
        (NOW_S + 0.9, "expired 0 s ago"),
        ("soon", "exp is 'soon'"),
        (True, "exp is True"),
        (float("nan"), "exp is nan"),
        (float("inf"), "exp is inf"),
        (-1, "exp is -1"),
        ([1], "exp is"),
        (None, "has no exp"),
    ],
)
def test_a_token_that_is_over_is_refused(exp: object, said: str) -> None:
    with pytest.raises(TokenFault, match=said):
        user({"exp": exp})


def test_a_token_without_end_where_that_is_allowed() -> None:
    assert user({"exp": None}, oauth_require_exp=False).expires_s == NEVER_S


def test_a_token_of_the_future_is_refused_but_for_clocks_that_differ() -> None:
    assert user({"nbf": NOW_S + SKEW_S}).name == "bob"
    with pytest.raises(TokenFault, match="in 31 s only"):
        user({"nbf": NOW_S + SKEW_S + 1})


@pytest.mark.parametrize(
    ("claims", "preferred", "name"),
    [
        ({"sub": "a", "client_id": "b"}, (), "a"),
        ({"sub": None, "client_id": "b"}, (), "b"),
        ({"sub": 7}, (), "unknown"),
        ({"sub": "a", "email": "e", "user_name": ""}, ("user_name", "email"), "e"),
    ],
)
def test_the_name_of_the_user(
    claims: dict[str, object], preferred: tuple[str, ...], name: str
) -> None:
    assert user(claims, oauth_preferred_username_claims=preferred).name == name


def texts(claims: dict[str, object], **settings: object) -> tuple[str, ...]:
    return user(claims, **settings).scopes.texts


def test_scopes_are_those_with_the_prefix() -> None:
    scope = "orders.read:*/* orders.tag:monitoring other.write:*/* ordersread:*/* orders.read:*/*"
    found = user({"scope": scope})
    assert found.scopes.texts == ("read:*/*", "tag:monitoring") and found.tags == ("monitoring",)
    assert texts({"scope": scope.split()}) == ("read:*/*", "tag:monitoring")
    assert texts({"scope": "api:read:*/*"}, oauth_scope_prefix="api:") == ("read:*/*",)
    assert texts({"scope": "read:*/*"}, oauth_scope_prefix="") == ("read:*/*",)
    assert texts({"scope": None}) == ()


def test_more_scopes_in_other_claims() -> None:
    claims: dict[str, object] = {
        "scope": "orders.read:a/*",
        "roles": {"orders": ["read:b/*"]},
        "deep": {"er": [{"scopes": "orders.read:c/*"}]},
        "authorization": {"permissions": [{"scopes": ["orders.read:d/*"]}]},
    }
    assert texts(claims) == ("read:a/*", "read:d/*")
    found = texts(claims, oauth_additional_scopes_key="roles deep.er.scopes missing")
    assert found == ("read:a/*", "read:b/*", "read:c/*", "read:d/*")


def test_aliases_of_scopes() -> None:
    aliases = {"admin": ("orders.tag:administrator", "orders.read:*/*")}
    found = texts({"scope": ["admin"]}, oauth_scope_aliases=aliases)
    assert found == ("read:*/*", "tag:administrator")


def test_too_many_scopes_are_refused() -> None:
    scopes = [f"orders.read:v/{n}" for n in range(OAUTH_SCOPES.default + 1)]
    assert len(texts({"scope": scopes[1:]})) == OAUTH_SCOPES.default
    with pytest.raises(TokenFault, match=f"{len(scopes)} scopes"):
        texts({"scope": scopes})


@pytest.mark.parametrize("text", ["", "guest", "a.b.c", "eyJ", "eyJ.x", "eyJ..", "eyJ0.e y.x"])
def test_what_is_no_token(text: str) -> None:
    assert not is_token(text)


def test_what_looks_like_a_token() -> None:
    assert is_token("eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.") and is_token("eyJh.e-_1.x")
