"""How a queue or an exchange is named where virtual hosts are mixed: in ids, events and listings.

    /orders         orders in the virtual host /
    tenant/orders   orders in the virtual host tenant
    /prod/orders    orders in the virtual host /prod
    /prod%2Forders  prod/orders in the virtual host /
The last slash begins the name, in which / is written %2F as in URLs, and a % before 2F or 25 is
written %25; so no two queues share a name.
"""

import re
from typing import Final

_TAKEN: Final = re.compile("%(?=2F|25)")


def shown_name(vhost: str, name: str) -> str:
    """`name` of `vhost` as listings and ids have it."""
    if "%" in name:
        name = _TAKEN.sub("%25", name)
    name = name.replace("/", "%2F")
    return f"/{name}" if vhost == "/" else f"{vhost}/{name}"


def vhost_and_name(shown: str) -> tuple[str, str] | None:
    """The inverse of `shown_name`; None where there is no slash."""
    vhost, slash, name = shown.rpartition("/")
    return (vhost or "/", plain_name(name)) if slash else None


def plain_name(shown: str) -> str:
    """`shown`, or a part of it, with the slashes that are in names."""
    if "%" not in shown:
        return shown
    return re.sub("%2F|%25", _unescaped, shown)


def _unescaped(found: re.Match[str]) -> str:
    return "/" if found[0] == "%2F" else "%"
