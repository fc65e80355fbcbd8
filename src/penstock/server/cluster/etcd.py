"""etcd as the members' agreement: keys with revisions, compare-and-swap, leases, several endpoints.

Every call blocks until etcd has answered, or for TIMEOUT_S at an endpoint, and then asks the next:
whoever calls runs in a thread of his own, see coordinator. The client is OpenStack's etcd3gw, which
speaks to etcd's JSON gateway; nothing here knows etcd's protocol but the shape of a transaction.
"""

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from etcd3gw import Etcd3Client
from etcd3gw.exceptions import Etcd3Exception

from penstock.base.errors import OperatorError

TIMEOUT_S: Final = 2.0
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_GOOD: Final = "3.4.20 or newer of 3.4, 3.5.13 or newer of 3.5, 3.6 or newer"


class EtcdFault(Exception):
    """No endpoint gave an answer. Nothing is known of whether a change was made."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value. revision: of its last change, 1.., which a swap names."""

    value: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class EtcdFiles:
    """PEM files of TLS to etcd, each "" for none. ca: who may have signed its certificate;
    cert, key: what is shown to it."""

    ca: str = ""
    cert: str = ""
    key: str = ""


def version_fault(version: str) -> str:
    """Why an etcd of `version` is not used, "" if it is."""
    found = _VERSION.match(version)
    if found is None:
        return f"says its version is '{version}', which is none; use {_GOOD}"
    major, minor, patch = (int(one) for one in found.groups())
    if (major, minor, patch) < (3, 4, 20):
        return (
            f"is version {version}, in which a lease may be given up though it was renewed; "
            f"use {_GOOD}"
        )
    if (major, minor) == (3, 5) and patch < 13:
        return (
            f"is version {version}; 3.5 before 3.5.13 may answer with data of before a crash, or "
            f"lose some; use {_GOOD}"
        )
    return ""


def parse_endpoints(text: str) -> list[str]:
    """`http://e1:2379,e2:2379` as addresses, each whole; one without a scheme has that of the one
    before. Raises: OperatorError."""
    found = []
    scheme = "http"
    for part in filter(None, (one.strip() for one in text.split(","))):
        whole = part if "://" in part else f"{scheme}://{part}"
        split = urlsplit(whole)
        try:
            port = split.port or 2379
        except ValueError:
            port = -1
        is_known = split.scheme in ("http", "https") and split.path in ("", "/")
        if not is_known or not split.hostname or port < 0:
            raise OperatorError(
                f"--coordinator '{part}' is no address of an etcd; write http://HOST:2379 or "
                "https://HOST:2379, several with commas between them"
            )
        scheme = split.scheme
        host = f"[{split.hostname}]" if ":" in split.hostname else split.hostname
        found.append(f"{scheme}://{host}:{port}")
    if not found:
        raise OperatorError("--coordinator names no etcd; write http://HOST:2379")
    return found


