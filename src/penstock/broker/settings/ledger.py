"""The pages of the ledger and their limits: connection within user within virtual host within node.

Pages of virtual hosts and users are made when they are first needed and stay, with their limits;
there are at most as many as users times virtual hosts. A connection's page is under the node until
the connection opens, and then under its user in its virtual host. Source: W19, scenario 108.
"""

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.limits import USER_PAGES
from penstock.base.quantities import parse_bytes, show_bytes
from penstock.broker.session.access import Access
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.profile import Profile

CONNECTION: Final = "connection"
USER: Final = "user"
VHOST: Final = "vhost"
NODE: Final = "node"
LEVELS: Final = (CONNECTION, USER, VHOST, NODE)
PREFIXES: Final = {CONNECTION: "conn:", USER: "user:", VHOST: "vhost:"}
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class DebtMark:
    """One limit: held above `high` until debt is at `low`; 0 and 0 for none."""

    high: int = 0
    low: int = 0

    def show(self) -> str:
        """As `parse_mark` reads it."""
        if self.high == 0:
            return OFF
        return f"{show_bytes(self.high)}/{show_bytes(self.low)}"


@dataclass(frozen=True, slots=True)
class Marks:
    """The limits of a page, in messages and in bytes."""

    messages: DebtMark = DebtMark()
    bytes_: DebtMark = DebtMark()

    def with_mark(self, is_bytes: bool, mark: DebtMark) -> "Marks":
        return replace(self, bytes_=mark) if is_bytes else replace(self, messages=mark)

    def mark(self, is_bytes: bool) -> DebtMark:
        return self.bytes_ if is_bytes else self.messages


def parse_mark(text: str, strategy: Strategy) -> DebtMark:
    """`HIGH`, `HIGH/LOW` or `off`; without LOW the strategy says it. Raises: OperatorError."""
    if text.strip().lower() == OFF:
        return DebtMark()
    first, slash, second = text.partition("/")
    high = parse_bytes(first)
    low = parse_bytes(second) if slash else strategy.low_of(high)
    if high == 0 or low > high:
        raise OperatorError(
            f"'{text}' is not a limit; write HIGH, or HIGH/LOW with LOW at most HIGH, or off"
        )
    return DebtMark(high, low)


def level_of(page: Account) -> str:
    """One of LEVELS."""
    for level, prefix in PREFIXES.items():
        if page.name.startswith(prefix):
            return level
    return NODE


