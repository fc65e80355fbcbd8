"""Dashboards and alerts have what they read: every selector of every query of `Penstock flow`, of
the alert rules, and of RabbitMQ's dashboard 10991 matches a series of a live broker."""

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pika
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scripts.flow_board import page
from tests.architecture.house import REPOSITORY
from tests.conformance.http_live import Managed, managed_broker
from tests.patience import PATIENCE_S, until

GRAFANA: Final = REPOSITORY / "packaging" / "grafana" / "penstock-flow.json"
RULES: Final = REPOSITORY / "packaging" / "prometheus" / "penstock.rules.yaml"
RULE_TESTS: Final = RULES.with_name("penstock.rules.test.yaml")
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is not installed (Debian has it in the package prometheus)",
)
ALERTS: Final = (
    *("PublisherThrottled", "RootCauseDisk", "ConsumerWindowFull", "AlarmSoon", "NoConsumers"),
    "DiskSlow",
)
ADDED: Final = ("instance", "job", "namespace")
"""Labels that Prometheus adds."""

Series = dict[str, list[dict[str, str]]]

COUNTED: Final = (
    *("connections_opened", "connections_closed", "channels_opened", "channels_closed"),
    *("queues_declared", "queues_created", "queues_deleted"),
)
NOW: Final = (
    *("connections", "channels", "consumers", "queues", "build_info", "erlang_uptime_seconds"),
    *("queue_messages_ready", "queue_messages_unacked", "process_resident_memory_bytes"),
    *("resident_memory_limit_bytes", "disk_space_available_bytes", "process_open_fds"),
    *("disk_space_available_limit_bytes", "process_max_fds"),
)
OF_PROTOCOL: Final = (
    *("received", "received_confirm", "routed", "confirmed", "unroutable_dropped"),
    "unroutable_returned",
)
OF_TYPE: Final = (
    *("delivered", "redelivered", "delivered_consume_manual_ack", "delivered_consume_auto_ack"),
    *("delivered_get_manual_ack", "delivered_get_auto_ack", "get_empty", "acknowledged"),
)
TYPES: Final = ("rabbit_classic_queue", "rabbit_quorum_queue", "rabbit_stream_queue")
SIZES: Final = (
    "100.0",
    "1000.0",
    "10000.0",
    "100000.0",
    "1e+06",
    "1e+07",
    "5e+07",
    "1e+08",
    "+Inf",
)
JOINED: Final = (
    " * on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) "
    'rabbitmq_identity_info{rabbitmq_cluster="$rabbitmq_cluster", namespace="$namespace", '
    'rabbitmq_endpoint=~"aggregated|per-object"}'
)
"""How each panel of dashboard 10991 chooses the broker it shows."""


def of_10991() -> list[str]:
    """The queries of dashboard 10991, from the names and labels that its panels read."""
    found = [f"sum(rabbitmq_{name}{JOINED})" for name in NOW]
    found += [f"sum(rabbitmq_global_{name}{JOINED})" for name in ("publishers", "consumers")]
    found += [f"sum(rate(rabbitmq_{name}_total[60s]){JOINED})" for name in COUNTED]
    for name in OF_PROTOCOL:
        found.append(
            f'sum(rate(rabbitmq_global_messages_{name}_total{{protocol="amqp091"}}[60s]){JOINED})'
        )
    for name, kind in product(OF_TYPE, TYPES):
        labels = f'protocol="amqp091", queue_type="{kind}"'
        found.append(f"sum(rate(rabbitmq_global_messages_{name}_total{{{labels}}}[60s]){JOINED})")
    found += [f'rate(rabbitmq_message_size_bytes_bucket{{le="{le}"}}[60s]){JOINED}' for le in SIZES]
    return found


def parsed(query: str) -> Any:
    """The tree of a query. Raises: ValueError."""
    text = query.replace("$__rate_interval", "1m").replace("$instance", ".*")
    return promql_parser.parse(text)


