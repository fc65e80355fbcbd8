"""The pages below `/`: who gets in, what each of them shows, what its forms change, and what they
refuse. Over HTTP, with a broker and its management process."""

import gzip
import html
import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import quote, urlencode

import pika
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.client.io_blocking import connect
from penstock.explain.asking import Question, ask_why
from penstock.protocol.values import Table
from penstock.telemetry.record_file import decode_packed
from tests.conformance.http_contract import call
from tests.conformance.http_live import Managed, managed_broker
from tests.conformance.person import Page, Person

GUEST: Final = "guest:guest"
HOSTILE: Final = "<script>alert(1)</script>\"'&</td><img src=x onerror=alert(2)>"
PAGES: Final = {
    "/": "Overview",
    "/flow": "Who hands what to whom",
    "/flow?blocked=true": "hops are held now",
    "/why": "Why do publishers wait",
    "/why?kind=memory": "memory:",
    "/why?kind=not": "Why is nothing blocked",
    "/why?kind=store&name=/": "Why does store / wait",
    "/connections": "Connections",
    "/channels": "Channels",
    "/exchanges": "amq.topic",
    "/exchange?vhost=/&name=amq.topic": "Bindings from here",
    "/exchange?vhost=/": "(default)",
    "/queues": "Declare a queue",
    "/streams": "Readers that keep their place here",
    "/alarms": "Flight recorder",
    "/accounts": "in progress",
    "/settings": "credit.channel_queue",
    "/nodes": "Listeners",
    "/events": "the newest first",
    "/log": "the newest first; times in UTC",
    "/log?level=error": "nothing of this level",
    "/records": "Take one now",
    "/users": "guest",
    "/user?name=guest": "administrator",
    "/vhosts": "Virtual hosts",
    "/vhost?name=/": "Permissions",
    "/policies": "Operator policies",
    "/limits": "Of virtual hosts",
    "/search": "Write a part of a name",
    "/search?q=amq.t": "amq.topic",
}
"""Each page, and what it says also where there is nothing to show."""
FOR_MONITORS: Final = (
    "/flow",
    "/why",
    "/alarms",
    "/events",
    "/log",
    "/records",
    "/accounts",
    "/settings",
    "/nodes",
)
FOR_ADMINISTRATORS: Final = ("/users", "/user?name=guest", "/definitions")


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed_broker(tmp_path_factory.mktemp("pages")) as found:
        for name, tags in (("mona", "monitoring"), ("mia", "management"), ("bob", "")):
            call(found.base, "PUT", f"/users/{name}", {"password": "secret", "tags": tags}, GUEST)
        call(found.base, "PUT", "/vhosts/mine", {}, GUEST)
        rights = {"configure": "^m", "write": ".*", "read": ".*"}
        call(found.base, "PUT", "/permissions/mine/mia", rights, GUEST)
        yield found


@pytest.fixture
def guest(managed: Managed) -> Person:
    return person(managed, "guest", "guest")


def person(managed: Managed, user: str, password: str = "secret") -> Person:
    found = Person(managed.base)
    assert found.log_in(user, password).status == 303
    return found


def api(managed: Managed, path: str) -> Any:
    return call(managed.base, "GET", path, None, GUEST)[1]


def name_in_path(name: str) -> str:
    return quote(name, safe="")


def session_cookie(who: Person) -> Any:
    return next(one for one in who.cookies if one.name == "penstock_session")


# -- who gets in ---------------------------------------------------------------------------------


def test_pages_are_for_those_who_have_logged_in(managed: Managed) -> None:
    stranger = Person(managed.base)
    for path in PAGES:
        page = stranger.get(path)
        assert page.status == 303, path
        assert page.location.startswith("/login"), path
    assert stranger.get("/queue?vhost=/&name=a").location == (
        "/login?next=%2Fqueue%3Fvhost%3D%2F%26name%3Da"
    )
    # The script of a page whose session has ended.
    assert stranger.get("/queues", x_live="1").status == 401
    assert stranger.post("/do/declare-queue", {"vhost": "/", "name": "x"}).location == "/login"


def test_a_login_leads_where_one_wanted_to_go_and_to_no_other_host(managed: Managed) -> None:
    assert Person(managed.base).log_in(next="/queues?sort=name").location == "/queues?sort=name"
    for bad in ("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:0", ""):
        assert Person(managed.base).log_in(next=bad).location == "/", bad
        form = Person(managed.base).get("/login?" + urlencode({"next": bad}))
        assert 'name="next" value="/"' in form.text


def test_wrong_passwords_and_users_without_a_tag_are_told(managed: Managed) -> None:
    stranger = Person(managed.base)
    wrong = stranger.log_in("guest", "wrong")
    assert (wrong.status, wrong.flash) == (401, "Login failed")
    assert not list(stranger.cookies)
    untagged = stranger.log_in("bob", "secret")
    assert untagged.status == 401
    assert "user bob has no tag" in untagged.flash
    assert stranger.log_in("x" * 2_000, "y").status == 401
    assert "secret" not in untagged.text


