"""The questions of the control socket, asked without one."""

import asyncio
from collections.abc import Generator
from typing import cast

from penstock.base.recent_lines import RecentLines
from penstock.base.steps import whole
from penstock.broker.broker import Broker
from penstock.server.control.questions import Questions
from penstock.server.recorder.service import RecorderService


def questions(broker: Broker, recent: RecentLines | None = None) -> Questions:
    """They are not given a loop: nothing is recorded in rounds. recent: lines of the log."""
    service = RecorderService(broker, cast(asyncio.AbstractEventLoop, None), "boot")
    return Questions(broker, service, lambda: None, lambda: "", recent=recent)


def asked(broker: Broker, fields: dict[str, object]) -> object:
    """The whole answer. Raises: OperatorError."""
    reply = questions(broker).answer(fields)
    return whole(reply) if isinstance(reply, Generator) else reply
