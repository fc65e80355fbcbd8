"""Which tokens are signed, by real keys and signatures; what would let in others is refused."""

import json
from base64 import urlsafe_b64encode
from functools import cache

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from penstock.base.limits import OAUTH_KEYS
from penstock.broker.session.tokens import TokenFault
from penstock.server.net.token_keys import ALGORITHMS, RSA, TokenKeys, UnknownKey

SECRET = "s" * 32
CLAIMS = {"sub": "bob"}


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def rsa_jwk(key: rsa.RSAPrivateKey, **more: object) -> dict[str, object]:
    shown: dict[str, object] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    return {**shown, **more}


def ec_jwk(key: ec.EllipticCurvePrivateKey, **more: object) -> dict[str, object]:
    shown: dict[str, object] = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return {**shown, **more}


def keys(
    *jwks: dict[str, object], secret: str = "", algorithms: tuple[str, ...] = ALGORITHMS
) -> TokenKeys:
    return TokenKeys([json.dumps({"keys": jwks}).encode()], secret, algorithms)


def signed(key: object, algorithm: str, kid: object = None) -> str:
    headers = None if kid is None else {"kid": kid}
    return jwt.encode(CLAIMS, key, algorithm, headers)  # type: ignore[arg-type]  # of any kind


@pytest.mark.parametrize("algorithm", RSA)
def test_rsa(algorithm: str) -> None:
    known = keys(rsa_jwk(rsa_key(), kid="a"), rsa_jwk(rsa_key(2048, 1), kid="b"))
    assert known.claims_of(signed(rsa_key(), algorithm, "a")) == CLAIMS
    with pytest.raises(TokenFault, match="InvalidSignature"):
        known.claims_of(signed(rsa_key(), algorithm, "b"))


@pytest.mark.parametrize(
    ("curve", "algorithm"),
    [(ec.SECP256R1(), "ES256"), (ec.SECP384R1(), "ES384"), (ec.SECP521R1(), "ES512")],
)
def test_curves(curve: ec.EllipticCurve, algorithm: str) -> None:
    key, other = ec.generate_private_key(curve), ec.generate_private_key(curve)
    known = keys(ec_jwk(key, kid="a"))
    assert known.claims_of(signed(key, algorithm, "a")) == CLAIMS
    with pytest.raises(TokenFault, match="InvalidSignature"):
        known.claims_of(signed(other, algorithm, "a"))


def test_edwards() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    x = urlsafe_b64encode(raw).rstrip(b"=").decode()
    known = keys({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "a"})
    assert known.claims_of(signed(key, "EdDSA", "a")) == CLAIMS


def test_the_secret_of_the_configuration() -> None:
    known = keys(rsa_jwk(rsa_key(), kid="a"), secret=SECRET)
    assert known.claims_of(signed(SECRET, "HS256")) == CLAIMS
    assert known.claims_of(signed(SECRET, "HS256", "any")) == CLAIMS
    with pytest.raises(TokenFault, match="InvalidSignature"):
        known.claims_of(signed("x" * 32, "HS256"))
    with pytest.raises(UnknownKey):
        keys(rsa_jwk(rsa_key(), kid="a")).claims_of(signed(SECRET, "HS256"))


def test_a_public_key_is_never_a_secret() -> None:
    """The confusion of algorithms: HS256 with the bytes of a key that everybody may read."""
    public = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = urlsafe_b64encode(b'{"alg":"HS256","kid":"a"}').rstrip(b"=")
    body = urlsafe_b64encode(json.dumps(CLAIMS).encode()).rstrip(b"=")
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        head + b"." + body, public
    )
    token = b".".join((head, body, urlsafe_b64encode(mac).rstrip(b"="))).decode()
    with pytest.raises(TokenFault, match="InvalidAlgorithm"):
        keys(rsa_jwk(rsa_key(), kid="a"), secret=SECRET).claims_of(token)


def test_unsigned_tokens_are_refused() -> None:
    known = keys(rsa_jwk(rsa_key(), kid="a"), secret=SECRET)
    for kid in (None, "a"):
        with pytest.raises(TokenFault):
            known.claims_of(signed(None, "none", kid))
    good = signed(rsa_key(), "RS256", "a")
    with pytest.raises(TokenFault, match="InvalidSignature"):
        known.claims_of(good.rpartition(".")[0] + ".")


