"""The pages in a real browser, where there is one: logging in, watching, acting, at two widths, in
light and in dark, with the policy that forbids whatever is not ours."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.browser import CHROMIUM, DRIVER, Browser, browser
from tests.conformance.http_contract import call
from tests.conformance.http_live import Managed, managed_broker
from tests.patience import PATIENCE_S

HOSTILE: Final = "<img src=x onerror=document.title='hit'>"
PAGES: Final = (
    *("/", "/flow", "/why", "/connections", "/channels", "/exchanges", "/queues", "/streams"),
    *(
        "/alarms",
        "/events",
        "/log",
        "/accounts",
        "/settings",
        "/nodes",
        "/users",
        "/user?name=guest",
        *("/vhosts", "/records"),
    ),
    *("/vhost?name=/", "/policies", "/limits", "/search?q=o", "/queue?vhost=/&name=orders"),
    *("/exchange?vhost=/&name=amq.topic",),
)
LOOKS: Final = ((1280, False), (390, True))

pytestmark = [
    # 10 to 25 s: Chromium starts once, and opens each page twice.
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="chromium and chromedriver are not installed (Debian: chromium, chromium-driver)",
    ),
]


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed_broker(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.fixture
def window(managed: Managed, tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path) as found:
        found.look(1280, False)
        found.open(f"{managed.base}/queues")
        found.write("input[name=user]", "guest")
        found.write("input[name=password]", "guest")
        found.click("button")
        found.wait_for("log out")
        found.log()
        yield found


def test_a_person_watches_and_acts(managed: Managed, window: Browser, tmp_path: Path) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(managed.broker.url))
    channel = connection.channel()
    try:
        # Where one wanted to go before the login.
        assert "Queues" in window.text()
        # The list changes by itself, and a name does not become markup.
        channel.queue_declare(HOSTILE)
        channel.queue_declare("orders")
        window.wait_for("orders")
        window.wait_for(HOSTILE)
        # A queue's page, live: messages come and are counted.
        window.open(f"{managed.base}/queue?vhost=/&name=orders")
        window.wait_for("is not blocked")
        for _ in range(3):
            channel.basic_publish("", "orders", b"hello")
        wait_for_tile(window, "ready", "3")
        # Open details survive what the script changes.
        window.run("document.querySelector('.why details').open = true")
        channel.basic_publish("", "orders", b"hello")
        wait_for_tile(window, "ready", "4")
        assert window.run("return document.querySelector('.why details').open") is True
        # Get a message, then purge, in two steps.
        window.click("details.form summary")
        window.click("form[action='/do/get-messages'] button")
        window.wait_for("hello")
        messages_can_be_moved(managed, window, channel)
        window.open(f"{managed.base}/queue?vhost=/&name=orders")
        window.run("document.querySelector('[action=\"/do/purge-queue\"]').parentNode.open = true")
        window.click("form[action='/do/purge-queue'] button")
        window.wait_for("queue orders is purged")
        wait_for_tile(window, "ready", "0")
        every_page_fits(managed, window)
        colours_can_be_chosen(window)
        old_bookmarks_lead_on(managed, window)
        a_file_can_be_imported(managed, window, tmp_path)
        an_opened_record_fits(managed, window)
        # By keyboard: the search is one key away.
        window.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'}))")
        assert window.run("return document.activeElement.name") == "q"
        window.click(".who button")
        window.wait_for("password")
    finally:
        connection.close()


def test_a_name_with_odd_spaces_is_chosen_as_it_is(managed: Managed, window: Browser) -> None:
    """A browser takes the text of an option for its value, without spaces at its ends."""
    vhost = quote(" two  spaces ", safe="")
    assert call(managed.base, "PUT", f"/vhosts/{vhost}", {}, "guest:guest")[0] == 201
    window.open(f"{managed.base}/queues")
    form = "form[action='/do/declare-queue']"
    window.run("document.querySelectorAll('details.form').forEach(one => { one.open = true })")
    window.run(f'document.querySelector("{form} select option:first-child").selected = true')
    window.write(f"{form} [name=name]", "spaced")
    window.click(f"{form} button")
    window.wait_for("queue spaced is there")
    assert call(managed.base, "GET", f"/queues/{vhost}/spaced", None, "guest:guest")[0] == 200


def messages_can_be_moved(managed: Managed, window: Browser, channel: BlockingChannel) -> None:
    """Two of a queue's messages, to another one."""
    channel.queue_declare("later")
    window.open(f"{managed.base}/queue?vhost=/&name=orders")
    window.run("document.querySelector('[action=\"/do/move-messages\"]').parentNode.open = true")
    window.write("form[action='/do/move-messages'] [name=to]", "later")
    window.run("document.querySelector('[action=\"/do/move-messages\"] [name=count]').value = 2")
    window.click("form[action='/do/move-messages'] button")
    window.wait_for("2 messages are moved to queue later")
    assert channel.queue_declare("later", passive=True).method.message_count == 2