def test_the_cookie_is_of_no_use_to_scripts_and_to_other_sites(managed: Managed) -> None:
    who = Person(managed.base)
    said = who.log_in().headers["set-cookie"]
    assert "HttpOnly" in said and "SameSite=strict" in said and "Path=/" in said
    assert len(session_cookie(who).value) >= 43
    # It opens no door of the API.
    assert who.get("/api/overview").status == 401


def test_sessions_end_with_a_logout_and_with_the_user(managed: Managed) -> None:
    who = person(managed, "guest", "guest")
    stolen = Person(managed.base)
    stolen.cookies.set_cookie(session_cookie(who))
    assert stolen.get("/queues").status == 200
    # Another session's token does not log anybody out.
    assert who.post("/logout", {"csrf": "x"}).status == 403
    assert who.post("/logout", {"csrf": who.get("/").csrf}).location == "/login"
    assert who.get("/queues").status == 303
    assert stolen.get("/queues").status == 303

    call(managed.base, "PUT", "/users/temp", {"password": "t", "tags": "monitoring"}, GUEST)
    temp = person(managed, "temp", "t")
    assert temp.get("/flow").status == 200
    call(managed.base, "PUT", "/users/temp", {"password": "t", "tags": "management"}, GUEST)
    assert temp.get("/flow").status == 403
    call(managed.base, "DELETE", "/users/temp", None, GUEST)
    assert temp.get("/queues").location.startswith("/login")


# -- what pages show -----------------------------------------------------------------------------


def test_every_page_opens_and_has_safe_headers(guest: Person) -> None:
    for path, text in PAGES.items():
        page = guest.get(path)
        assert page.status == 200, f"{path}: {page.text[:500]}"
        assert text in html.unescape(page.text), path
        assert_is_safe(page)


VOID: Final = frozenset(("meta", "link", "input", "rect", "line", "path", "polyline", "option"))
LOADS: Final = frozenset(("src", "action", "href"))
KNOWN: Final = frozenset(
    (
        *(
            "html",
            "head",
            "meta",
            "title",
            "link",
            "script",
            "body",
            "a",
            "header",
            "form",
            "input",
        ),
        *("div", "span", "button", "nav", "main", "footer", "h1", "h2", "section", "p", "svg", "g"),
        *("text", "path", "rect", "line", "polyline", "figure", "figcaption", "dl", "dt", "dd"),
        *("table", "thead", "tbody", "tr", "th", "td", "caption", "details", "summary", "pre"),
        *("ul", "ol", "li", "label", "select", "option", "textarea", "datalist", "code", "strong"),
        "article",
    )
)
"""Elements of our templates."""


