"""Pages of who may do what: users, virtual hosts, permissions, policies, limits, definitions."""

from typing import Final

import msgspec
from starlette.responses import Response

from penstock.management.access import TAGS
from penstock.management.broker_link import Row
from penstock.management.pages.views import vhost_names
from penstock.management.pages.visit import View, Visit
from penstock.management.resources import limits as api_limits
from penstock.management.resources import policies as api_policies
from penstock.management.resources import users as api_users

KEYS_OF_POLICIES: Final = (
    *("max-length", "max-length-bytes", "message-ttl", "expires", "overflow"),
    *("dead-letter-exchange", "dead-letter-routing-key", "delivery-limit"),
)
"""What most policies say; there are more."""
VHOST_LIMITS: Final = ("max-connections", "max-queues")
USER_LIMITS: Final = ("max-connections", "max-channels")


async def users(visit: Visit) -> Response:
    listing = await visit.listed(api_users.users)
    permissions = await visit.api(api_users.permissions)
    places: dict[str, list[str]] = {}
    for row in permissions:
        places.setdefault(row["user"], []).append(row["vhost"])
    return await visit.page("users.html", listing=listing, places=places, tags=TAGS)


async def user(visit: Visit) -> Response:
    """One user: tags, permissions, limits."""
    where = {"name": visit.asked("name")}
    row: Row = await visit.api(api_users.one_user, where)
    permissions = await visit.api(api_users.permissions_of_user, where)
    topics = await visit.api(api_users.topics_of_user, where)
    return await visit.page(
        "user.html",
        row=row,
        permissions=permissions,
        topics=topics,
        vhosts=await vhost_names(visit),
        tags=TAGS,
        limits=USER_LIMITS,
    )


async def vhosts(visit: Visit) -> Response:
    listing = await visit.listed(api_users.vhosts)
    return await visit.page("vhosts.html", listing=listing)


async def vhost(visit: Visit) -> Response:
    """One virtual host: who may do what in it, and its limits."""
    where = {"vhost": visit.asked("name")}
    row: Row = await visit.api(api_users.one_vhost, where)
    permissions: list[Row] = []
    names: list[str] = []
    if visit.visitor.is_administrator:
        permissions = await visit.api(api_users.permissions_of_vhost, where)
        names = [one["name"] for one in await visit.api(api_users.users)]
    limits = await visit.api(api_limits.limits_of_vhost, where)
    return await visit.page(
        "vhost.html",
        row=row,
        permissions=permissions,
        users=names,
        set_limits=limits[0]["value"] if limits else {},
        limits=VHOST_LIMITS,
    )


async def policies(visit: Visit) -> Response:
    """Policies of users and of operators."""
    return await visit.page(
        "policies.html",
        policies=await visit.api(api_policies.USERS.all),
        operator_policies=await visit.api(api_policies.OPERATORS.all),
        vhosts=await vhost_names(visit),
        keys=KEYS_OF_POLICIES,
        may_change=visit.visitor.is_administrator or "policymaker" in visit.visitor.tags,
    )


async def limits(visit: Visit) -> Response:
    """Limits of virtual hosts and users."""
    of_users = []
    if visit.visitor.is_administrator:
        of_users = await visit.api(api_limits.user_limits)
    return await visit.page(
        "limits.html",
        of_vhosts=await visit.api(api_limits.vhost_limits),
        of_users=of_users,
        vhosts=await vhost_names(visit),
        vhost_limits=VHOST_LIMITS,
        user_limits=USER_LIMITS,
    )


async def definitions(visit: Visit) -> Response:
    """A file with all definitions."""
    found = await visit.api(api_policies.export)
    return Response(
        msgspec.json.format(msgspec.json.encode(found), indent=1),
        media_type="application/json",
        headers={"content-disposition": 'attachment; filename="definitions.json"'},
    )


VIEWS: Final[dict[str, View]] = {
    "/users": users,
    "/user": user,
    "/vhosts": vhosts,
    "/vhost": vhost,
    "/policies": policies,
    "/limits": limits,
    "/definitions": definitions,
}
