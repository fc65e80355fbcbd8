"""Start, name and stop the brokers a benchmark compares, each on its own loopback port.

A target is a recipe (`Target`); starting it gives a `Broker`: one process of ours with its data in
a temporary directory, or somebody else's process that is only measured. Everything started here is
stopped by its process id. Nothing listens outside 127.0.0.1.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Final
from urllib.parse import parse_qs, urlsplit

LOOPBACK: Final = "127.0.0.1"
# Below those the system gives away, and those of the tests (tests/conformance/live).
PORTS: Final = range(10_000, 20_000)
START_SECONDS_MAX: Final = 120.0
STOP_SECONDS_MAX: Final = 20.0
SOURCE_DIR: Final = Path(__file__).resolve().parent.parent / "src"
RABBITMQ_SERVER: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
RABBITMQ_MISSING: Final = (
    "RabbitMQ is not installed, so there is nothing to compare with. On Debian or Ubuntu:\n"
    "  apt-get install --no-install-recommends rabbitmq-server   (as root; then stop the service\n"
    "  it starts: systemctl disable --now rabbitmq-server). Or give --rival amqp://host:port."
)


LAVINMQ_MISSING: Final = (
    "LavinMQ is not on the PATH, so it takes no part (--lavinmq PATH names its program; "
    "bench/README.md says how to build it)."
)
QUORUM: Final = "quorum"
LIMIT: Final = "limit"
"""No broker: the relay of limit.c, which does the least that one must do."""


class BrokerFailed(Exception):
    """A broker did not come up, with what it said on its way down."""


@dataclass(slots=True)
class Broker:
    """A running broker: where it listens and whose CPU time is its own.

    pids: processes whose CPU and memory count as the broker's; empty when not known.
    start_s: seconds from starting the process to its first AMQP answer; 0.0 when not ours.
    queue_type: see Target. is_tls: `port` speaks TLS.
    """

    name: str
    host: str
    port: int
    version: str
    pids: tuple[int, ...] = ()
    user: str = "guest"
    password: str = "guest"
    start_s: float = 0.0
    helpers: tuple["subprocess.Popen[bytes]", ...] = field(default=(), repr=False)
    directory: Path | None = None
    queue_type: str = ""
    is_tls: bool = False

    def rss_bytes(self) -> int:
        """Resident memory of the broker's processes, bytes; 0 when they are not known."""
        return sum(rss_bytes(pid) for pid in self.pids)

    def is_alive(self) -> bool:
        """False once a process started here has ended."""
        return all(helper.poll() is None for helper in self.helpers)

    def stop(self) -> None:
        """End the processes started here, youngest first, and delete their data."""
        for helper in reversed(self.helpers):
            end(helper)
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Target:
    """A recipe for a broker. kind: penstock, rabbitmq, lavinmq, limit or rival; where: interpreter,
    program or address; queue_type: what its queues are declared as, "" for its default: with one
    it takes part in the durable rows only; certificates: a directory of `make_certificates` where
    clients come through TLS, None for plain sockets; python: of Penstock, which it runs on, as
    3.14, 3.14t (without the global lock) or 3.14-jit."""

    name: str
    kind: str
    where: str = ""
    is_compiled: bool = False
    version: str = ""
    arguments: tuple[str, ...] = ()
    queue_type: str = ""
    certificates: Path | None = None
    python: str = ""

    def start(self) -> Broker:
        """Start it (a rival: only look it up) and wait until it answers AMQP.

        Raises: BrokerFailed.
        """
        if self.kind == "penstock":
            return start_penstock(self)
        if self.kind == "rabbitmq":
            return start_rabbitmq(self)
        if self.kind == "lavinmq":
            return start_lavinmq(self)
        if self.kind == LIMIT:
            return start_limit(self)
        return find_rival(self)