class Markup(HTMLParser):
    """Reads a page as a browser does, and notes what has no business there."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in KNOWN:
            self.wrong.append(f"<{tag}>")
        if tag == "script" and "src" not in given:
            self.wrong.append("a script in the page")
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.wrong.append(f"{tag} {name}={value}")
            if name in LOADS and not is_here(value or ""):
                self.wrong.append(f"{tag} {name}={value}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"] and data.strip():
            self.wrong.append(f"script: {data[:60]}")


def is_here(place: str) -> bool:
    """An address of ours, or a place on the page."""
    return (place.startswith("/") and not place.startswith("//")) or place == "#main"


def assert_is_safe(page: Page) -> None:
    """Nothing that a browser would run stands in it, and the policy says so."""
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"
    seen = Markup()
    seen.feed(page.text)
    assert seen.wrong == [], seen.wrong
    assert not seen.open, f"left open: {seen.open}"


def test_static_files_are_ours_and_kept(managed: Managed) -> None:
    page = Person(managed.base).get("/login")
    for path in re.findall(r'href="(/static/[^"]*)"', page.text):
        found = Person(managed.base).get(path)
        assert found.status == 200
        assert "immutable" in found.headers["cache-control"]
    assert Person(managed.base).get("/static/..%2Froutes.py").status == 404
    assert Person(managed.base).get("/static/nope.js").status == 404


def test_what_is_there_is_shown(managed: Managed, guest: Person) -> None:
    parameters = pika.URLParameters(managed.broker.url)
    parameters.client_properties = {"connection_name": "web-7"}
    connection = pika.BlockingConnection(parameters)
    try:
        channel = connection.channel()
        channel.queue_declare("orders", arguments={"x-max-length": 1234})
        channel.exchange_declare("shop", "topic")
        channel.queue_bind("orders", "shop", "order.*")
        channel.basic_publish("shop", "order.new", b"hello")
        channel.basic_consume("orders", lambda *_: None, consumer_tag="taker")
        connection.process_data_events()
        guest.wait_for("/connections", "web-7")
        guest.wait_for("/channels", "web-7/1")
        address = re.findall(r'href="(/connection\?name=[^"]*)"', guest.get("/connections").text)[0]
        page = guest.get(html.unescape(address))
        assert "Close this connection" in page.text and "web-7/1" in page.text
        address = re.findall(r'href="(/channel\?name=[^"]*)"', page.text)[0]
        assert "taker" in guest.get(html.unescape(address)).text
        queue = guest.wait_for("/queue?vhost=/&name=orders", "queue /orders is not blocked")
        for text in ("taker", "web-7/1", "order.*", "x-max-length", "queue /orders is not blocked"):
            assert text in queue.text, text
        assert "order.*" in guest.get("/exchange?vhost=/&name=shop").text
        guest.wait_for("/why?kind=connection&name=web-7", "web-7 is not blocked")
        assert "/connection?" in guest.get("/search?q=WEB").text
        assert "orders" in guest.get("/search?q=rder").text
        guest.wait_for("/why?kind=consumer&name=taker@web-7", "taker@web-7 is not blocked")
    finally:
        connection.close()
    call(managed.base, "DELETE", "/queues/%2F/orders", None, GUEST)
    call(managed.base, "DELETE", "/exchanges/%2F/shop", None, GUEST)


def test_a_queue_of_a_virtual_host_with_a_slash_is_found(managed: Managed, guest: Person) -> None:
    call(managed.base, "PUT", "/vhosts/a%2Fb", {}, GUEST)
    call(managed.base, "PUT", "/queues/a%2Fb/c%2Fd", {}, GUEST)
    page = guest.wait_for("/why?kind=queue&name=a%2Fb%2Fc%252Fd", "the page of this queue")
    assert "/queue?vhost=a%2Fb&amp;name=c%2Fd" in page.text
    assert guest.get("/queue?vhost=a%2Fb&name=c%2Fd").status == 200


def test_a_reader_leads_to_its_queue(managed: Managed, guest: Person) -> None:
    """It led to a queue called /leased, which there is not."""
    with connect(managed.broker.url) as connection:
        channel = connection.channel()
        channel.declare_queue("leased")
        channel.publish("", "leased", b"one")
        arguments: Table = {"queue": "leased", "group": "g", "start": 0, "max_messages": 1}
        channel.request("lease.acquire", arguments)
        page = guest.wait_for("/streams", ">/leased</a>")
        (address,) = re.findall(r'<a href="([^"]*)">/leased</a>', page.text)
        assert guest.get(html.unescape(address)).status == 200
    call(managed.base, "DELETE", "/queues/%2F/leased", None, GUEST)


def test_what_is_not_there_is_told(guest: Person) -> None:
    guest.do("declare-queue", vhost="/", name="some", type="classic")
    guest.do("publish", vhost="/", name="", routing_key="some", payload="x")
    # No name is not all names.
    taken = guest.do("get-messages", vhost="/", name="", count="1", ackmode="ack_requeue_false")
    assert taken.status == 404
    assert guest.do("purge-queue", vhost="/", name="").status == 400
    guest.wait_for("/queue?vhost=/&name=some", "<dt>ready</dt><dd>1</dd>")
    for path in (
        "/queue",
        "/queue?vhost=/&name=",
        "/connection",
        "/channel",
        "/user",
        "/vhost",
        "/queue?vhost=/&name=none",
        "/queue?vhost=none&name=none",
        "/exchange?vhost=/&name=none",
        "/connection?name=none",
        "/channel?name=none",
        "/user?name=none",
        "/vhost?name=none",
    ):
        assert guest.get(path).status == 404, path
    guest.do("delete-queue", vhost="/", name="some")
    assert "no connection is called" in html.unescape(
        guest.get("/why?kind=connection&name=none").text
    )
    for path, text in (
        ("/why?kind=nope", "one of: connection"),
        ("/why?kind=queue&name=a&window_s=0", "must be 1..600"),
        ("/why?ago_s=601", "is too long ago"),
        ("/why?at=1", "is too long ago"),
        ("/why?at=x", "is no number of seconds"),
        ("/queues?page=x", "page"),
        ("/queues?name=(&use_regex=true", "name '(' is no regular expression: missing )"),
    ):
        page = guest.get(path)
        assert (page.status, text in html.unescape(page.text)) == (400, True), path
    # A page that is gone because there are fewer rows now shows the first one.
    assert guest.get("/queues?page=99").status == 200


def test_hostile_names_never_become_markup(managed: Managed, guest: Person) -> None:
    parameters = pika.URLParameters(managed.broker.url)
    parameters.client_properties = {"connection_name": HOSTILE, "product": HOSTILE}
    connection = pika.BlockingConnection(parameters)
    try:
        channel = connection.channel()
        channel.queue_declare(HOSTILE, arguments={"x-dead-letter-exchange": HOSTILE})
        channel.exchange_declare(HOSTILE, "topic")
        channel.queue_bind(HOSTILE, HOSTILE, HOSTILE)
        channel.basic_consume(HOSTILE, lambda *_: None, consumer_tag=HOSTILE)
        properties = pika.BasicProperties(headers={HOSTILE: HOSTILE}, content_type=HOSTILE)
        channel.basic_publish("", HOSTILE, HOSTILE.encode(), properties)
        channel.queue_declare("plain")
        channel.basic_publish("", "plain", HOSTILE.encode(), properties)
        place = f"/policies/%2F/{name_in_path(HOSTILE)}"
        policy = {
            "pattern": HOSTILE.replace("(", "").replace(")", ""),
            "definition": {"expires": 1},
        }
        assert call(managed.base, "PUT", place, policy, GUEST)[0] == 201
        call(managed.base, "PUT", f"/vhosts/{name_in_path(HOSTILE)}", {}, GUEST)
        name = urlencode({"name": HOSTILE})
        paths = [
            *PAGES,
            f"/queue?vhost=/&{name}",
            f"/exchange?vhost=/&{name}",
            f"/vhost?{name}",
            f"/connection?{name}",
            f"/why?kind=connection&{name}",
            f"/why?kind=queue&name=/{quote(HOSTILE)}",
            f"/queues?{name}&sort={quote(HOSTILE)}",
            f"/search?{urlencode({'q': '<script>'})}",
            f"/queue?vhost=/&name={quote(HOSTILE + 'none')}",
        ]
        seen = 0
        for path in paths:
            page = guest.get(path)
            assert page.status in (200, 404), f"{path}: {page.text[:300]}"
            assert "<script>alert" not in page.text and "<img" not in page.text, path
            assert_is_safe(page)
            seen += "&lt;script&gt;alert" in page.text
        assert "&lt;script&gt;alert" in guest.get("/log").text, "the log says who came"
        assert seen > 10, "the name has to be there to be escaped"
        taken = guest.do(
            "get-messages", vhost="/", name="plain", count="1", ackmode="ack_requeue_true"
        )
        assert "&lt;script&gt;alert" in taken.text
        assert_is_safe(taken)
        # The links of the list lead to the queue, whatever its name is.
        links = re.findall(r'href="(/queue\?[^"]*)"', guest.get("/queues").text)
        assert any(HOSTILE in html.unescape(guest.get(html.unescape(x)).text) for x in links)
        done = guest.do("delete-queue", vhost="/", name=HOSTILE)
        assert HOSTILE in done.flash
        assert "<script>alert" not in done.text
    finally:
        connection.close()
        call(managed.base, "DELETE", f"/policies/%2F/{name_in_path(HOSTILE)}", None, GUEST)
        call(managed.base, "DELETE", f"/vhosts/{name_in_path(HOSTILE)}", None, GUEST)
        call(managed.base, "DELETE", f"/exchanges/%2F/{name_in_path(HOSTILE)}", None, GUEST)


# -- what forms change ---------------------------------------------------------------------------


def test_a_queue_from_its_declaration_to_its_end(managed: Managed, guest: Person) -> None:
    page = guest.do(
        "declare-queue",
        vhost="/",
        name="q1",
        type="classic",
        durable="on",
        arguments='{"x-max-length": 5}',
    )
    assert page.flash == "queue q1 is there"
    assert api(managed, "/queues/%2F/q1")["arguments"] == {"x-max-length": 5}
    assert guest.do("declare-exchange", vhost="/", name="x1", type="topic").status == 200
    page = guest.do("bind", vhost="/", source="x1", kind="q", destination="q1", routing_key="a.#")
    assert page.flash == "x1 is bound to q1"
    page = guest.do(
        "publish",
        vhost="/",
        name="x1",
        routing_key="a.b",
        payload="line\r\nline",
        persistent="on",
        headers='{"k": 1}',
        properties='{"content_type": "text/plain"}',
    )
    assert page.flash == "message published"
    lost = guest.do("publish", vhost="/", name="x1", routing_key="none", payload="x")
    assert "no queue takes this routing key" in lost.flash
    got = guest.do("get-messages", vhost="/", name="q1", count="5", ackmode="ack_requeue_true")
    for text in ("1 message", "line\nline", "text/plain", "a.b"):
        assert text in html.unescape(got.text), text
    assert api(managed, "/queues/%2F/q1")["messages"] == 1
    guest.do("get-messages", vhost="/", name="q1", count="1", ackmode="ack_requeue_false")
    assert api(managed, "/queues/%2F/q1")["messages"] == 0
    guest.do("publish", vhost="/", name="", routing_key="q1", payload="x")
    assert guest.do("purge-queue", vhost="/", name="q1").flash == "queue q1 is purged"
    assert api(managed, "/queues/%2F/q1")["messages"] == 0
    assert "paused" in guest.do("pause-queue", vhost="/", name="q1").flash
    assert api(managed, "/queues/%2F/q1")["state"] == "stopped"
    guest.do("resume-queue", vhost="/", name="q1")
    assert api(managed, "/queues/%2F/q1")["state"] == "running"
    props = api(managed, "/bindings/%2F/e/x1/q/q1")[0]["properties_key"]
    where = {"vhost": "/", "source": "x1", "kind": "q", "destination": "q1", "props": props}
    assert "no longer bound" in guest.do("unbind", **where).flash
    assert guest.do("delete-exchange", vhost="/", name="x1").flash == "exchange x1 is deleted"
    assert guest.do("delete-queue", vhost="/", name="q1").flash == "queue q1 is deleted"
    assert call(managed.base, "GET", "/queues/%2F/q1", None, GUEST)[0] == 404


def test_who_may_do_what(managed: Managed, guest: Person) -> None:
    guest.do("put-vhost", name="v1")
    guest.do("put-user", name="ann", password="pw", tags="management, policymaker")
    assert api(managed, "/users/ann")["tags"] == ["management", "policymaker"]
    rights = {"configure": "^a", "write": ".*", "read": ".*"}
    guest.do("put-permission", vhost="v1", user="ann", **rights)
    assert api(managed, "/permissions/v1/ann")["configure"] == "^a"
    topic = {"exchange": "amq.topic", "write": "^a", "read": ".*"}
    guest.do("put-topic", vhost="v1", user="ann", **topic)
    assert api(managed, "/topic-permissions/v1/ann")[0]["write"] == "^a"
    page = guest.get("/user?name=ann")
    assert "^a" in page.text and "amq.topic" in page.text
    # Without a password the old one stays.
    guest.do("put-user", name="ann", password="", tags="management")
    assert person(managed, "ann", "pw").get("/queues").status == 200
    guest.do(
        "put-policy",
        vhost="v1",
        name="p",
        pattern="^a",
        definition='{"max-length": 9}',
        priority="1",
    )
    guest.do(
        "put-operator-policy",
        vhost="v1",
        name="o",
        pattern=".*",
        definition='{"expires": 9000}',
        priority="0",
    )
    assert api(managed, "/policies/v1/p")["definition"] == {"max-length": 9}
    page = guest.get("/policies")
    assert "max-length" in page.text and "expires" in page.text
    guest.do("put-vhost-limit", name="v1", limit="max-queues", value="7")
    guest.do("put-user-limit", name="ann", limit="max-connections", value="3")
    assert api(managed, "/vhost-limits/v1")[0]["value"] == {"max-queues": 7}
    assert ">7<" in guest.get("/limits").text and ">3<" in guest.get("/limits").text
    for action, fields in (
        ("delete-vhost-limit", {"name": "v1", "limit": "max-queues"}),
        ("delete-user-limit", {"name": "ann", "limit": "max-connections"}),
        ("delete-operator-policy", {"vhost": "v1", "name": "o"}),
        ("delete-policy", {"vhost": "v1", "name": "p"}),
        ("delete-topic", {"vhost": "v1", "user": "ann", "exchange": "amq.topic"}),
        ("delete-permission", {"vhost": "v1", "user": "ann"}),
        ("delete-user", {"name": "ann"}),
        ("delete-vhost", {"name": "v1"}),
    ):
        page = guest.do(action, **fields)
        assert page.status == 200 and page.flash, action
    assert call(managed.base, "GET", "/users/ann", None, GUEST)[0] == 404
    assert call(managed.base, "GET", "/vhosts/v1", None, GUEST)[0] == 404


def test_settings_connections_and_definitions(managed: Managed, guest: Person) -> None:
    page = guest.do("change-setting", key="credit.channel_queue", value="500/100", **{"for": "10m"})
    assert "500/100" in page.text and "goes back in" in page.text
    guest.do("change-setting", key="credit.channel_queue", value="400/200")
    refused = guest.do("change-setting", key="nope", value="1")
    assert refused.status == 400 and "nope" in refused.flash
    connection = pika.BlockingConnection(pika.URLParameters(managed.broker.url))
    name = api(managed, "/connections")[0]["name"]
    assert (
        "is closed"
        in guest.do("close-connection", name=name, reason="raus, bitte: zu groß, 超时").flash
    )
    with pytest.raises(pika.exceptions.ConnectionClosed, match="raus, bitte: zu groß, 超时"):
        connection.channel()
    file = guest.get("/definitions")
    assert "attachment" in file.headers["content-disposition"]
    assert '"users"' in file.text
    back = guest.do("import-definitions", definitions=file.text)
    assert back.status == 200 and "imported: " in back.flash
    queue = '{"name": "brought", "vhost": "/", "durable": true, "auto_delete": false}'
    guest.do("import-definitions", definitions=f'{{"queues": [{queue[:-1]}, "arguments": {{}}}}]}}')
    assert api(managed, "/queues/%2F/brought")["durable"] is True
    for wrong, words in (
        ("", "choose a file"),
        ("[]", "no JSON object"),
        ('{"queues": 1}', "queues"),
    ):
        refused = guest.do("import-definitions", definitions=wrong)
        assert refused.status == 400 and words in refused.flash, refused.flash
    guest.do("delete-queue", vhost="/", name="brought")
    # More remarks than a page shows are counted, and the last one is always there.
    unknown = [{"name": f"g{i}", "value": 1} for i in range(8)]
    said = guest.do("import-definitions", definitions=json.dumps({"global_parameters": unknown}))
    assert "'g0'" in said.flash and "'g7'" in said.flash and "'g5'" not in said.flash
    assert "and 3 more" in said.flash


def file_form(token: str, data: bytes) -> tuple[bytes, str]:
    """As a browser sends it."""
    head = f'--edge\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n{token}\r\n'
    head += '--edge\r\nContent-Disposition: form-data; name="record"; filename="x.pflow"\r\n'
    head += "Content-Type: application/octet-stream\r\n\r\n"
    return head.encode() + data + b"\r\n--edge--\r\n", "multipart/form-data; boundary=edge"


def test_a_moment_of_the_timeline_is_looked_at(managed: Managed, guest: Person) -> None:
    """From the home page to why of then, and to the map of then in a record."""
    call(managed.base, "PUT", "/queues/%2F/timed", {}, GUEST)
    # The recorder looks once a second: at the moment that is chosen it has seen the queue.
    time.sleep(3)
    page = guest.wait_for("/queue?vhost=/&name=timed", "ten seconds each: choose one")
    places = re.findall(r'href="(/why\?kind=queue&amp;name=%2Ftimed&amp;at=\d+)"', page.text)
    assert len(places) == 60
    time.sleep(2.5)
    then = guest.get(html.unescape(places[-1]))
    assert "the past" in then.text and "queue /timed is not blocked" in then.text
    assert 'data-every="0"' in then.text, "it does not move on"
    (at,) = re.findall(r'name="at" value="(\d+)"', then.text)
    found = guest.do("save-record", last_s="600", at=at, kind="queue", name="/timed")
    assert "What moved then" in found.text and "queue /timed is not blocked" in found.text
    assert re.search(r'name="ago_s" value="[1-9]\d*"', found.text)
    assert len(re.findall(r'href="/why\?kind=publish&amp;at=\d+"', guest.get("/").text)) == 60


def test_a_record_is_opened_from_a_file(managed: Managed, guest: Person) -> None:
    call(managed.base, "PUT", "/queues/%2F/filed", {}, GUEST)
    time.sleep(1.5)
    page = guest.do("save-record", last_s="600")
    number = int(re.findall(r"/record/file\?number=(\d+)", page.text)[0])
    data = guest.get(f"/record/file?number={number}").data
    call(managed.base, "DELETE", "/queues/%2F/filed", None, GUEST)
    token = guest.get("/records").csrf

    def opened(data: bytes, token: str = token) -> Page:
        return guest.send("/open-record", *file_form(token, data))

    places = [opened(data).location for _ in range(3)]
    assert "Record from a file" in guest.get(places[2]).text
    assert "queue /filed is not blocked" in guest.get(f"{places[2]}&kind=queue&name=/filed").text
    assert "choose it again" in guest.get(places[0]).text, "two files are open at a time"
    for wrong, said, status in (
        (b"no record", "not a flight record", 400),
        (data[: len(data) // 2], "the file ends too early", 400),
        (gzip.compress(b" " * 150_000_000), "unpacks to more than any record does", 400),
        (b"", "choose a file", 400),
        (b"x" * 17_000_000, "a file has at most", 413),
    ):
        refused = opened(wrong)
        assert (refused.status, said in html.unescape(refused.text)) == (status, True), said
    assert opened(data, "another").status == 403
    assert guest.send("/open-record", b"csrf=x", "text/plain").status == 400


def test_a_record_is_taken_and_looked_at_as_the_past(managed: Managed, guest: Person) -> None:
    """What the page says of it is what `penstock replay` says of the file that it gives."""
    connection = pika.BlockingConnection(pika.URLParameters(managed.broker.url))
    channel = connection.channel()
    channel.queue_declare("then")
    channel.basic_publish("", "then", b"x")
    guest.wait_for("/queue?vhost=/&name=then", "queue /then is not blocked")
    page = guest.do("save-record", last_s="600")
    assert page.status == 200 and "the past" in page.text and "stays until the next" in page.flash
    number = int(re.findall(r"/record/file\?number=(\d+)", page.text)[0])
    connection.close()
    # From here on the broker is not asked: the queue is gone, and the record has it.
    guest.do("delete-queue", vhost="/", name="then")
    record = f"/record?number={number}"
    assert "queue /then is not blocked" in guest.get(f"{record}&kind=queue&name=/then").text
    # The map of then has that queue, and leads to the record's own answers.
    drawn = html.unescape(guest.get(f"{record}&window_s=600").text)
    assert f"/record?number={number}&kind=queue&name=%2Fthen" in drawn
    found = decode_packed(guest.get(f"/record/file?number={number}").data)
    answer = ask_why(found.history, Question("queue", "/then"))
    assert answer.text in html.unescape(guest.get(f"{record}&kind=queue&name=/then").text)
    for wrong, words in (
        ("number=x", "is no number of a record"),
        ("number=9999", "no flight record 9999 is kept"),
        (f"number={number}&window_s=0", "must be above 0"),
        (f"number={number}&kind=nope", "one of: connection"),
        (f"number={number}&ago_s=601", "must be 0..600"),
        (f"number={number}&ago_s={'0' * 5000}", "must be 0..600"),
    ):
        refused = guest.get(f"/record?{wrong}")
        assert refused.status == 400 and words in html.unescape(refused.text), refused.text
    assert guest.do("save-record", last_s="0").status == 400
    # Somebody takes another: the broker keeps that one, and who looks at the first goes on.
    guest.do("save-record", last_s="10")
    assert "queue /then is not blocked" in guest.get(f"{record}&kind=queue&name=/then").text


def test_faults_have_the_texts_of_the_broker(managed: Managed, guest: Person) -> None:
    guest.do("declare-queue", vhost="/", name="qf", type="classic")
    page = guest.do("declare-queue", vhost="/", name="qf", type="classic", durable="on")
    assert page.status == 400 and "inequivalent arg 'durable'" in page.flash
    page = guest.do("declare-queue", vhost="/", name="qg", arguments="{nope")
    assert page.status == 400 and "is no JSON object" in page.flash
    assert guest.do("declare-queue", vhost="/", name="").status == 400
    assert guest.do("purge-queue", vhost="/", name="none").status == 404
    assert guest.do("get-messages", vhost="/", name="qf", count="99999").status == 400
    assert guest.do("put-vhost-limit", name="/", limit="max-queues", value="x").status == 400
    assert guest.do("no-such-action").status == 404
    guest.do("delete-queue", vhost="/", name="qf")


# -- what is refused -----------------------------------------------------------------------------


def test_forms_of_other_sites_change_nothing(managed: Managed, guest: Person) -> None:
    mona = person(managed, "mona")
    wanted = {"vhost": "/", "name": "forged"}
    own, other = guest.get("/").csrf, mona.get("/").csrf
    for action in ("declare-queue", "publish", "get-messages", "delete-queue"):
        for token in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": other}, {"csrf": own + "x"}):
            assert guest.post(f"/do/{action}", wanted | token).status == 403, action
    crossed = guest.post("/do/declare-queue", wanted | {"csrf": own}, sec_fetch_site="cross-site")
    assert crossed.status == 403
    login = {"user": "guest", "password": "guest"}
    assert Person(managed.base).post("/login", login, sec_fetch_site="cross-site").status == 403
    assert call(managed.base, "GET", "/queues/%2F/forged", None, GUEST)[0] == 404
    # An action that GET asks for is none.
    assert guest.get(f"/do/declare-queue?vhost=/&name=forged&csrf={own}").status == 405
    assert own not in guest.get("/queues").headers.as_string()
    assert guest.post("/do/declare-queue", wanted | {"csrf": own}).status == 303
    guest.do("delete-queue", vhost="/", name="forged")


def test_pages_and_actions_are_for_those_with_the_right_tags(managed: Managed) -> None:
    mia, mona = person(managed, "mia"), person(managed, "mona")
    for path in FOR_MONITORS:
        assert mona.get(path).status == 200, path
        refused = mia.get(path)
        assert (refused.status, "You may not do this" in refused.text) == (403, True), path
        assert f'href="{path}"' not in mia.get("/queues").text
    for path in FOR_ADMINISTRATORS:
        assert (mia.get(path).status, mona.get(path).status) == (403, 403), path
    assert 'href="/users"' not in mona.get("/queues").text
    call(managed.base, "PUT", "/queues/%2F/theirs", {}, GUEST)
    call(managed.base, "PUT", "/queues/mine/hers", {}, GUEST)
    seen = mia.get("/queues").text
    assert "hers" in seen and "theirs" not in seen
    assert "theirs" in mona.get("/queues").text
    assert mia.get("/queue?vhost=/&name=theirs").status == 403
    assert "theirs" not in mia.get("/search?q=theirs").text.partition("<main")[2].replace(
        "Search: theirs", ""
    )
    # She has management alone: no forms for others, and the broker's own word on her permissions.
    assert "Add a virtual host" not in mia.get("/vhosts").text
    for action, fields in (
        ("put-user", {"name": "evil", "password": "x", "tags": "administrator"}),
        ("put-vhost", {"name": "evil"}),
        (
            "put-policy",
            {
                "vhost": "mine",
                "name": "p",
                "pattern": "",
                "priority": "0",
                "definition": '{"expires": 1}',
            },
        ),
        ("change-setting", {"key": "queue.depth", "value": "1MB"}),
        ("pause-queue", {"vhost": "mine", "name": "hers"}),
        ("delete-queue", {"vhost": "mine", "name": "hers"}),
        ("declare-queue", {"vhost": "mine", "name": "not-m"}),
        ("delete-queue", {"vhost": "/", "name": "theirs"}),
    ):
        page = mia.do(action, **fields)
        assert page.status == 403, f"{action}: {page.status} {page.flash}"
    assert "access to queue" in mia.do("delete-queue", vhost="mine", name="hers").flash
    assert mia.do("declare-queue", vhost="mine", name="m1", type="classic").status == 200
    assert call(managed.base, "GET", "/queues/mine/hers", None, GUEST)[0] == 200
    assert call(managed.base, "GET", "/users/evil", None, GUEST)[0] == 404


WORDS: Final = st.text(max_size=30) | st.sampled_from(
    ["/", "", "guest", "0", "-1", "1", "true", "{}", "{", "amq.topic", "\x00", "\ud800", "9" * 30]
)
FIELDS: Final = (
    *("vhost", "name", "kind", "window_s", "page", "page_size", "sort", "sort_reverse", "q"),
    *("use_regex", "arguments", "source", "destination", "props", "count", "ackmode", "user"),
    *("limit", "value", "definition", "priority", "pattern", "payload", "properties", "back"),
)
ACTIONS: Final = (
    *("declare-queue", "delete-queue", "purge-queue", "get-messages", "publish", "bind", "unbind"),
    *("declare-exchange", "put-permission", "put-policy", "put-vhost-limit", "close-connection"),
)


@pytest.mark.slow  # 3 to 10 s: two requests an example
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_request_is_an_error_of_ours(managed: Managed, data: st.DataObject) -> None:
    """Whatever an address or a form says is answered, and by nothing that is our fault."""
    who = _FUZZ.setdefault(managed.base, person(managed, "guest", "guest"))
    fields = data.draw(st.dictionaries(st.sampled_from(FIELDS), WORDS, max_size=6))
    said = {key: value.encode("utf-8", "surrogatepass") for key, value in fields.items()}
    paths = sorted({path.partition("?")[0] for path in PAGES} | {"/queue", "/connection"})
    path = data.draw(st.sampled_from(paths))
    page = who.get(f"{path}?{urlencode(said)}")
    assert page.status in (200, 400, 404), f"{path} {fields}: {page.status} {page.text[:300]}"
    assert_is_safe(page)
    action = data.draw(st.sampled_from(ACTIONS))
    form = urlencode({**said, "csrf": page.csrf}).encode()
    page = who.raw(f"/do/{action}", form)
    assert page.status in (200, 303, 400, 403, 404), f"{action} {fields}: {page.text[:300]}"
    raw = data.draw(st.binary(max_size=60))
    assert who.raw(f"/do/{action}", raw).status in (400, 403)


_FUZZ: dict[str, Person] = {}


def test_large_forms_are_refused(guest: Person) -> None:
    assert guest.raw("/do/publish", b"payload=" + b"x" * 1_048_577).status == 413
    assert guest.raw("/do/publish", b"&".join(b"a=1" for _ in range(100))).status == 400


@pytest.mark.slow  # 2 to 6 s
def test_a_thousand_queues_come_in_pages(managed: Managed, guest: Person) -> None:
    call(managed.base, "PUT", "/vhosts/many", {}, GUEST)
    queues = [
        {"name": f"bulk-{i:04d}", "durable": False, "auto_delete": False, "arguments": {}}
        for i in range(1_000)
    ]
    assert call(managed.base, "POST", "/definitions/many", {"queues": queues}, GUEST)[0] == 204
    page = guest.get("/queues?name=bulk-")
    assert "1 000" in page.text or "1 000" in page.text
    assert "page 1 of 10" in page.text
    assert len(re.findall(r'href="/queue\?', page.text)) == 100
    last = guest.get("/queues?name=bulk-&page=10&sort=name&sort_reverse=true")
    assert "bulk-0000" in last.text and "bulk-0999" not in last.text
    for path in PAGES:
        page = guest.get(path)
        assert page.status == 200, path
        assert len(page.text) < 400_000, f"{path} is bounded whatever there is"
    call(managed.base, "DELETE", "/vhosts/many", None, GUEST)
