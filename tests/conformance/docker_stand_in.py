"""Answers the few Docker requests aio-pika's suite makes: its "container" is the live broker.

The suite starts RabbitMQ in a container through the HTTP interface named by `DOCKER_HOST` and
asks which host port became the container's 5672. Here nothing is started: the answer is the port
of the broker under test, and the TLS port is one nobody listens on.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.conformance.live import Broker, free_port


@contextmanager
def docker_stand_in(broker: Broker) -> Iterator[str]:
    """Serve on a loopback port; gives the value for `DOCKER_HOST`."""
    ports = {"5672/tcp": broker.port, "5671/tcp": free_port()}
    bindings = {
        name: [{"HostIp": "127.0.0.1", "HostPort": str(port)}] for name, port in ports.items()
    }
    inspected = json.dumps({"Id": "broker", "NetworkSettings": {"Ports": bindings}}).encode()

    class Handler(BaseHTTPRequestHandler):
        """Says yes to everything, and every answer describes the one container."""

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(inspected)))
            self.end_headers()
            self.wfile.write(inspected)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the requests are no news."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="docker stand-in")
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