def rss_bytes(pid: int) -> int:
    """Resident memory of one process, bytes; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask the process to end, then insist."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def free_port() -> int:
    """A loopback port nobody uses at this moment, of those no outgoing connection is given before
    it is listened on. Raises: BrokerFailed."""
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise BrokerFailed(f"no port of {PORTS} is free")


def answers_amqp(host: str, port: int) -> bool:
    """Whether a protocol header is answered with a frame (connection.start)."""
    try:
        with socket.create_connection((host, port), timeout=5) as probe:
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            return probe.recv(1) == b"\x01"
    except OSError:
        return False


def await_amqp(process: "subprocess.Popen[bytes]", port: int, began_s: float, log: Path) -> float:
    """Seconds from `began_s` (monotonic) to the first AMQP answer.

    Raises: BrokerFailed when the process ends or stays silent.
    """
    while time.monotonic() - began_s < START_SECONDS_MAX:
        if answers_amqp(LOOPBACK, port):
            return time.monotonic() - began_s
        if process.poll() is not None:
            break
        # A poll interval, far below the start times that are told apart.
        time.sleep(0.005)
    said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    end(process)
    raise BrokerFailed(f"no AMQP answer on port {port}; the process said:\n{said}")


def launch(
    name: str,
    version: str,
    command: Sequence[str],
    environment: dict[str, str],
    port: int,
    directory: Path,
    helpers: tuple["subprocess.Popen[bytes]", ...] = (),
) -> Broker:
    """Run `command` in `directory`, wait for AMQP on `port`; clean up on failure.

    Raises: BrokerFailed.
    """
    log = directory / "output.log"
    began_s = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        start_s = await_amqp(process, port, began_s, log)
    except BrokerFailed as failure:
        for helper in helpers:
            end(helper)
        shutil.rmtree(directory, ignore_errors=True)
        raise BrokerFailed(f"{name}: {failure}") from failure
    return Broker(
        name,
        LOOPBACK,
        port,
        version,
        (process.pid,),
        start_s=start_s,
        helpers=(*helpers, process),
        directory=directory,
    )


# --- Penstock -------------------------------------------------------------------------------------


def penstock_target(python: str = "", arguments: tuple[str, ...] = ()) -> Target:
    """Penstock from this checkout (`python` empty), or as installed for that interpreter.

    python: a path, which may be relative, or a name on the PATH. Raises: BrokerFailed when there is
    no such program, or it cannot import penstock.
    """
    if python:
        found = shutil.which(python)
        if found is None:
            raise BrokerFailed(f"{python}: no such program")
        # Brokers are started in directories of their own. Links stay: they tell a venv.
        python = os.path.abspath(found)
    interpreter = python or sys.executable
    question = (
        "import sys, pathlib, penstock; "
        "from importlib import metadata; "
        "folder = pathlib.Path(penstock.__file__).parent; "
        "print(any(folder.rglob('*.so')) or any(folder.parent.glob('*__mypyc*.so'))); "
        "print(getattr(penstock, '__version__', '') or metadata.version('penstock-mq')); "
        "print('%d.%d.%d' % sys.version_info[:3]); "
        "jit = getattr(sys, '_jit', None) is not None and sys._jit.is_enabled(); "
        "print('%d.%d' % sys.version_info[:2] + sys.abiflags + '-jit' * jit)"
    )
    asked = subprocess.run(
        [interpreter, "-c", question],
        env=penstock_environment(not python, None),
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        check=False,
    )
    answer = asked.stdout.split()
    if asked.returncode != 0 or len(answer) != 4:
        # A checkout that was never installed has no version to tell, but can still be run.
        if python or "PackageNotFoundError" not in asked.stderr:
            raise BrokerFailed(f"{interpreter} cannot import penstock:\n{asked.stderr[-600:]}")
        version = "{}.{}.{}".format(*sys.version_info[:3])
        answer = [*answer[:1], "checkout", version, version.rpartition(".")[0]]
    is_compiled = answer[0] == "True"
    name = "penstock-compiled" if is_compiled else "penstock"
    version = f"{answer[1]} on Python {answer[2]}, {'compiled' if is_compiled else 'interpreted'}"
    return Target(name, "penstock", python, is_compiled, version, arguments, python=answer[3])


def penstock_environment(is_checkout: bool, cache: Path | None) -> dict[str, str]:
    """The environment of a Penstock process: our sources first for a checkout, never otherwise.

    Byte code is cached in `cache`, so that a second start is what a user sees and the checkout
    stays clean.
    """
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    }
    if is_checkout:
        environment["PYTHONPATH"] = str(SOURCE_DIR)
    if cache is not None:
        environment["PYTHONPYCACHEPREFIX"] = str(cache)
    return environment


def start_penstock(target: Target) -> Broker:
    """Start Penstock with one loopback listener, in memory unless its arguments name a directory.

    Raises: BrokerFailed.
    """
    directory = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    # One byte code cache for all starts of one benchmark process.
    cache = Path(tempfile.gettempdir()) / f"penstock-bench-cache-{os.getpid()}"
    port = free_port()
    command = [
        target.where or sys.executable,
        "-m",
        "penstock.cli.main",
        "serve",
        *(() if "--data" in target.arguments else ("--memory",)),
        "--port",
        str(port),
        *target.arguments,
    ]
    tls_port = free_port() if target.certificates else 0
    if target.certificates:
        files = (target.certificates / "server.pem", target.certificates / "server.key")
        command += ["--tls-port", str(tls_port), "--tls-cert", str(files[0])]
        command += ["--tls-key", str(files[1])]
    environment = penstock_environment(not target.where, cache)
    broker = launch(target.name, target.version, command, environment, port, directory)
    return through_tls(broker, tls_port)


def through_tls(broker: Broker, tls_port: int) -> Broker:
    """The same broker with its clients on the port for TLS; as it is where that is 0."""
    if tls_port:
        broker.port, broker.is_tls = tls_port, True
    return broker


def make_certificates(directory: Path) -> None:
    """Make an authority and a certificate for this host, as `penstock tls selfsigned` does.

    Raises: BrokerFailed, without the packages of the extra `tls` too.
    """
    command = [sys.executable, "-m", "penstock.cli.main", "tls", "selfsigned", str(directory)]
    made = subprocess.run(
        command,
        env=penstock_environment(True, None),
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise BrokerFailed(f"no certificates for --tls: {made.stderr.strip()}")


def forget_cache() -> None:
    """Delete the byte code cache of this process's Penstock starts."""
    cache = Path(tempfile.gettempdir()) / f"penstock-bench-cache-{os.getpid()}"
    shutil.rmtree(cache, ignore_errors=True)


