"""The page as a reader sees it: what is on it, what it leads to, and what strangers cannot do."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed")

from penstock.spark.blame.blame import blamed, counted_once
from penstock.spark.job.pipeline import BUCKET_NS
from penstock.spark.report.names import shown
from penstock.spark.report.report import render
from penstock.spark.report.summary import Summary, TableSource, summarise
from penstock.spark.schema.formats import BrokerLife, Check, Phase, RunDescription, read_run
from penstock.spark.schema.rows import (
    BlameRow,
    BlockedByRow,
    CdfRow,
    DepthRow,
    HeldRow,
    IntegrityRow,
    KindRow,
    LatencyRow,
    StateRow,
    Tables,
    ThroughputRow,
)
from tests.spark import oracle
from tests.spark.synthetic import World, write_world

S = 1_000_000_000
SOURCE = TableSource("Spark", 10, 0, 0, 10)
NOTHING = Tables((), (), (), (), (), (), (), (), ())
VOID = {"meta", "br", "link", "img", "input", "rect", "line", "polygon", "polyline"}


class Page(HTMLParser):
    """Texts, links, ids and cells of a page; every element must be closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.classes: list[tuple[str, str]] = []
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.tags.add(tag)
        self.attributes |= known.keys()
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        if tag == "a":
            self.links.append(known["href"] or "")
        if known.get("id"):
            self.ids.append(known["id"] or "")
        self.classes.append((tag, known.get("class") or ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += f"{data}\n"
        if "td" in self.open:
            self.rows[-1][-1] += data

    def badges(self) -> list[str]:
        return [name for tag, name in self.classes if tag == "span" and name.startswith("badge")]


def page_of(
    tables: Tables, run: RunDescription, source: TableSource = SOURCE
) -> tuple[Page, Summary]:
    summary = summarise(tables, run, source, BUCKET_NS)
    return Page(render(tables, run, summary, BUCKET_NS)), summary


def test_counts_are_those_of_the_clients_and_of_the_summary(tmp_path: Path) -> None:
    truth = write_world(tmp_path, World(seed=21, lost=2, duplicated=3))
    tables = oracle.of_directory(tmp_path, BUCKET_NS)
    page, summary = page_of(tables, read_run(tmp_path))
    by_queue = {row[0]: row[1:] for row in page.rows if len(row) == 7}
    sums = [sum(int(row[at].replace(",", "")) for row in by_queue.values()) for at in (0, 3, 4, 5)]
    assert sums == [truth.published, truth.published - 2, 2, 3]
    assert sums == [summary.published, summary.delivered, summary.lost, summary.duplicated]
    assert page.badges() == ["badge broken"]
    # On a narrow page the line of heads is gone, and each number names its own.
    html = render(tables, read_run(tmp_path), summary, BUCKET_NS)
    heads = re.findall(r'<td class="number" data-head="(\w+)">', html)
    columns = ["published", "in", "out", "delivered", "lost", "duplicates"]
    assert heads == columns * len(by_queue)


def test_brokers_of_equal_names_are_told_apart(tmp_path: Path) -> None:
    worlds = (World(seed=21), World(seed=22, node="b@test", boot_id="b2"))
    twins, held_ns, pages = [], 0, []
    for number, world in enumerate(worlds):
        write_world(tmp_path / str(number), world)
        twins.append(oracle.of_directory(tmp_path / str(number), BUCKET_NS))
        page, summary = page_of(twins[-1], read_run(tmp_path / str(number)))
        held_ns += summary.held_ns
        pages.append(page)
    both = Tables(**{name: getattr(twins[0], name) + getattr(twins[1], name)
                     for name in Tables._fields})  # fmt: skip
    page, summary = page_of(both, RunDescription())
    assert summary.held_ns == held_ns
    assert {one.state for one in summary.promises} == {"kept"}
    queues = {row[0]: row[1:] for row in page.rows if len(row) == 7}
    assert queues.keys() == {
        f"{queue} on {node}" for queue in ("orders", "mail") for node in ("a@test", "b@test")
    }
    alone = [{row[0]: row[1:] for row in one.rows if len(row) == 7} for one in pages]
    assert queues["orders on b@test"] == alone[1]["orders"] != alone[0]["orders"]
    assert {one.scope for one in summary.recommendations} >= {
        "alarm:memory on a@test",
        "alarm:memory on b@test",
    }
    assert not any(" on a@test" in one.text for one in pages)


def counted(confirmed: int, delivered: int) -> RunDescription:
    clients = {"a": {"confirmed": confirmed}, "b": {"delivered": delivered}}
    return RunDescription(clients=clients)


@pytest.mark.parametrize(
    ("run", "last", "state"),
    [
        (counted(7, 7), DepthRow(9 * S, "/q", 0, 0, 0, 0, 7, 7), "kept"),
        (counted(8, 7), DepthRow(9 * S, "/q", 0, 0, 0, 0, 7, 7), "broken"),
        (counted(7, 7), DepthRow(9 * S, "/q", 0, 0, 0, 0, 6, 7), "broken"),
        (counted(7, 6), DepthRow(9 * S, "/q", 0, 0, 0, 0, 7, 6), "broken"),
    ],
)
def test_clients_traces_and_broker_must_count_the_same(
    run: RunDescription, last: DepthRow, state: str
) -> None:
    """The stream beside the queue has copies, which nobody counts twice."""
    begun = DepthRow(0, "/q", 0, 0, 0, 0, 0, 0)
    beside = (begun._replace(queue="/log"), last._replace(queue="/log", published=70))
    tables = NOTHING._replace(
        integrity=(IntegrityRow("q", 7, 7, 0, 0, 7, 0, 0),), queue_depth=(begun, last, *beside)
    )
    _, summary = page_of(tables, run)
    states = {one.name: one.state for one in summary.promises}
    assert states["clients and broker count the same"] == state


def test_a_run_has_all_its_checks_and_messages_on_its_page() -> None:
    checks = tuple(Check(f"Spark {number}", "kept", f"{number} rows") for number in range(4))
    run = RunDescription(checks=checks, messages=("why publish said <so>",))
    page, summary = page_of(NOTHING, run)
    assert summary.promises[-4:] == checks
    assert all(one.name in page.text and one.detail in page.text for one in summary.promises)
    assert "why publish said <so>" in page.text
    assert page.badges() == ["badge kept"] and "4 checks passed" in page.text


def test_a_badge_is_green_only_when_something_was_checked() -> None:
    page, summary = page_of(NOTHING, RunDescription(), TableSource("Spark", 5, 0, 0, 0))
    assert {one.state for one in summary.promises} == {"unknown"} and summary.is_kept
    assert page.badges() == ["badge unknown"] and "nothing could be checked" in page.text


def test_it_says_when_where_and_with_what() -> None:
    life = BrokerLife("rabbit-host", "b00t", 1_700_000_000 * S, 50 * S, "9.9", {"profile": "odd"})
    run = RunDescription((Phase("steady", 60 * S, 70 * S),), facts={"host": "box"}, brokers=(life,))
    page, _ = page_of(NOTHING, run)
    assert "2023-11-1" in page.text and ":30 " in page.text, "50 s of the clock are 1.7e9 s"
    for words in ("rabbit-host", "b00t", "Penstock 9.9", "profile odd", "box", "Spark"):
        assert words in page.text
    monotonic = replace(run, brokers=(), phases=())
    assert "no broker has said" in page_of(NOTHING, monotonic)[0].text
    wall = NOTHING._replace(queue_depth=(DepthRow(1_700_000_000 * S, "/q", 0, 0, 0, 0, 0, 0),))
    assert "2023-11-1" in page_of(wall, monotonic)[0].text


def blame(victim: str, path: str, seconds: float, cause: str = "slow consumers") -> BlameRow:
    return BlameRow(0, victim, path.rpartition(" → ")[2], cause, path, round(seconds * S))


def test_what_was_held_before_the_phases_of_the_last_run_is_on_its_charts() -> None:
    """Tables that one run was added to after another know the phases of the last one."""
    path = "chan:A/1 → queue:/q"
    earlier = NOTHING._replace(
        root_cause=(blame("chan:A/1", path, 2.0, "broker work"),),
        held_time=(HeldRow(0, "chan:A/1", 2 * S),),
    )
    traced = NOTHING._replace(throughput=(ThroughputRow(S, "q", 5, 5, 5, 5),))
    run = RunDescription((Phase("calm", 900 * S + 7, 960 * S),))
    assert "How many connections and channels were held" in page_of(earlier, run)[0].text
    assert "as clients have counted them" in page_of(traced, run)[0].text


def test_a_wait_of_a_channel_and_its_connection_is_one() -> None:
    rows = [
        blame("chan:a/1", "chan:a/1 → queue:/q → consumers:/q", 4),
        blame("conn:a", "conn:a → chan:a/1 → queue:/q → consumers:/q", 4),
        blame("conn:b", "conn:b → chan:b/1", 2, "broker work"),
        blame("conn:c", "conn:c → alarm:memory", 1, "memory alarm"),
    ]
    assert [row.victim for row in counted_once(rows)] == ["chan:a/1", "conn:b", "conn:c"]
    assert sum(blamed(rows, "cause").values()) == 7 * S
    _, summary = page_of(NOTHING._replace(root_cause=tuple(rows)), RunDescription())
    assert summary.held_ns == 7 * S


def test_every_cause_leads_to_its_advice() -> None:
    """Also those that cost next to nothing, and the odd one that nobody has heard of."""
    rows = [
        blame("conn:a", "conn:a → alarm:memory", 100, "memory alarm"),
        blame("conn:b", "conn:b → disk:/", 0.1, "disk"),
        blame("conn:c", "conn:c → new:x", 0.1, "Häh? <b>"),
    ]
    page, summary = page_of(NOTHING._replace(root_cause=tuple(rows)), RunDescription())
    wanted = [link for link in page.links if link.startswith("#cause-")]
    assert len(set(wanted)) == 3 == len(summary.causes)
    assert {link.removeprefix("#") for link in page.links} <= {*page.ids, "messages", "depths"}
    assert len(page.ids) == len(set(page.ids))
    for words in ("bound queues", "a faster disk", "penstock why"):
        assert words in page.text


HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "{{ 7 * 7 }}{% raw %}",
    "</style></title><script>",
    "\u202egnp.exe \u2066\u200f\x1b[31m",
    "{0.__class__}",
    "n" * 255,
    "→ ← & &lt;",
)


def hostile(count: int) -> Tables:
    """Every table full of names that strangers may give."""
    names = [f"{HOSTILE[at % len(HOSTILE)]}{at}" for at in range(count)]
    return Tables(
        tuple(BlockedByRow(S, f"conn:{one}", f"queue:/{one}", one, S // 2) for one in names),
        tuple(BlameRow(S, f"conn:{one}", f"queue:/{one}", f"{one} alarm"[:300],
                       f"conn:{one} → queue:/{one} → consumer:{one}@conn:{one}", S // 2)
              for one in names),
        tuple(HeldRow(S, f"queue:/{one}", S // 3) for one in names),
        tuple(StateRow(S, f"chan:{one}/1", S, 0, S, 0, 0) for one in names),
        tuple(LatencyRow(one, one, "confirm", 20, 1e6, 2e6, 3e6, 4e6, 5e6) for one in names),
        tuple(ThroughputRow(S, one, 5, 5, 5, 5) for one in names),
        tuple(IntegrityRow(one, 5, 5, 0, 0, 5, 0, 0) for one in names),
        tuple(DepthRow(at * S, f"/{one}", 9, 0, 1, 3, at * 9, at * 9)
              for one in names for at in (0, 9, 20)),
        tuple(KindRow(S, one, 1, 0) for one in names),
        tuple(CdfRow(one, 20, rank, 1e6) for one in names for rank in (0.0, 1.0)),
    )  # fmt: skip


def test_names_of_strangers_are_words_and_nothing_else() -> None:
    run = RunDescription(
        tuple(Phase(one, at * S, (at + 1) * S) for at, one in enumerate(HOSTILE)),
        facts=dict.fromkeys(HOSTILE, HOSTILE[0]),
        checks=tuple(Check(one, "kept", one) for one in HOSTILE),
        messages=HOSTILE,
        brokers=(BrokerLife(HOSTILE[0], HOSTILE[1], 1, 1, HOSTILE[4]),),
    )
    page, _ = page_of(hostile(len(HOSTILE)), run)
    assert not {"script", "img", "link", "iframe", "b "} & page.tags
    assert not [one for one in page.attributes if one.startswith("on")]
    assert "alert(1)" in page.text and "{{ 7 * 7 }}" in page.text and "49" not in page.text
    assert not re.search("[\x00-\x08\x1b\u200e\u200f\u202a-\u202e\u2066-\u2069]", page.text)
    assert all(len(word) <= 300 for word in page.text.split())


def test_a_page_is_bounded_however_many_there_are() -> None:
    run = RunDescription()
    sizes = []
    for count in (50, 3000):
        tables = hostile(count)
        summary = summarise(tables, run, SOURCE, BUCKET_NS)
        sizes.append(len(render(tables, run, summary, BUCKET_NS)))
    assert sizes[1] < 1.2 * sizes[0] < 500_000


@pytest.mark.parametrize(
    ("actor", "words"),
    [
        ("queue:/orders", "queue orders"),
        ("queue:prod/orders", "queue prod/orders"),
        ("consumers:/orders", "consumers of orders"),
        ("chan:web/3", "web, channel 3"),
        ("consumer:ctag1.c79e9c327d34481faaf175fef3f3a23c@conn:orders-1", "consumer orders-1"),
        ("consumer:billing@conn:app", "consumer billing of app"),
        (
            "consumer:leased@conn:of shop: source@127.0.0.1:44922",
            "consumer Spark query leased (shop)",
        ),
        ("consumer:x@conn:minutes (shop): task 3", "consumer x of Spark query minutes (shop)"),
        ("conn:bills (shop): sink, partition 0@127.0.0.1:44622", "Spark query bills (shop)"),
        ("chan:bills (shop): sink, driver/1", "Spark query bills (shop), channel 1"),
        ("conn:of shop: source: partitions", "Spark shop"),
        ("alarm:memory", "memory alarm"),
        ("nobody", "nobody"),
        ("conn:" + "n" * 255, "n" * 24 + "…" + "n" * 23),
    ],
)
def test_actors_have_the_names_that_people_gave_them(actor: str, words: str) -> None:
    assert shown(actor) == words
