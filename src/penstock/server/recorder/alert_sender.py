"""Sends alerts to an administrator: by a command, by an HTTP request, or both.

    command   alert_command is started without a shell; the alert is its input, as JSON; its title
              and text are PENSTOCK_ALERT and PENSTOCK_ALERT_TEXT in its environment
    webhook   alert_webhook is sent the same JSON by POST; any answer but 2xx is a failure, also one
              that leads elsewhere; no proxy is asked
Everything that can wait happens on one thread of its own: neither a command that hangs nor a
receiver that is away keeps the broker from anything, and after alert_timeout_ms they are given up.
What fails is a line in the log. The address of a webhook is often a secret, so neither the log nor
a flight record has it.
"""

import json
import os
import shlex
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import penstock
from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.alarm.alerts import Alert, AlertPacer, tell_nobody
from penstock.broker.broker import Broker
from penstock.explain.asking import Question, answering
from penstock.telemetry.flight import FlightHistory

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
SAID_BYTES: Final = 300
"""Of what a failing command says, for the log."""


class _NoRedirects(HTTPRedirectHandler):
    """An alert goes where it was configured to go, and nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class AlertTargets:
    """command: its words, () for none; webhook: "" for none; timeout_s: for each of the two.
    Raises: OperatorError for what cannot be one."""

    command: tuple[str, ...]
    webhook: str
    timeout_s: float

    @staticmethod
    def of(config: Config) -> "AlertTargets":
        try:
            command = tuple(shlex.split(config.alert_command))
        except ValueError as error:
            raise OperatorError(f"alert_command: {error} in {config.alert_command!r}") from error
        parts = urlsplit(config.alert_webhook)
        is_web = parts.scheme in ("http", "https") and parts.hostname
        if config.alert_webhook != "" and not is_web:
            raise OperatorError("alert_webhook: write an address as http://host:port/path")
        return AlertTargets(command, config.alert_webhook, config.alert_timeout_ms / 1000)

    def is_any(self) -> bool:
        """Whether alerts are wanted."""
        return bool(self.command) or self.webhook != ""


def send_alert(targets: AlertTargets, title: str, text: str, body: bytes) -> list[str]:
    """Send to both; what went wrong, a line each. Takes twice `timeout_s` at the longest."""
    wrong = []
    if targets.command:
        wrong.append(_run(targets, title, text, body))
    if targets.webhook != "":
        wrong.append(_post(targets, body))
    return [one for one in wrong if one != ""]


def _run(targets: AlertTargets, title: str, text: str, body: bytes) -> str:
    name = targets.command[0]
    environment = os.environ | {"PENSTOCK_ALERT": title, "PENSTOCK_ALERT_TEXT": text}
    try:
        ran = subprocess.run(
            targets.command,
            input=body,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=targets.timeout_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{name} was killed after {targets.timeout_s:g} s"
    except OSError as error:
        return f"{name} cannot be run: {error.strerror}"
    if ran.returncode == 0:
        return ""
    said = ran.stderr[-SAID_BYTES:].decode("utf-8", "replace").strip()
    return f"{name} ended with {ran.returncode}{': ' if said else ''}{said}"


def _post(targets: AlertTargets, body: bytes) -> str:
    request = Request(
        targets.webhook,
        data=body,
        headers={
            "Content-Type": "application/json",
            "User-Agent": f"penstock/{penstock.__version__}",
        },
        method="POST",
    )
    opener = build_opener(ProxyHandler({}), _NoRedirects())
    try:
        with opener.open(request, timeout=targets.timeout_s) as answer:
            status = answer.status
    except HTTPError as error:
        with error:
            status = error.code
    except URLError as error:
        return f"the webhook cannot be reached: {error.reason}"
    except (OSError, ValueError) as error:
        return f"the webhook cannot be reached: {error!r}"
    return "" if 200 <= status < 300 else f"the webhook answered {status}"


class AlertSender:
    """sent: how many have been given to the thread. Raises: OperatorError for targets that are
    none. history: what `why memory` is answered from."""

    def __init__(self, broker: Broker, history: FlightHistory, boot_id: str) -> None:
        self.broker = broker
        self.history = history
        self.boot_id = boot_id
        self.targets = AlertTargets.of(broker.config)
        self.pacer = AlertPacer(broker.config.alert_pause_ms * NS_PER_MS)
        self.sent = 0
        self._thread = ThreadPoolExecutor(1, "penstock-alert")
        self._future: Future[list[str]] | None = None
        if self.targets.is_any():
            broker.alarm_manager.tell = self.pacer.note

    def sending(self) -> Steps[None]:
        """A round of snapshots is complete: what has happened since the last one is sent now. In
        steps, which end before the next round begins."""
        self._look_at_the_last()
        alert = self.pacer.due(self.broker.clock.monotonic_ns(), self._future is None)
        if alert is None:
            return
        found = yield from self.body(alert)
        body = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
        self.sent += 1
        self._future = self._thread.submit(send_alert, self.targets, alert.title, alert.text, body)

    def body(self, alert: Alert) -> Steps[dict[str, object]]:
        """What is sent, see docs/alarms.md, in steps."""
        wall_ns = self.broker.clock.wall_ns()
        found: dict[str, object] = {
            "alert": alert.title,
            "text": alert.text,
            "node": os.uname().nodename,
            "boot_id": self.boot_id,
            "time": datetime.fromtimestamp(wall_ns / NS_PER_S, UTC).isoformat(),
            "withheld": alert.withheld,
        }
        try:
            answer = yield from answering(self.history, Question("memory"))
        except OperatorError as error:
            return found | {"why_memory": None, "why_memory_text": str(error)}
        return found | {"why_memory": answer.explanation, "why_memory_text": answer.text}

    def _look_at_the_last(self) -> None:
        future = self._future
        if future is None or not future.done():
            return
        self._future = None
        error = future.exception()
        if error is not None:
            self.broker.log.error("an alert was not sent", error)
            return
        for one in future.result():
            self.broker.log.warning(f"an alert was not delivered: {one}")

    def close(self) -> None:
        """Send nothing any more; what is under way ends by its timeout."""
        self.broker.alarm_manager.tell = tell_nobody
        self._thread.shutdown(wait=False, cancel_futures=True)