# --- RabbitMQ -------------------------------------------------------------------------------------


def rabbitmq_target(queue_type: str = "") -> Target | None:
    """RabbitMQ as Debian packages it; None when it is not installed (say `RABBITMQ_MISSING`)."""
    if not RABBITMQ_SERVER.exists() or shutil.which("epmd") is None:
        return None
    homes = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    version = homes[-1].name.split("-", 1)[1] if homes else "unknown"
    releases = Path("/usr/lib/erlang/releases")
    otp = sorted(entry.name for entry in releases.glob("[0-9]*")) if releases.is_dir() else []
    return Target(
        f"rabbitmq-{queue_type}" if queue_type else "rabbitmq",
        "rabbitmq",
        version=f"{version}, OTP {otp[-1] if otp else '?'}",
        queue_type=queue_type,
    )


def start_rabbitmq(target: Target) -> Broker:
    """Start a RabbitMQ node of its own: own name, directories, ports, port mapper; no plugins.

    Every setting is the default. The Erlang process replaces the start script, so that its process
    id is the broker's.
    Raises: BrokerFailed.
    """
    directory = Path(tempfile.mkdtemp(prefix="rabbitmq-bench-"))
    port, mapper_port = free_port(), free_port()
    environment = rabbitmq_environment(directory, port, mapper_port)
    mapper = start_epmd(mapper_port, environment)
    tls_port = free_port() if target.certificates else 0
    if target.certificates:
        lines = [
            f"listeners.ssl.default = {LOOPBACK}:{tls_port}",
            f"ssl_options.cacertfile = {target.certificates / 'ca.pem'}",
            f"ssl_options.certfile = {target.certificates / 'server.pem'}",
            f"ssl_options.keyfile = {target.certificates / 'server.key'}",
        ]
        (directory / "settings.conf").write_text("\n".join(lines) + "\n", encoding="ascii")
    command = [str(RABBITMQ_SERVER)]
    broker = launch(target.name, target.version, command, environment, port, directory, (mapper,))
    broker.queue_type = target.queue_type
    return through_tls(broker, tls_port)