class Ledger:
    """Owner of every page. `node`: the root."""

    def __init__(self, config: Config, access: Access, vhosts: Container[str]) -> None:
        self.node = Account("node", None, None, 0)
        self._config = config
        self._access = access
        self._vhosts = vhosts
        self._pages: dict[str, Account] = {}
        # Looked at when there are so many, which is at least twice as many as are used.
        self._look_at = USER_PAGES.default
        self._marks: dict[str, Marks] = {}
        self._single: dict[str, Marks] = {}
        self.strategy = Strategy("none")

    def adopt(self, profile: Profile, strategy: Strategy) -> None:
        """`profile` and its strategy are in force, as far as the configuration does not say
        otherwise. Raises: OperatorError naming the key."""
        self.strategy = strategy
        for level in LEVELS:
            marks = Marks()
            if level == CONNECTION:
                marks = Marks(
                    self._default(profile.account_high_messages),
                    self._default(profile.account_high_bytes),
                )
            for key, is_bytes in (
                (f"account_{level}_high", True),
                (f"account_{level}_high_messages", False),
            ):
                text = str(getattr(self._config, key))
                if text != "":
                    try:
                        marks = marks.with_mark(is_bytes, parse_mark(text, strategy))
                    except OperatorError as error:
                        raise OperatorError(f"{key}: {error}") from error
            self._marks[level] = marks
        self._apply(self.node, NODE)

    def _default(self, high: int) -> DebtMark:
        return DebtMark(high, self.strategy.low_of(high))

    # -- connections -----------------------------------------------------------------------------

    def admit(self, account: Account) -> None:
        """A connection begins; its user is not known yet."""
        self.strategy.join(account)
        self._apply(account, CONNECTION)

    def enter(self, account: Account, user: str, vhost: str) -> None:
        """The connection is open: `user` and `vhost` pay from now on."""
        account.move(self._user_page(user, vhost))

    def left(self, account: Account) -> None:
        """The connection has ended; its page stays as long as it has something on it."""
        self._single.pop(account.name, None)

    # -- limits ----------------------------------------------------------------------------------

    def marks_of(self, level: str, name: str = "") -> Marks:
        """What is in force for `level`, or for its page called `name`. Raises: OperatorError."""
        if name == "":
            return self._marks[level]
        return self._single.get(self._page(level, name).name, self._marks[level])

    def named(self, level: str) -> list[str]:
        """Names of the pages of `level` that have limits of their own."""
        prefix = PREFIXES.get(level, NODE)
        return [name.removeprefix(prefix) for name in self._single if name.startswith(prefix)]

    def set_marks(self, level: str, name: str, marks: Marks) -> None:
        """Limit every page of `level`, or only the one called `name`, from now on."""
        if name != "":
            page = self._page(level, name)
            self._single[page.name] = marks
            self._apply(page, level)
            return
        self._marks[level] = marks
        for page in self.pages():
            if level_of(page) == level:
                self._apply(page, level)

    def pages(self) -> list[Account]:
        """Every page that is listed, a parent before its children."""
        found = [self.node]
        for page in found:
            found.extend(page.children.values())
        return found

    def _apply(self, page: Account, level: str) -> None:
        marks = self._single.get(page.name, self._marks[level])
        page.set_limits(
            marks.messages.high, marks.messages.low, marks.bytes_.high, marks.bytes_.low
        )

    # -- pages -----------------------------------------------------------------------------------

    def _page(self, level: str, name: str) -> Account:
        """Raises: OperatorError when there is no such user, virtual host or connection."""
        if level == USER:
            user, at, vhost = name.rpartition("@")
            if at == "" or user not in self._access.users or vhost not in self._vhosts:
                raise OperatorError(f"there is no user and virtual host '{name}'; write NAME@VHOST")
            return self._user_page(user, vhost)
        if level == VHOST:
            if name not in self._vhosts:
                raise OperatorError(f"there is no virtual host '{name}'")
            return self.page_of_vhost(name)
        if level == CONNECTION:
            wanted = PREFIXES[CONNECTION] + name
            for page in self.pages():
                if page.name == wanted and not page.is_closed:
                    return page
        raise OperatorError(f"there is no {level} '{name}'")

    def _user_page(self, user: str, vhost: str) -> Account:
        name = f"{PREFIXES[USER]}{user}@{vhost}"
        page = self._pages.get(name)
        if page is None:
            if len(self._pages) >= self._look_at:
                self._drop_idle()
            page = self._pages[name] = Account(name, self.page_of_vhost(vhost), None, 0)
            self._apply(page, USER)
        return page

    def _drop_idle(self) -> None:
        """Users who come with tokens are as many as the issuer has: pages of those who are gone,
        with nothing left, go too."""
        for name, page in list(self._pages.items()):
            is_idle = not page.children and page.owes_nothing() and page.stored_messages == 0
            if is_idle and level_of(page) == USER and name not in self._single:
                page.close()
                del self._pages[name]
        self._look_at = max(USER_PAGES.default, 2 * len(self._pages))

    def page_of_vhost(self, vhost: str) -> Account:
        """Pays too for what was found in `vhost` at start, whose publishers are gone."""
        name = PREFIXES[VHOST] + vhost
        page = self._pages.get(name)
        if page is None:
            page = self._pages[name] = Account(name, self.node, None, 0)
            self._apply(page, VHOST)
        return page