def selectors(node: Any) -> Iterator[Any]:
    """Every vector selector below a node."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        inner = getattr(node, name, None)
        if inner is not None and type(inner).__module__ == type(node).__module__:
            yield from selectors(inner)
    for inner in getattr(node, "args", None) or ():
        yield from selectors(inner)


def fits(matcher: Any, labels: dict[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    how = str(matcher.op)
    if how.endswith(("Re", "NotRe")):
        is_found = re.fullmatch(matcher.value, value) is not None
    else:
        is_found = matcher.value == value
    return is_found != ("Not" in how)


def unmatched(query: str, series: Series) -> list[str]:
    """The selectors of `query` that match no series."""
    found = list(selectors(parsed(query)))
    assert found, f"{query} reads nothing"
    missing = []
    for one in found:
        matchers = [
            matcher
            for matcher in one.matchers.matchers
            if matcher.name not in ADDED and not matcher.value.startswith("$")
        ]
        rows = series.get(one.name, [])
        if not any(all(fits(matcher, labels) for matcher in matchers) for labels in rows):
            missing.append(f"{one.name} with {[str(matcher) for matcher in matchers]}")
    return missing


def series_of(address: str) -> Series:
    with urlopen(address, timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(dict(sample.labels))
    return found


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed_broker(tmp_path_factory.mktemp("http")) as found:
        yield found


@pytest.fixture(scope="module")
def series(managed: Managed) -> Series:
    """What a broker says that has just been started: panels are not empty before anything is."""
    return series_of(managed.metrics)


def board_queries() -> list[str]:
    panels = json.loads(GRAFANA.read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_every_query_of_dashboard_10991_has_series(
    series: Series, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = of_10991()
    missing = {query: found for query in queries if (found := unmatched(query, series))}
    there = f"{len(queries) - len(missing)} of {len(queries)}"
    with capsys.disabled():
        print(f"\ndashboard 10991: {there} queries have series")
    assert not missing


def test_one_identity_and_no_label_of_prometheus_own(series: Series) -> None:
    assert len(series["rabbitmq_identity_info"]) == 1
    assert not [name for name, rows in series.items() if any(set(ADDED) & set(row) for row in rows)]


def test_the_board_is_up_to_date() -> None:
    assert GRAFANA.read_text(encoding="utf-8") == page(), "run: make docs"


def test_panels_of_the_board_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(GRAFANA.read_text(encoding="utf-8"))["panels"]:
        at = panel["gridPos"]
        cells = set(product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        assert not taken & cells and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
        assert panel["title"] and panel["description"]


def test_every_query_of_the_board_has_series(managed: Managed) -> None:
    with held_publisher(managed):

        def missing() -> dict[str, list[str]]:
            now = series_of(managed.metrics)
            return {query: found for query in board_queries() if (found := unmatched(query, now))}

        until(lambda: not missing(), "series for every query of the board")


class held_publisher:
    """A client that publishes to a queue which is over its depth mark, until the end."""

    def __init__(self, managed: Managed) -> None:
        self.managed = managed
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._press, daemon=True)

    def __enter__(self) -> None:
        self.managed.broker.change("queue.depth", "100kB")
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        with pika.BlockingConnection(pika.URLParameters(self.managed.broker.url)) as other:
            other.channel().queue_delete("pressed")
        self._thread.join(PATIENCE_S)

    def _press(self) -> None:
        try:
            connection = pika.BlockingConnection(pika.URLParameters(self.managed.broker.url))
            channel = connection.channel()
            channel.queue_declare("pressed")
            channel.confirm_delivery()
            while not self._end.is_set():
                channel.basic_publish("", "pressed", b"x" * 20_000)
            connection.close()
        except pika.exceptions.AMQPError:
            return


def values_of(managed: Managed, name: str, label: str) -> dict[str, float]:
    """The series of one family, by a label."""
    with urlopen(managed.metrics, timeout=PATIENCE_S) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        [family] = [one for one in families if one.name == name]
    return {one.labels[label]: one.value for one in family.samples}


def test_a_publisher_that_waits_is_seen_with_its_root_cause(managed: Managed) -> None:
    def is_seen() -> bool:
        states = values_of(managed, "penstock_flow_publishers", "state")
        roots = values_of(managed, "penstock_flow_root_cause_ratio", "reason")
        return states["throttled"] + states["blocked"] > 0 and roots["consumer"] > 0.05

    with held_publisher(managed):
        until(is_seen, "a publisher that is held, because of consumers")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_there_is_a_rule_for_each_alert_and_it_says_what_to_do() -> None:
    assert [rule["alert"] for rule in rules()] == list(ALERTS)
    for rule in rules():
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "action"}


def promtool(*words: str, cwd: Path) -> tuple[int, str]:
    """Its exit status and what it says."""
    done = subprocess.run(
        ["promtool", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_promtool_takes_the_rules() -> None:
    status, said = promtool(
        "check", "rules", "--lint=all", "--lint-fatal", str(RULES), cwd=RULES.parent
    )
    assert status == 0 and f"SUCCESS: {len(ALERTS)} rules found" in said, said


@needs_promtool
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """In Prometheus' own evaluation, over made-up series; and a rule that never fires is found."""
    status, said = promtool("test", "rules", RULE_TESTS.name, cwd=RULES.parent)
    assert status == 0, said
    shutil.copy(RULE_TESTS, tmp_path)
    for name in ALERTS:
        spoilt = [{**rule, "for": "99h"} if rule["alert"] == name else rule for rule in rules()]
        text = yaml.safe_dump({"groups": [{"name": "penstock", "rules": spoilt}]})
        (tmp_path / RULES.name).write_text(text, encoding="utf-8")
        assert promtool("test", "rules", RULE_TESTS.name, cwd=tmp_path)[0] != 0, name