def start_rabbitmq_cluster(target: Target, count: int) -> list[Broker]:
    """Start that many nodes that know of each other, every other setting the default; the first
    one is stopped last, with the port mapper. Raises: BrokerFailed."""
    ports, mapper_port = [free_port() for _ in range(count)], free_port()
    cookie = SystemRandom().randbytes(16).hex()
    names = [f"bench{port}@localhost" for port in ports]
    lines = ["cluster_formation.peer_discovery_backend = classic_config"]
    lines += [
        f"cluster_formation.classic_config.nodes.{number} = {name}"
        for number, name in enumerate(names, start=1)
    ]
    brokers: list[Broker] = []
    environment: dict[str, str] = {}
    helpers: tuple[subprocess.Popen[bytes], ...] = ()
    try:
        for port in ports:
            directory = Path(tempfile.mkdtemp(prefix="rabbitmq-bench-"))
            environment = rabbitmq_environment(directory, port, mapper_port)
            (directory / ".erlang.cookie").write_text(cookie, encoding="ascii")
            (directory / ".erlang.cookie").chmod(0o400)
            (directory / "settings.conf").write_text("\n".join(lines) + "\n", encoding="ascii")
            helpers = () if brokers else (start_epmd(mapper_port, environment),)
            command = [str(RABBITMQ_SERVER)]
            brokers.append(
                launch(target.name, target.version, command, environment, port, directory, helpers)
            )
        asked = subprocess.run(
            [str(RABBITMQ_SERVER.with_name("rabbitmqctl")), "eval", "length(nodes())."],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.stdout.strip() != str(count - 1):
            raise BrokerFailed(f"{count} nodes are no cluster: {asked.stdout}{asked.stderr}")
    except BrokerFailed:
        for broker in reversed(brokers):
            broker.stop()
        raise
    return brokers


def start_epmd(port: int, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Erlang's port mapper, by which nodes find each other."""
    return subprocess.Popen(
        ["epmd", "-port", str(port), "-address", LOOPBACK],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def rabbitmq_environment(directory: Path, port: int, mapper_port: int) -> dict[str, str]:
    """Of one node: everything it has is in `directory`."""
    (directory / "enabled_plugins").write_text("[].\n", encoding="ascii")
    environment = {key: value for key, value in os.environ.items() if "RABBITMQ" not in key}
    environment.pop("NOTIFY_SOCKET", None)
    environment.update(
        HOME=str(directory),
        ERL_EPMD_PORT=str(mapper_port),
        ERL_EPMD_ADDRESS=LOOPBACK,
        RABBITMQ_NODENAME=f"bench{port}@localhost",
        RABBITMQ_NODE_IP_ADDRESS=LOOPBACK,
        RABBITMQ_NODE_PORT=str(port),
        RABBITMQ_DIST_PORT=str(free_port()),
        RABBITMQ_MNESIA_BASE=str(directory / "mnesia"),
        RABBITMQ_LOG_BASE=str(directory / "log"),
        RABBITMQ_ENABLED_PLUGINS_FILE=str(directory / "enabled_plugins"),
        RABBITMQ_CONF_ENV_FILE=str(directory / "absent-env.conf"),
        RABBITMQ_CONFIG_FILE=str(directory / "settings"),
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}",
        # The start script then execs Erlang instead of waiting for it in a shell.
        RUNNING_UNDER_SYSTEMD="true",
    )
    return environment


# --- LavinMQ --------------------------------------------------------------------------------------


def lavinmq_target(program: str = "") -> Target | None:
    """LavinMQ's program, found on the PATH when `program` is empty; None when it is not there.

    Raises: BrokerFailed when a program that was named does not say its version.
    """
    found = program or shutil.which("lavinmq")
    if not found:
        return None
    try:
        asked = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise BrokerFailed(f"--lavinmq {found}: {error.strerror}") from error
    if asked.returncode != 0 or not asked.stdout.strip():
        raise BrokerFailed(f"--lavinmq {found} does not say its version:\n{asked.stderr[-300:]}")
    version = asked.stdout.split()[-1]
    return Target("lavinmq", "lavinmq", str(Path(found).resolve()), version=version)


def start_lavinmq(target: Target) -> Broker:
    """Start LavinMQ with one setting that is not its default: it sends small answers at once, as
    the others do, instead of waiting for the peer's acknowledgement of the last packet.

    Raises: BrokerFailed.
    """
    directory = Path(tempfile.mkdtemp(prefix="lavinmq-bench-"))
    port, http_port = free_port(), free_port()
    settings = directory / "lavinmq.ini"
    settings.write_text("[amqp]\ntcp_nodelay = true\n", encoding="ascii")
    command = [target.where, "-c", str(settings), "-D", str(directory / "data"), "-b", LOOPBACK]
    command += ["-p", str(port), f"--http-port={http_port}"]
    return launch(target.name, target.version, command, dict(os.environ), port, directory)


# --- the limit ------------------------------------------------------------------------------------


def limit_target(program: Path) -> Target:
    """The relay that was compiled to `program`."""
    return Target(LIMIT, LIMIT, str(program), version="the relay of bench/limit.c")


def start_limit(target: Target) -> Broker:
    """Start the relay, with its log in a directory of its own.

    Raises: BrokerFailed.
    """
    directory = Path(tempfile.mkdtemp(prefix="limit-bench-"))
    port = free_port()
    command = [target.where, str(port), str(directory)]
    return launch(target.name, target.version, command, dict(os.environ), port, directory)


# --- any other broker -----------------------------------------------------------------------------


def rival_target(address: str) -> Target:
    """A broker that already runs: amqp://[user:password@]host:port[?name=X&pid=N].

    Raises: BrokerFailed when the address has no host or port.
    """
    parts = urlsplit(address)
    if parts.scheme != "amqp" or not parts.hostname or not parts.port:
        raise BrokerFailed(
            f"--rival wants amqp://[user:password@]host:port[?name=X&pid=N], not {address!r}"
        )
    name = parse_qs(parts.query).get("name", [f"{parts.hostname}:{parts.port}"])[0]
    return Target(name, "rival", address, version="unknown")


def find_rival(target: Target) -> Broker:
    """Look up a broker that already runs.

    Raises: BrokerFailed when it does not answer.
    """
    parts = urlsplit(target.where)
    host, port = parts.hostname or LOOPBACK, parts.port or 5672
    if not answers_amqp(host, port):
        raise BrokerFailed(f"{target.name}: no AMQP answer on {host}:{port}")
    pids = tuple(int(pid) for pid in parse_qs(parts.query).get("pid", []))
    return Broker(
        target.name,
        host,
        port,
        target.version,
        pids,
        parts.username or "guest",
        parts.password or "guest",
    )
