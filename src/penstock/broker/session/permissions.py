"""Who may do what where: permissions of users in virtual hosts, as they are set and kept.

A user of the configuration may do everything where nothing else was set for him, or what the
configuration says, which nobody changes while the broker runs; any other user
may do nothing where nothing was set, and cannot open the virtual host. A change reaches open
connections at once: they share one `Rights`, and routes are looked up anew.
Source: RabbitMQ's rabbit_auth_backend_internal.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final
from weakref import WeakValueDictionary

from penstock.base.config import PermissionConfig, TopicPermissionConfig, UserConfig
from penstock.base.errors import OperatorError
from penstock.base.limits import PERMISSIONS_MAX
from penstock.broker.vhost.catalogue import NOTHING_KEPT, Catalogue
from penstock.broker.vhost.rights import (
    FULL,
    IMPERSONATOR,
    Permission,
    Rights,
    TopicPermission,
    check_permission,
    check_topic_permission,
)
from penstock.broker.vhost.vhost import VirtualHost

COMPONENT: Final = "permissions"
TOPIC_COMPONENT: Final = "topic_permissions"


class Permissions:
    """vhosts, users: those there are; configured: names of users of the configuration, rows,
    topics: what it lets them do; changed: called with user and virtual host after a change. Owner:
    the broker. Bound: PERMISSIONS_MAX rows of each kind."""

    def __init__(
        self,
        vhosts: Mapping[str, VirtualHost],
        users: Mapping[str, UserConfig],
        configured: Collection[str],
        rows: Collection[PermissionConfig] = (),
        topics: Collection[TopicPermissionConfig] = (),
    ) -> None:
        self.vhosts = vhosts
        self.users = users
        self.configured = configured
        self.catalogue: Catalogue = NOTHING_KEPT
        self.changed: Callable[[str, str], None] | None = None
        # None: taken away from a user of the configuration.
        self._rows: dict[tuple[str, str], Permission | None] = {}
        self._fixed: dict[str, dict[str, Permission]] = {}
        self._fixed_topics: dict[str, dict[str, dict[str, TopicPermission]]] = {}
        for kind, each in (("permissions", rows), ("topic_permissions", topics)):
            for named in each:
                if named.user not in configured or named.vhost not in vhosts:
                    raise OperatorError(
                        f"[[{kind}]] of user '{named.user}' in vhost '{named.vhost}': both must be "
                        "in the configuration, in [[users]] and in vhosts"
                    )
        for one in rows:
            permission = Permission(one.configure, one.write, one.read)
            self._fixed.setdefault(one.user, {})[one.vhost] = permission
        for row in topics:
            places = self._fixed_topics.setdefault(row.user, {})
            places.setdefault(row.vhost, {})[row.exchange] = TopicPermission(row.write, row.read)
        self._topics: dict[tuple[str, str], dict[str, TopicPermission]] = {}
        self._rights: WeakValueDictionary[tuple[str, str], Rights] = WeakValueDictionary()

    # -- asking ----------------------------------------------------------------------------------

    def of(self, user: str, vhost: str) -> Permission | None:
        """None: `user` may not even open `vhost`."""
        if user in self._fixed:
            return self._fixed[user].get(vhost)
        if (user, vhost) in self._rows:
            return self._rows[user, vhost]
        return FULL if user in self.configured and user in self.users else None

    def rights(self, user: str, vhost: str) -> Rights:
        """What stays right while it is held."""
        found = self._rights.get((user, vhost))
        if found is None:
            found = Rights(user, vhost)
            self._rights[user, vhost] = found
            self._refresh(found)
        return found

    def rows(self, user: str = "", vhost: str = "") -> Iterator[tuple[str, str, Permission]]:
        """User, virtual host, permission: all that is in force, or of one of either."""
        places = [vhost] if vhost != "" else list(self.vhosts)
        for name in [user] if user != "" else list(self.users):
            for place in places:
                permission = self.of(name, place)
                if permission is not None:
                    yield name, place, permission

    def topic_rows(self) -> Iterator[tuple[str, str, str, TopicPermission]]:
        """User, virtual host, exchange, permission: all that is in force."""
        kept = [key for key in self._topics if key[0] not in self._fixed_topics]
        fixed = [(user, vhost) for user, places in self._fixed_topics.items() for vhost in places]
        for user, vhost in (*fixed, *kept):
            for exchange, permission in self._topics_of(user, vhost).items():
                yield user, vhost, exchange, permission

    def of_topic(self, user: str, vhost: str, exchange: str) -> TopicPermission | None:
        """What is in force for `exchange`; None: routing keys of it are not looked at."""
        return self._topics_of(user, vhost).get(exchange)

    def _topics_of(self, user: str, vhost: str) -> Mapping[str, TopicPermission]:
        if user in self._fixed_topics:
            return self._fixed_topics[user].get(vhost, {})
        return self._topics.get((user, vhost), {})

    # -- changing --------------------------------------------------------------------------------

    def set(self, user: str, vhost: str, permission: Permission) -> None:
        """In force at once. Raises: OperatorError, and then nothing has changed."""
        self._check_names(user, vhost)
        self._check_free(user, self._fixed)
        check_permission(permission)
        _check_room(self._rows, (user, vhost), len(self._rows), "permissions")
        self.bring_back(user, vhost, permission)
        value = {
            "configure": permission.configure,
            "write": permission.write,
            "read": permission.read,
        }
        self.catalogue.parameter_set(vhost, COMPONENT, user, value)
        self._tell(user, vhost)

    def clear(self, user: str, vhost: str) -> None:
        """`user` may do nothing in `vhost`. Raises: OperatorError."""
        self._check_names(user, vhost)
        self._check_free(user, self._fixed)
        if user in self.configured:
            self._rows[user, vhost] = None
            self.catalogue.parameter_set(vhost, COMPONENT, user, None)
        elif self._rows.pop((user, vhost), None) is not None:
            self.catalogue.parameter_cleared(vhost, COMPONENT, user)
        self._tell(user, vhost)

    def set_topic(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
        """As `set`, for routing keys of `exchange`, which need not be there yet."""
        self._check_names(user, vhost)
        self._check_free(user, self._fixed_topics)
        check_topic_permission(permission)
        topics = self._topics.get((user, vhost), {})
        count = sum(len(one) for one in self._topics.values())
        _check_room(topics, exchange, count, "topic permissions")
        self._topics[user, vhost] = {**topics, exchange: permission}
        self._keep_topics(user, vhost)

    def clear_topics(self, user: str, vhost: str, exchange: str = "") -> None:
        """Routing keys of `exchange`, "" for all, are not looked at any more."""
        self._check_names(user, vhost)
        self._check_free(user, self._fixed_topics)
        topics = dict(self._topics.get((user, vhost), {}))
        for name in [exchange] if exchange != "" else list(topics):
            topics.pop(name, None)
        if topics:
            self._topics[user, vhost] = topics
        else:
            self._topics.pop((user, vhost), None)
        self._keep_topics(user, vhost)

    def is_fixed(self, user: str) -> bool:
        """Whether the configuration says what `user` may do."""
        return user in self._fixed

    def has_fixed_topics(self, user: str) -> bool:
        """Whether it says which routing keys `user` may use."""
        return user in self._fixed_topics

    def bring_back(self, user: str, vhost: str, permission: Permission | None) -> None:
        """As it was kept."""
        self._rows[user, vhost] = permission

    def bring_back_topics(
        self, user: str, vhost: str, topics: Mapping[str, TopicPermission]
    ) -> None:
        """As they were kept."""
        self._topics[user, vhost] = dict(topics)

    def forget(self, user: str = "", vhost: str = "") -> None:
        """The user, or the virtual host, is gone."""
        for key in {*self._rows, *self._topics, *self._rights}:
            if key[0] == user or key[1] == vhost:
                if key in self._rows:
                    del self._rows[key]
                    self.catalogue.parameter_cleared(key[1], COMPONENT, key[0])
                if self._topics.pop(key, None) is not None:
                    self.catalogue.parameter_cleared(key[1], TOPIC_COMPONENT, key[0])
                self._tell(*key)

    def user_changed(self, user: str) -> None:
        """Its tags may be others."""
        for key in list(self._rights):
            if key[0] == user:
                self._tell(*key)

    # -- inside ----------------------------------------------------------------------------------

    def _keep_topics(self, user: str, vhost: str) -> None:
        topics = self._topics.get((user, vhost))
        if topics is None:
            self.catalogue.parameter_cleared(vhost, TOPIC_COMPONENT, user)
        else:
            value = {name: [one.write, one.read] for name, one in topics.items()}
            self.catalogue.parameter_set(vhost, TOPIC_COMPONENT, user, value)
        self._tell(user, vhost)

    def _refresh(self, rights: Rights) -> None:
        key = (rights.user, rights.vhost)
        rights.change(self.of(*key), self._topics_of(*key))
        user = self.users.get(rights.user)
        rights.is_impersonator = user is not None and IMPERSONATOR in user.tags

    def _tell(self, user: str, vhost: str) -> None:
        rights = self._rights.get((user, vhost))
        if rights is None:
            return
        self._refresh(rights)
        there = self.vhosts.get(vhost)
        if there is not None:
            # Publishers look up their routes anew, and are asked for their rights then.
            there.router.epoch += 1
        if self.changed is not None:
            self.changed(user, vhost)

    def _check_free(self, user: str, fixed: Collection[str]) -> None:
        if user in fixed:
            raise OperatorError(
                f"permissions of user '{user}' are in the configuration, which goes first; change "
                "them there, and start the broker anew"
            )

    def _check_names(self, user: str, vhost: str) -> None:
        if vhost not in self.vhosts:
            raise OperatorError(f"no vhost '{vhost}'; one of: {', '.join(sorted(self.vhosts))}")
        if user not in self.users:
            raise OperatorError(f"no user '{user}'; one of: {', '.join(sorted(self.users))}")


def _check_room(rows: Collection[object], key: object, count: int, what: str) -> None:
    if key not in rows and count >= PERMISSIONS_MAX.default:
        raise OperatorError(
            f"there are {count} {what}, and there may be {PERMISSIONS_MAX.default} "
            "(permissions_max); clear some, or give several programs one user"
        )
