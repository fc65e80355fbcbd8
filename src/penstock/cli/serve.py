"""`penstock serve`: a broker in the foreground until Ctrl-C."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import penstock
from penstock.base.config import LOG_FORMATS, LOG_LEVELS, Config
from penstock.base.limits import CORES, QUEUE_DEPTH_BYTES
from penstock.broker.actors.syncing import ALWAYS, MODES
from penstock.broker.session.access import is_loopback
from penstock.cli.cluster_options import cluster_options, ran_as_member, refuse_workers
from penstock.cli.management import management_options
from penstock.flow.profile import PROFILES
from penstock.server.boot.config_file import check_places, read_config
from penstock.server.machine.build import COMPILED, build_kind, build_words
from penstock.server.machine.machine import process_age_s
from penstock.server.machine.service_manager import tell_ready
from penstock.server.net.tls_endpoint import NEEDED

if TYPE_CHECKING:
    from penstock.server.boot.node import Node
    from penstock.server.workers.parent import Parent

NOT_KEPT = "memory only: queues and messages, durable ones too, are gone after a restart"
KEPT = "what is durable or persistent, policies, limits, users"
DATA_DIR = "penstock-data"
NAMED_MAX = 8
_NAKED = (
    " ! listens on {host} without TLS: passwords and messages can be read on the way; see "
    "--tls-cert, and --port -1"
)
SLOWER = "messages cost about five times as much (docs/install.md)"


@click.command()
@click.option("--host", default=None, help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", default=None, type=int, help="Port, 0 for a free one, -1 for none.  [default: 5672]"
)
@click.option(
    "--tls-port", default=None, type=int, help="Port for TLS, as --port.  [default: 5671]"
)
@click.option("--tls-cert", default=None, help="PEM file with the certificate, for TLS.")
@click.option("--tls-key", default=None, help="PEM file with its key, if it is another file.")
@click.option("--tls-ca", default=None, help="PEM file: clients must show certificates of these.")
@click.option("--memory", is_flag=True, help="Keep nothing on disk.")
@click.option("--data", default="", help="Directory for what is kept.  [default: ./penstock-data]")
@click.option("--sync", default=None, type=click.Choice(MODES), help="When messages are synced.")
@click.option("--config", "config_path", default="", help="TOML file with settings.")
@click.option("--profile", default=None, type=click.Choice(tuple(PROFILES)), help="Flow profile.")
@click.option(
    "--queue-depth",
    default=None,
    type=click.IntRange(QUEUE_DEPTH_BYTES.lowest, QUEUE_DEPTH_BYTES.highest),
    help="Depth mark of a queue, in bytes; 0 for a fifth of the memory mark.",
)
@click.option("--events", default=None, help="Directory for flow event files.")
@click.option(
    "--event-stream",
    default=None,
    is_flag=False,
    flag_value="/",
    metavar="[VHOST]",
    help="Flow events as a stream to read, amq.flow.telemetry.  [VHOST: /]",
)
@click.option(
    "--cores",
    default=None,
    type=click.IntRange(CORES.lowest, CORES.highest),
    help="Processes that virtual hosts are spread over.  [default: 1]",
)
@click.option("--control", default=None, help="Path of the control socket.")
@click.option("--log-file", default=None, help="File for the log.  [default: standard error]")
@click.option("--log-level", default=None, type=click.Choice(LOG_LEVELS), help="[default: info]")
@click.option("--log-format", default=None, type=click.Choice(LOG_FORMATS), help="[default: text]")
@cluster_options
@management_options
def serve(
    host: str | None,
    port: int | None,
    tls_port: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    memory: bool,
    data: str,
    sync: str | None,
    config_path: str,
    profile: str | None,
    queue_depth: int | None,
    events: str | None,
    event_stream: str | None,
    cores: int | None,
    control: str | None,
    log_file: str | None,
    log_level: str | None,
    log_format: str | None,
    in_cluster: dict[str, object],
    managing: dict[str, object],
) -> None:
    """Run a broker until Ctrl-C, SIGINT or SIGTERM.

    SIGHUP reads --config and the certificates of TLS again, and opens the log file anew.
    """

    given: dict[str, object] = {
        "host": host,
        "port": port,
        "tls_port": tls_port,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_ca": tls_ca,
        "tls_verify": None if tls_ca is None else NEEDED,
        "profile": profile,
        "queue_depth_bytes": queue_depth,
        "events_dir": events,
        "event_stream": event_stream,
        "cores": cores,
        "control_socket": control,
        "log_file": log_file,
        "log_level": log_level,
        "log_format": log_format,
        "store_sync": sync,
        "data_dir": "" if memory else data or None,
        **managing,
    }
    written = partial(_settings, config_path, given)
    config = written()
    if memory and data:
        raise click.UsageError("--memory and --data exclude each other")
    if ran_as_member(config, in_cluster, written):
        return
    _run(config, config_path, written)
    kept = f"kept in {config.data_dir}: {KEPT}" if config.data_dir else "nothing was kept"
    click.echo(f"stopped; {kept}")


def _run(config: Config, path: str, written: Callable[[], Config]) -> None:
    """One broker, or several, until a signal. path: of the file with settings; written: what it
    says now. Raises: OperatorError."""
    started = time.monotonic()
    if config.cores > 1:
        # The brokers are other processes, which import what they need side by side.
        from penstock.server.workers.parent import serve_workers

        asyncio.run(serve_workers(config, partial(_announce_workers, path, started), written))
        return
    refuse_workers(config)
    # The broker, which nobody waits for who asks for help only.
    from penstock.cli.token_maker import token_maker
    from penstock.server.boot.node import serve as run_node

    announce = partial(_announce, path, started)
    asyncio.run(run_node(config, announce, token_maker(config), written))


def _announce(path: str, started: float, node: "Node") -> None:
    """Say what runs, and where. path: of the file with settings; started: monotonic seconds."""
    seconds = max(process_age_s(), time.monotonic() - started)
    _say_what(path, node.config)
    _say_naked(node)
    _say_kept(node)
    _say_places(node, seconds)
    _say_events(node)
    sys.stdout.flush()
    tell_ready()


def _announce_workers(path: str, started: float, parent: "Parent") -> None:
    """As `_announce`, of several brokers."""
    seconds = max(process_age_s(), time.monotonic() - started)
    config = parent.config
    _say_what(path, config)
    if not is_loopback(config.host) and config.port >= 0:
        click.echo(_NAKED.format(host=config.host))
    if config.data_dir:
        click.echo(f" ✔ data     {config.data_dir}   keeps {KEPT}")
    else:
        click.echo(f" ! {NOT_KEPT}")
    ready = f"   ready in {seconds:.2f} s"
    for address in parent.ports.addresses():
        click.echo(f" ✔ broker   {address}{ready}")
        ready = ""
    where = f"--control {parent.path}" if config.control_socket else f"--port {parent.ports.port}"
    click.echo(f" ✔ control  {parent.path}   penstock why {where}")
    for one in parent.workers:
        vhosts = parent.placement.of(one.worker)
        shown = ", ".join(vhosts[:NAMED_MAX]) or "none yet"
        more = f" and {len(vhosts) - NAMED_MAX} more" if len(vhosts) > NAMED_MAX else ""
        click.echo(f" ✔ worker {one.worker} pid {one.pid}   virtual hosts: {shown}{more}")
    back = parent.restored
    if any(one.queues + one.exchanges + one.bindings for one in back):
        click.echo(
            f" ✔ restored {sum(one.queues for one in back)} queues, "
            f"{sum(one.exchanges for one in back)} exchanges, "
            f"{sum(one.bindings for one in back)} bindings, "
            f"{sum(one.messages for one in back)} messages"
        )
    sys.stdout.flush()
    tell_ready()


def _say_what(path: str, config: Config) -> None:
    """What this is, and what is wrong with the file at `path`, "" for none."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    click.echo(
        f"penstock {penstock.__version__} · AMQP 0-9-1 · Python {python} · {build_kind()} · "
        f"pid {os.getpid()}"
    )
    if path:
        _say_open(path, config)
    if build_kind() != COMPILED:
        click.echo(f" ! {build_words()}; {SLOWER}")