def a_file_can_be_imported(managed: Managed, window: Browser, folder: Path) -> None:
    """What is chosen is shown in the field before it is sent."""
    file = folder / "definitions.json"
    file.write_text('{"vhosts": [{"name": "imported"}]}', encoding="utf-8")
    window.open(f"{managed.base}/users")
    window.run("document.querySelectorAll('details.form').forEach(one => { one.open = true })")
    window.write("input[type=file]", str(file))
    end = time.monotonic() + PATIENCE_S
    field = "return document.querySelector('[name=definitions]').value"
    while "imported" not in window.run(field):
        assert time.monotonic() < end, "the file's text is not in the field"
        time.sleep(0.05)
    window.click("form[action='/do/import-definitions'] button")
    window.wait_for("imported: 1 vhosts")
    window.open(f"{managed.base}/vhosts")
    window.wait_for("imported")


def an_opened_record_fits(managed: Managed, window: Browser) -> None:
    """Its summary has long lines, and is scrolled in itself."""
    window.open(f"{managed.base}/records")
    window.click("form[action='/do/save-record'] button")
    window.wait_for("the past")
    for width, is_dark in LOOKS:
        window.look(width, is_dark)
        fits(window, f"an opened record at {width} px")


def wait_for_tile(window: Browser, name: str, value: str) -> None:
    """Until the number called `name` is `value`."""
    script = (
        "return [...document.querySelectorAll('.tiles div')]"
        ".find(one => one.children[0].textContent === arguments[0])?.children[1].innerText"
    )
    end = time.monotonic() + PATIENCE_S
    while (found := window.run(script, name)) != value:
        assert time.monotonic() < end, f"{name} is {found}, and not {value}"
        time.sleep(0.05)


def fits(window: Browser, what: str) -> None:
    over = window.run(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert over == 0, f"{what} is {over} px too wide"


def every_page_fits(managed: Managed, window: Browser) -> None:
    """No page is wider than the screen, nothing is refused or fails, and nothing runs that should
    not."""
    for width, is_dark in LOOKS:
        window.look(width, is_dark)
        for path in PAGES:
            window.open(managed.base + path)
            fits(window, f"{path} at {width} px")
            assert window.run("return document.title") != "hit"
            said = [one for one in window.log() if "[DOM]" not in one]
            assert said == [], path
            back = window.run("return getComputedStyle(document.body).backgroundColor")
            level = sum(int(one) for one in back.strip("rgb()").split(",")) / 3
            assert (level < 100) == is_dark, f"{path}: {back}"


def colours_can_be_chosen(window: Browser) -> None:
    """The button changes them, and the next page has them as well."""
    window.click("#theme")
    assert window.run("return document.documentElement.dataset.theme") == "light"
    window.click("nav a[href='/queues']")
    window.wait_for("Declare a queue")
    assert window.run("return document.documentElement.dataset.theme") == "light"


def old_bookmarks_lead_on(managed: Managed, window: Browser) -> None:
    """Addresses of RabbitMQ's pages."""
    window.open(f"{managed.base}/#/queues/%2F/orders")
    window.wait_for("queue orders")
