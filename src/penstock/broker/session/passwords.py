"""Hashed passwords in RabbitMQ's form, so that users can move between the two.

    base64( salt:4 + H(salt + password) )        H by name, as definitions have it

Such a hash is quick to try out, so a file of definitions is as secret as the passwords in it.
Source: RabbitMQ's rabbit_password and rabbit_password_hashing_*.
"""

import hashlib
from base64 import b64decode, b64encode
from binascii import Error
from hmac import compare_digest
from typing import Final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
_DIGESTS: Final = {SHA256: "sha256", SHA512: "sha512", MD5: "md5"}
HASHINGS: Final = tuple(_DIGESTS)
SALT_BYTES: Final = 4


def hash_password(password: str, salt: bytes, hashing: str = SHA256) -> str:
    """The hash to keep. salt: SALT_BYTES by chance."""
    return b64encode(salt + _digest(password, salt, hashing)).decode()


def is_password(password: str, password_hash: str, hashing: str) -> bool:
    """Whether `password` is the one that was hashed; never for a hash that is none."""
    try:
        data = b64decode(password_hash, validate=True)
    except (Error, ValueError):
        return False
    salt, digest = data[:SALT_BYTES], data[SALT_BYTES:]
    return compare_digest(digest, _digest(password, salt, hashing))


def hash_fault(password_hash: str, hashing: str) -> str:
    """Why this hash fits no password, "" if it may fit one. An empty hash fits none, as in
    RabbitMQ, and no fault."""
    if hashing not in _DIGESTS:
        return f"hashing_algorithm '{hashing}' is unknown; one of: {', '.join(HASHINGS)}"
    if password_hash == "":
        return ""
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