def _settings(path: str, given: dict[str, object]) -> Config:
    """The settings of the file at `path`, "" for none, and above them what is `given` on the
    command line, None for what is not. Raises: OperatorError."""
    config = read_config(path) if path else Config()
    said: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    check_places("command line", said)
    return replace(config, **{"data_dir": config.data_dir or DATA_DIR, **said})


def _say_places(node: "Node", seconds: float) -> None:
    """Where clients and commands come. seconds: how long it took until they may."""
    host, path = node.config.host, node.config.control_socket
    shown = f"[{host}]" if ":" in host else host
    ready = f"   ready in {seconds:.2f} s"
    for one in node.listeners:
        scheme = "amqp" if one.endpoint is None else "amqps"
        click.echo(f" ✔ broker   {scheme}://{shown}:{one.port}{ready}")
        ready = ""
    if node.control is not None:
        where = f"--control {path}" if path else f"--port {node.listeners[0].port}"
        click.echo(f" ✔ control  {node.control.path}   penstock why {where}")


def _say_naked(node: "Node") -> None:
    """What anybody in the network could do: read along, or log in with a known password."""
    config = node.config
    if is_loopback(config.host):
        return
    if node.listener is not None:
        click.echo(_NAKED.format(host=config.host))
    guest = node.broker.access.users.get("guest")
    if guest is not None and guest.is_loopback_only:
        click.echo(" ! guest logs in from this machine only; penstock users add makes others")
    elif guest is not None and guest.password == "guest":
        click.echo(" ! guest logs in from anywhere with the password guest: change it")


def _say_open(path: str, config: Config) -> None:
    """A file with secrets that others may read is named, as ssh does."""
    own = (config.tls_key_password, config.oauth_secret)
    mode = os.stat(path).st_mode & 0o777
    # The guest that is there without a file is no secret of one.
    users = () if config.users == Config().users else config.users
    if (any(own) or any(one.password for one in users)) and mode & 0o077:
        click.echo(
            f" ! {path} holds secrets, and others may read it (mode {mode:o}): chmod 600 {path}, "
            "or write password_hash (penstock users hash-password)"
        )


def _say_events(node: "Node") -> None:
    """Where flow events can be read."""
    writers = node.events
    if writers is not None and writers.file is not None:
        click.echo(f" ✔ events   {writers.file.path}")
    if writers is not None and writers.feed is not None:
        actor = writers.feed.actor
        click.echo(f" ✔ events   stream {actor.name} in vhost {actor.vhost}")


def _say_kept(node: "Node") -> None:
    """What outlives this run, and what came back from the one before."""
    if node.keeping is None:
        click.echo(f" ! {NOT_KEPT}")
        return
    back = node.keeping.restored
    click.echo(f" ✔ data     {node.keeping.directory.path}   keeps {KEPT}")
    rule = node.broker.stores.sync_rule
    click.echo(f" {'✔' if rule.mode == ALWAYS else '!'} sync     {rule.words()}")
    if back.queues + back.exchanges + back.bindings > 0:
        count = node.keeping.stores.count + node.keeping.streams.count
        click.echo(
            f" ✔ restored {back.queues} queues, {back.exchanges} exchanges, "
            f"{back.bindings} bindings, {count} messages"
        )
