"""Hashed passwords: our own, and RabbitMQ's, so that its users can come here.

    argon2id   $argon2id$v=19$m=..,t=..,p=..$salt$hash     RFC 9106; for new passwords
    RabbitMQ's base64( salt:4 + H(salt + password) )       H by name, as definitions have it

RabbitMQ's are quick to try out, so a file of definitions is as secret as the passwords in it. An
argon2id one takes about 20 ms and 19 MiB, and is verified off the loop (F98, F99).
Source: RabbitMQ's rabbit_password and rabbit_password_hashing_*; costs: OWASP's first choice.
"""

import hashlib
from base64 import b64decode, b64encode
from binascii import Error
from hmac import compare_digest
from typing import Final

from argon2 import extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import Type, hash_secret, verify_secret

ARGON2: Final = "argon2id"
NEW_HASHING: Final = ARGON2
MEMORY_KIB: Final = 19_456
PASSES: Final = 2
MEMORY_KIB_MAX: Final = 262_144
PASSES_MAX: Final = 16
"""Of hashes that come from elsewhere: one login may not cost more."""
SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
_DIGESTS: Final = {SHA256: "sha256", SHA512: "sha512", MD5: "md5"}
HASHINGS: Final = (ARGON2, *_DIGESTS)
SALT_BYTES: Final = 4
"""Of RabbitMQ's."""
ARGON2_SALT_BYTES: Final = 16


def salt_bytes(hashing: str) -> int:
    """How long a salt is."""
    return ARGON2_SALT_BYTES if hashing == ARGON2 else SALT_BYTES


def hash_password(password: str, salt: bytes, hashing: str = SHA256) -> str:
    """The hash to keep. salt: `salt_bytes` by chance."""
    if hashing == ARGON2:
        made = hash_secret(password.encode(), salt, PASSES, MEMORY_KIB, 1, 32, Type.ID)
        return made.decode()
    return b64encode(salt + _digest(password, salt, hashing)).decode()


def is_password(password: str, password_hash: str, hashing: str) -> bool:
    """Whether `password` is the one that was hashed; never for a hash that is none."""
    if hashing == ARGON2:
        try:
            return verify_secret(password_hash.encode(), password.encode(), Type.ID)
        except (VerificationError, InvalidHashError):
            return False
    try:
        data = b64decode(password_hash, validate=True)
    except (Error, ValueError):
        return False
    salt, digest = data[:SALT_BYTES], data[SALT_BYTES:]
    return compare_digest(digest, _digest(password, salt, hashing))


def hash_fault(password_hash: str, hashing: str) -> str:
    """Why this hash fits no password, "" if it may fit one. An empty hash fits none, as in
    RabbitMQ, and no fault."""
    if hashing not in HASHINGS:
        return f"hashing_algorithm '{hashing}' is unknown; one of: {', '.join(HASHINGS)}"
    if password_hash == "":
        return ""
    if hashing == ARGON2:
        return _argon2_fault(password_hash)
    try:
        data = b64decode(password_hash, validate=True)
    except (Error, ValueError):
        return "password_hash is not base64"
    expected = SALT_BYTES + hashlib.new(_DIGESTS[hashing], usedforsecurity=False).digest_size
    if len(data) != expected:
        return f"password_hash has {len(data)} bytes, and {expected} with {hashing}"
    return ""


def _digest(password: str, salt: bytes, hashing: str) -> bytes:
    whole = salt + password.encode()
    return hashlib.new(_DIGESTS[hashing], whole, usedforsecurity=False).digest()


def _argon2_fault(password_hash: str) -> str:
    try:
        found = extract_parameters(password_hash)
    except (InvalidHashError, ValueError):
        return "password_hash is no argon2id hash, as $argon2id$v=19$m=19456,t=2,p=1$..."
    if found.type is not Type.ID:
        return f"password_hash is argon2{found.type.name.lower()}, and has to be argon2id"
    if found.memory_cost > MEMORY_KIB_MAX or found.time_cost > PASSES_MAX:
        return (
            f"password_hash costs m={found.memory_cost} KiB, t={found.time_cost} at each login, "
            f"and may cost m={MEMORY_KIB_MAX}, t={PASSES_MAX}"
        )
    return ""
