"""Which tests run where: every test file belongs to one layer, and `make test` runs the first.

    pytest --layer core          without --layer everything is collected
    pytest --layer compiled      what of `core` runs on the compiled build as well
    pytest --layer compiled-long the same of `long`

A path here stands for the file, or for everything below the folder; the longest that fits decides.
`tests/architecture/test_layers.py` holds the table to the tree.
"""

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parent

CORE: Final = "core"
DISK: Final = "disk"
CLIENTS: Final = "clients"
SPARK: Final = "spark"
LONG: Final = "long"
COMPILED: Final = "compiled"
COMPILED_LONG: Final = "compiled-long"

WHAT: Final = {
    CORE: "every rule of the broker, in memory and with pika and aio-pika; what a newcomer runs",
    DISK: "crashes: every state after one, kill -9 at every call, power cuts; damaged stores",
    CLIENTS: "Celery, kombu, pages in a browser, restarts, alarms, clusters",
    SPARK: "what starts Java",
    LONG: "random histories, crowds, planted bugs, the lab, sweeps, the clients' own suites, each "
    "benchmark briefly, whole pipelines that are killed, and the compiler's cache",
}

ON_COMPILED: Final = (DISK, CLIENTS, COMPILED, COMPILED_LONG)
"""Layers of the compiled build. Disks and other people's clients meet that one in earnest; the
others run in plain Python, in which every line can be looked at."""

NOT_FOR_EVERY_CHANGE: Final = (LONG, COMPILED_LONG)
"""Not in `.ci/run`, which is over within half an hour; `make test-all` has them."""

LAYER_OF: Final = {
    "architecture": CORE,
    "unit": CORE,
    "property": CORE,
    "spec": CORE,
    "simulation": CORE,
    # Real clients on a real broker: what they do every day is for everybody, their own suites and
    # whatever waits for minutes of a broker's life are not.
    "conformance": CORE,
    "conformance/test_alarms.py": CLIENTS,
    "conformance/test_amqp_tools.py": CLIENTS,
    "conformance/test_celery.py": CLIENTS,
    "conformance/test_celery_identities.py": CLIENTS,
    "conformance/test_dashboards.py": CLIENTS,
    "conformance/test_flow_notices.py": CLIENTS,
    "conformance/test_http_clients.py": CLIENTS,
    "conformance/test_http_contract.py": CLIENTS,
    "conformance/test_http_fuzz.py": CLIENTS,
    "conformance/test_kombu.py": CLIENTS,
    "conformance/test_page_samples.py": CLIENTS,
    "conformance/test_pages.py": CLIENTS,
    "conformance/test_pages_browser.py": CLIENTS,
    "conformance/test_handover.py": CLIENTS,
    "unit/cli/test_cores.py": CLIENTS,
    "unit/testing/test_plugin.py": CLIENTS,
    "conformance/test_perf.py": CLIENTS,
    "conformance/test_rate_limits.py": CLIENTS,
    "conformance/test_restart.py": CLIENTS,
    "conformance/test_suite_verdicts.py": CLIENTS,
    "conformance/test_suites.py": LONG,
    "conformance/test_testing_celery.py": CLIENTS,
    "conformance/test_why_answers.py": CLIENTS,
    "conformance/test_why_culprits.py": CLIENTS,
    "bench": LONG,
    "cluster": CLIENTS,
    "cluster/test_history.py": CORE,
    # Minutes, and networks that only root can make.
    "cluster/test_commands.py": LONG,
    "cluster/test_http.py": LONG,
    "cluster/test_mirrors.py": LONG,
    "cluster/test_partitions.py": LONG,
    "cluster/test_refusals.py": LONG,
    "cluster/test_settings.py": LONG,
    "cluster/test_shards.py": LONG,
    "cluster/test_shards_alone.py": LONG,
    "crash": DISK,
    # Bugs can only be planted in plain Python.
    "crash/test_planted_bugs.py": LONG,
    "crash/test_stream_crash_states.py": LONG,
    "unit/server/cluster": DISK,
    "unit/server/shards": DISK,
    "unit/server/disk/test_paged_start.py": DISK,
    "unit/server/disk/test_ruled_start.py": DISK,
    "unit/storage/check/test_check.py": DISK,
    "property/test_kept_connections.py": LONG,
    "property/test_lease_crashes.py": LONG,
    "property/test_planted_queue_bugs.py": LONG,
    "property/test_protocol_pamqp.py": LONG,
    "property/test_protocol_round_trips.py": LONG,
    "property/test_queue_twin.py": LONG,
    "spec/test_crowd_scenarios.py": LONG,
    "spec/test_paging_scenarios.py": LONG,
    "spec/test_storm_scenarios.py": LONG,
    "spec/test_strategy_scenarios.py": LONG,
    "unit/broker/channel/test_parking_disk.py": LONG,
    "unit/broker/paging/test_pager.py": LONG,
    "unit/broker/test_others_go_on.py": LONG,
    "unit/explain/test_answers_in_steps.py": LONG,
    "unit/explain/test_explain.py": LONG,
    "unit/spark/job/test_event_tables.py": LONG,
    "unit/spark/report/test_whole_report.py": LONG,
    "unit/test_native_build.py": LONG,
    "simulation/test_alarm_graphs.py": LONG,
    "simulation/test_attribution.py": LONG,
    "simulation/test_attribution_lab.py": LONG,
    "simulation/test_cluster.py": LONG,
    "simulation/test_cluster_bugs.py": LONG,
    "simulation/test_delay_bugs.py": LONG,
    "simulation/test_planted_bugs.py": LONG,
    "simulation/test_random_graphs.py": LONG,
    "simulation/test_scenarios.py": LONG,
    "unit/cli/test_lab.py": LONG,
    "unit/cli/test_lab_ends.py": LONG,
    "unit/cli/test_sweep.py": LONG,
    "unit/lab": LONG,
    "unit/sweep": LONG,
    "unit/whatif": LONG,
    "spark": SPARK,
    "spark/test_cluster.py": LONG,
    "spark/test_connect.py": LONG,
    "spark/test_killed_pipeline.py": LONG,
    "spark/test_local_cluster.py": LONG,
    "spark/test_orders.py": LONG,
    "spark/test_orders_long.py": LONG,
    "spark/test_pipeline.py": LONG,
}