class EtcdStore:
    """The keys below `prefix` of one etcd. Not safe for several threads at once."""

    def __init__(self, endpoints: list[str], prefix: str, files: EtcdFiles | None = None) -> None:
        self.endpoints = endpoints
        self.prefix = prefix
        self.files = files or EtcdFiles()
        self.checked: set[str] = set()
        self.clients = [self._client(one) for one in endpoints]
        self.turn = 0
        self.lease_id = 0

    def _client(self, endpoint: str) -> Etcd3Client:
        split = urlsplit(endpoint)
        assert split.hostname is not None, "parse_endpoints has looked"
        return Etcd3Client(
            host=split.hostname,
            port=split.port or 2379,
            protocol=split.scheme,
            ca_cert=self.files.ca or None,
            cert_cert=self.files.cert or None,
            cert_key=self.files.key or None,
            timeout=TIMEOUT_S,
            # The only one since 3.4; older ones are refused.
            api_path="/v3/",
        )

    @property
    def endpoint(self) -> str:
        """The one that is asked first."""
        return self.endpoints[self.turn]

    def _post(self, path: str, payload: dict[str, Any]) -> dict[str, Any]:
        """The answer of the first endpoint that gives one. Raises: EtcdFault."""
        faults = []
        for _ in self.endpoints:
            client = self.clients[self.turn]
            try:
                self._check(client)
                found = client.post(client.get_url(path), json=payload)
                if isinstance(found, dict):
                    return found
                raise ValueError("an answer that no etcd gives")
            except OperatorError:
                # The next question is for another one.
                self.turn = (self.turn + 1) % len(self.endpoints)
                raise
            except (Etcd3Exception, OSError, ValueError) as fault:
                # ValueError: an answer that is not JSON, from something that is no etcd.
                said = getattr(fault, "detail_text", None) or str(fault) or type(fault).__name__
                faults.append(f"{self.endpoint}: {_short(str(said))}")
                self.turn = (self.turn + 1) % len(self.endpoints)
        raise EtcdFault("; ".join(faults))

    def _check(self, client: Etcd3Client) -> None:
        """Each endpoint's version is looked at once. Raises: OperatorError; what `post` does."""
        if self.endpoint in self.checked:
            return
        found = client.post(client.get_url("/maintenance/status"), json={})
        wrong = version_fault(str(found.get("version", "")))
        if wrong:
            raise OperatorError(f"the etcd at {self.endpoint} {wrong}")
        self.checked.add(self.endpoint)

    def read(self, below: str = "") -> dict[str, Stored]:
        """Everything below prefix + `below`, as it is now (not of some replica that lags), by
        names without the prefix. Raises: EtcdFault."""
        start = (self.prefix + below).encode()
        answer = self._post("/kv/range", {"key": _text(start), "range_end": _text(_behind(start))})
        try:
            return {
                # A name that is no text is not one of ours.
                _bytes(row["key"]).decode(errors="replace")[len(self.prefix) :]: Stored(
                    _bytes(row.get("value", "")), int(row["mod_revision"])
                )
                for row in answer.get("kvs", ())
            }
        except (LookupError, TypeError, ValueError, AttributeError) as fault:
            raise EtcdFault(f"{self.endpoint}: {_short(f'an odd answer: {fault!r}')}") from fault

    def swap(self, name: str, revision: int, value: bytes) -> bool:
        """Write `value` if the key's last change was `revision`, 0 for: it is not there.
        Raises: EtcdFault, after which it may have been written or not."""
        key = _text((self.prefix + name).encode())
        condition: dict[str, Any] = {"key": key, "result": "EQUAL"}
        if revision == 0:
            condition |= {"target": "CREATE", "create_revision": "0"}
        else:
            condition |= {"target": "MOD", "mod_revision": str(revision)}
        put = {"request_put": {"key": key, "value": _text(value)}}
        answer = self._post("/kv/txn", {"compare": [condition], "success": [put], "failure": []})
        return bool(answer.get("succeeded", False))

    def put(self, name: str, value: bytes, *, is_leased: bool = False) -> None:
        """Write, whatever is there. is_leased: it goes with the lease. Raises: EtcdFault."""
        payload: dict[str, Any] = {
            "key": _text((self.prefix + name).encode()),
            "value": _text(value),
        }
        if is_leased:
            payload["lease"] = str(self.lease_id)
        self._post("/kv/put", payload)

    def delete(self, name: str) -> None:
        """Raises: EtcdFault."""
        self._post("/kv/deleterange", {"key": _text((self.prefix + name).encode())})

    def grant(self, ttl_s: int) -> None:
        """A lease, which ends ttl_s after it was renewed last. Raises: EtcdFault."""
        self.lease_id = int(self._post("/lease/grant", {"TTL": str(ttl_s), "ID": "0"})["ID"])

    def renew(self) -> bool:
        """False: the lease has ended, and what was written under it is gone. Raises: EtcdFault."""
        if self.lease_id == 0:
            return False
        answer = self._post("/lease/keepalive", {"ID": str(self.lease_id)})
        return int(answer.get("result", {}).get("TTL", -1)) > 0

    def revoke(self) -> None:
        """End the lease now, with all that was written under it. Raises: EtcdFault."""
        if self.lease_id != 0:
            self._post("/lease/revoke", {"ID": str(self.lease_id)})
            self.lease_id = 0

    def close(self) -> None:
        for client in self.clients:
            client.session.close()


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text)


def _behind(start: bytes) -> bytes:
    """The first key that does not begin with `start`, whose last byte is below 255."""
    return start[:-1] + bytes([start[-1] + 1])


def _short(text: str) -> str:
    """One line; what the libraries below say is long, and the reason is at its end."""
    said = " ".join(text.split())
    return said if len(said) <= 120 else f"…{said[-119:]}"