def test_every_alert_is_tried() -> None:
    text = RULE_TESTS.read_text(encoding="utf-8")
    assert [name for name in ALERTS if name not in text] == []


@pytest.mark.parametrize("name", ALERTS)
def test_what_an_alert_reads_is_there(name: str, series: Series) -> None:
    [expression] = [rule["expr"] for rule in rules() if rule["alert"] == name]
    assert unmatched(expression, series) == []


def test_a_metric_that_is_not_there_is_found_out(series: Series) -> None:
    assert unmatched("sum(rate(rabbitmq_nothing_total[1m]))", series)
    assert unmatched('penstock_flow_publishers{state="sleepy"} > 0', series)
    with pytest.raises(ValueError):
        parsed("sum(")


def test_the_alerts_see_a_queue_without_consumers_and_full_windows(managed: Managed) -> None:
    def waiting() -> dict[str, float]:
        return values_of(managed, "penstock_queues_waiting", "reason")

    with pika.BlockingConnection(pika.URLParameters(managed.broker.url)) as connection:
        channel = connection.channel()
        for queue in ("alone", "slow"):
            channel.queue_declare(queue)
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("slow", lambda *_: None)
        for queue in ("alone", "slow", "slow", "slow"):
            channel.basic_publish("", queue, b"x")
        end = time.monotonic() + PATIENCE_S
        while (found := waiting())["no_consumers"] < 1 or found["window_full"] < 1:
            assert time.monotonic() < end, found
            connection.process_data_events(0.1)
        for queue in ("alone", "slow"):
            channel.queue_delete(queue)


def test_the_rules_are_where_the_readme_says() -> None:
    readme = Path(REPOSITORY / "packaging" / "README.md").read_text(encoding="utf-8")
    for path in (GRAFANA, RULES, RULE_TESTS):
        assert path.relative_to(REPOSITORY / "packaging").as_posix() in readme