COMPILED_TOO: Final = (
    # Whatever runs in compiled modules. Not commands, analysis and Spark, of which nothing is
    # compiled, nor tests of the tests.
    "unit/base",
    "unit/broker",
    "unit/flow",
    "unit/forwarding",
    "unit/protocol",
    "unit/queues",
    "unit/routing",
    "unit/storage",
    "unit/streams",
    "unit/telemetry",
    "unit/explain",
    "unit/server",
    "property",
    "spec",
    "simulation/test_attribution.py",
    "simulation/test_ledger_laws.py",
    "simulation/test_liveness.py",
    "simulation/test_random_graphs.py",
    "simulation/test_scenarios.py",
    "conformance",
    "crash/test_stream_crash_states.py",
)

NOT_COMPILED: Final = ("property/test_planted_queue_bugs.py",)
"""Below places that are, but it asks whether a test finds a bug that was planted."""

COMPILED_AT_ONCE: Final = (
    "property/test_kept_connections.py",
    "property/test_queue_twin.py",
    "spec/test_paging_scenarios.py",
    "spec/test_storm_scenarios.py",
    "unit/broker",
    "unit/explain",
)
"""What is `long` in plain Python and not on the compiled build: `compiled` has it."""

LONGEST_FIRST: Final = (
    # spark, long, clients: these take from half a minute to five minutes.
    "spark/test_orders_long.py",
    "spark/test_cluster.py",
    "conformance/test_suites.py",
    "spark/test_run.py",
    "spark/test_pipeline.py",
    "bench/test_pipeline_growth.py",
    "spark/test_local_cluster.py",
    "spark/test_orders.py",
    "conformance/test_why_culprits.py",
    "cluster/test_failover.py",
    "spark/test_sink_restarts.py",
    "spark/test_killed_pipeline.py",
    "spark/test_connect.py",
    "spark/test_versions.py",
    "spec/test_strategy_scenarios.py",
    "simulation/test_scenarios.py",
    "simulation/test_planted_bugs.py",
    "cluster/test_flow.py",
    "unit/spark/job/test_event_tables.py",
    "spark/test_pipeline_command.py",
    "spec/test_crowd_scenarios.py",
    "bench/test_culprits.py",
    "bench/test_memory_books.py",
    "simulation/test_alarm_graphs.py",
    "conformance/test_handshake.py",
    "conformance/test_pages_browser.py",
    "bench/test_flow_live.py",
    "bench/test_attack.py",
    "bench/test_whatif_truth.py",
    "bench/test_windows.py",
)
"""A worker takes one file after the other. Who takes a long one last has the other wait for it, so
these go first. All others come behind, the more tests the earlier."""


def longest_match(file: Path, places: tuple[str, ...]) -> str:
    """The place that says most about `file` (below TESTS), "" if none does."""
    name = file.relative_to(TESTS).as_posix()
    fitting = [place for place in places if name == place or name.startswith(f"{place}/")]
    return max(fitting, key=len, default="")


def layer_of(file: Path) -> str:
    """The layer of a test file. Raises: KeyError if the table has no place for it."""
    return LAYER_OF[longest_match(file, tuple(LAYER_OF))]


def turn_of(file: Path, tests: int) -> tuple[int, int]:
    """Files with `tests` in them are run in the order of this."""
    name = file.relative_to(TESTS).as_posix()
    first = LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)
    return first, -tests


def is_in(layer: str, file: Path) -> bool:
    """Whether `layer` runs the tests of `file`."""
    own = layer_of(file)
    if layer not in (COMPILED, COMPILED_LONG):
        return own == layer
    found = longest_match(file, (*COMPILED_TOO, *NOT_COMPILED))
    if found in ("", *NOT_COMPILED) or own in ON_COMPILED:
        return False
    is_long = own == LONG and not longest_match(file, COMPILED_AT_ONCE)
    return is_long == (layer == COMPILED_LONG)
