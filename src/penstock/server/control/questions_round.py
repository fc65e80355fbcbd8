"""What the control socket answers to {"op": "record", "do": "round"}: the broker is looked at now.

The flight recorder looks once a second, and answers speak of its last look. Who wants to know what
has happened just now asks for a look first. Every look pushes an old one out of the history, so
there are at most five a second of these, and who asks sooner waits.
"""

from collections.abc import Callable
from typing import Final

from penstock.broker.actors.cooperative import Steps
from penstock.server.control.request import Request
from penstock.server.recorder.service import RecorderService

GAP_NS: Final = 200_000_000
LOOK_S: Final = 0.001
NS_PER_S: Final = 1_000_000_000


def round_question(service: RecorderService) -> Callable[[Request], Steps[dict[str, object]]]:
    """The question, asked of `service`."""

    def look(request: Request) -> Steps[dict[str, object]]:
        clock = request.broker.clock
        newest_ns = service.history.newest_ns()
        while newest_ns is not None and clock.monotonic_ns() - newest_ns < GAP_NS:
            yield (newest_ns + GAP_NS - clock.monotonic_ns()) / NS_PER_S
            newest_ns = service.history.newest_ns()
        while service.is_looking():
            yield LOOK_S
        service.tick()
        while service.is_looking():
            yield LOOK_S
        return {"rounds": service.rounds}

    return look