def test_claims_that_were_changed_are_refused() -> None:
    head, _, sign = signed(rsa_key(), "RS256", "a").split(".")
    body = urlsafe_b64encode(b'{"sub":"root"}').rstrip(b"=").decode()
    with pytest.raises(TokenFault, match="InvalidSignature"):
        keys(rsa_jwk(rsa_key(), kid="a")).claims_of(f"{head}.{body}.{sign}")


def test_only_algorithms_that_are_accepted() -> None:
    known = keys(rsa_jwk(rsa_key(), kid="a"), secret=SECRET, algorithms=("RS256",))
    assert known.claims_of(signed(rsa_key(), "RS256", "a")) == CLAIMS
    with pytest.raises(TokenFault, match="InvalidAlgorithm"):
        known.claims_of(signed(rsa_key(), "RS512", "a"))
    with pytest.raises(TokenFault):
        known.claims_of(signed(SECRET, "HS256"))
    bound = keys(rsa_jwk(rsa_key(), kid="a", alg="PS256"))
    with pytest.raises(TokenFault, match="InvalidAlgorithm"):
        bound.claims_of(signed(rsa_key(), "RS256", "a"))


def test_a_token_without_the_name_of_a_key() -> None:
    one = keys(rsa_jwk(rsa_key(), kid="a"))
    assert one.claims_of(signed(rsa_key(), "RS256")) == CLAIMS
    two = keys(rsa_jwk(rsa_key(), kid="a"), rsa_jwk(rsa_key(2048, 1), kid="b"))
    with pytest.raises(TokenFault, match=r"names no key .* 2 are for RS256"):
        two.claims_of(signed(rsa_key(), "RS256"))


def test_a_key_that_is_not_known_may_come() -> None:
    with pytest.raises(UnknownKey, match="key 'new'"):
        keys(rsa_jwk(rsa_key(), kid="a")).claims_of(signed(rsa_key(), "RS256", "new"))


def test_keys_for_something_else_are_left_out() -> None:
    secret = urlsafe_b64encode(SECRET.encode()).rstrip(b"=").decode()
    known = keys(
        rsa_jwk(rsa_key(), kid="e", use="enc"),
        {"kty": "oct", "k": secret, "kid": "o"},
        {"kty": "EC", "crv": "secp256k1", "kid": "k"},
        {"kty": "strange"},
    )
    assert len(known) == 0
    with pytest.raises(UnknownKey):
        known.claims_of(signed(SECRET, "HS256", "o"))


def test_a_short_key_is_refused() -> None:
    weak = rsa_key(1024)
    with pytest.raises(TokenFault, match="InvalidKey"):
        keys(rsa_jwk(weak, kid="a")).claims_of(signed_weakly(weak))


def signed_weakly(key: rsa.RSAPrivateKey) -> str:
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        return signed(key, "RS256", "a")


def test_a_private_key_in_a_jwks_is_as_good_as_its_public_one() -> None:
    shown = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key()))
    assert keys({**shown, "kid": "a"}).claims_of(signed(rsa_key(), "RS256", "a")) == CLAIMS


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", 'no list "keys"'),
        (b'{"keys": {}}', 'no list "keys"'),
        (b'{"keys": [{"kty": "RSA", "kid": "a"}]}', "key 'a'"),
        (b'{"keys": [{"kty": "RSA", "n": 5, "e": []}]}', "key None"),
        (b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}', "key None"),
    ],
)
def test_what_is_no_jwks(document: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TokenKeys([document], "", ALGORITHMS)


def test_the_keys_are_bounded() -> None:
    jwk = rsa_jwk(rsa_key())
    most = [{**jwk, "kid": str(number)} for number in range(OAUTH_KEYS.default)]
    assert len(keys(*most)) == OAUTH_KEYS.default
    with pytest.raises(ValueError, match=f"more than {OAUTH_KEYS.default} keys"):
        keys(*most, {**jwk, "kid": "one more"})


@pytest.mark.parametrize("text", ["", "a.b.c", "eyJ.eyJ.x", "..", "e30.e30.", "\u00e9.a.b"])
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(TokenFault):
        keys(rsa_jwk(rsa_key(), kid="a"), secret=SECRET).claims_of(text)


@pytest.mark.parametrize("payload", [b"5", b"[]", b"{", b"[" * 5000, b'"x"'])
def test_claims_that_are_no_table(payload: bytes) -> None:
    token = jwt.PyJWS().encode(payload, SECRET, "HS256")
    with pytest.raises(TokenFault, match="its claims are no"):
        keys(secret=SECRET).claims_of(token)
