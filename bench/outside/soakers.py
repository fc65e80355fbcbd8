"""Clients of a soak, each a process of its own that works until it is told to end.

    python bench/outside/soakers.py KIND PORT TLS_PORT CA USER PASSWORD

It ends when its standard input does, and prints how often it went through its work. Each time it
connects anew, declares, publishes, takes, settles and goes, so that whatever a connection, channel,
queue, consumer or message leaves behind adds up.
"""

import asyncio
import contextlib
import importlib
import itertools
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import aio_pika
import pika

from bench.outside.wire import Connection, Loop, publish_bytes

kombu: Any = importlib.import_module("kombu")
"""Its types do not say what it exports."""
COUNT: Final = 50
BODY: Final = b"x" * 1000


class Where:
    """The broker, as the command line has it; user: who the client is."""

    def __init__(self, port: str, tls_port: str, ca: str, user: str, password: str) -> None:
        self.port, self.tls_port, self.ca = int(port), int(tls_port), ca
        self.user, self.password = user, password

    def url(self) -> str:
        return f"amqp://{self.user}:{self.password}@127.0.0.1:{self.port}/%2F"

    def pika(self, is_tls: bool) -> pika.BlockingConnection:
        options = None
        if is_tls:
            context = ssl.create_default_context(cafile=self.ca)
            options = pika.SSLOptions(context, "localhost")
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                host="localhost" if is_tls else "127.0.0.1",
                port=self.tls_port if is_tls else self.port,
                credentials=pika.PlainCredentials(self.user, self.password),
                ssl_options=options,
            )
        )


def by_pika(where: Where, is_tls: bool) -> None:
    """A durable queue, confirms, a consumer that acknowledges."""
    with contextlib.closing(where.pika(is_tls)) as connection:
        channel: Any = connection.channel()
        name = channel.queue_declare("", exclusive=True).method.queue
        lasting = f"lasting-{'tls' if is_tls else 'plain'}"
        channel.queue_declare(lasting, durable=True)
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=10)
        persistent = pika.BasicProperties(delivery_mode=2, headers={"a": 1})
        for queue in (name, lasting):
            for _ in range(COUNT):
                channel.basic_publish("", queue, BODY, persistent)
            messages = channel.consume(queue, inactivity_timeout=5)
            for method, _, _ in itertools.islice(messages, COUNT):
                if method is None:
                    break
                channel.basic_ack(method.delivery_tag)
            channel.cancel()


def tls(where: Where) -> None:
    by_pika(where, True)


def plain(where: Where) -> None:
    by_pika(where, False)


def streams(where: Where) -> None:
    """Appends to a stream that keeps a megabyte, and reads it from the first offset on."""
    with contextlib.closing(where.pika(True)) as connection:
        channel: Any = connection.channel()
        arguments = {
            "x-queue-type": "stream",
            "x-max-length-bytes": 1_000_000,
            "x-stream-max-segment-size-bytes": 200_000,
        }
        channel.queue_declare("stream", durable=True, arguments=arguments)
        channel.confirm_delivery()
        for _ in range(COUNT):
            channel.basic_publish("", "stream", BODY)
        channel.basic_qos(prefetch_count=COUNT)
        tags: list[int] = []
        channel.basic_consume(
            "stream",
            lambda _, method, *__: tags.append(method.delivery_tag),
            arguments={"x-stream-offset": "first"},
        )
        until = time.monotonic() + 5
        while len(tags) < COUNT and time.monotonic() < until:
            connection.process_data_events(0.1)
        channel.basic_ack(tags[-1], multiple=True)


def asyncio_client(where: Where) -> None:
    """aio-pika with a quorum queue and dead letters."""

    async def once() -> None:
        connection = await aio_pika.connect(where.url())
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(10)
            dead = await channel.declare_queue("dead", arguments={"x-max-length": 100})
            queue = await channel.declare_queue(
                "quorum",
                durable=True,
                arguments={
                    "x-queue-type": "quorum",
                    "x-dead-letter-exchange": "",
                    "x-dead-letter-routing-key": dead.name,
                },
            )
            for _ in range(COUNT):
                await channel.default_exchange.publish(
                    aio_pika.Message(BODY, delivery_mode=2), queue.name
                )
            async with queue.iterator(timeout=5) as messages:
                taken = 0
                async for message in messages:
                    taken += 1
                    if taken % 10 == 0:
                        await message.reject(requeue=False)
                    else:
                        await message.ack()
                    if taken == COUNT:
                        break

    asyncio.run(once())


def celery_like(where: Where) -> None:
    """kombu, as Celery has it: a topic exchange, pooled producers, a consumer with a callback."""
    exchange = kombu.Exchange("soak", "topic", durable=False, auto_delete=True)
    queue = kombu.Queue("kombu", exchange, "a.#", auto_delete=True)
    got: list[object] = []

    def came(body: object, message: Any) -> None:
        got.append(body)
        message.ack()

    with (
        kombu.Connection(where.url()) as connection,
        connection.Consumer([queue], callbacks=[came]),
        connection.Producer() as producer,
    ):
        for number in range(COUNT):
            producer.publish({"n": number}, exchange=exchange, routing_key="a.b")
        while len(got) < COUNT:
            connection.drain_events(timeout=10)


def rough(where: Where) -> None:
    """Goes without a word: in the middle of a handshake, of a message, of a delivery."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", where.port), 5).sendall(b"AMQP\0\0\x09\x01")
        socket.create_connection(("127.0.0.1", where.tls_port), 5).sendall(b"\x16\x03\x01\x02\x00")
    loop = Loop()
    link = Connection(loop, where.port, user=where.user, password=where.password)
    link.channel(1)
    link.declare("left", arguments={"x-max-length": 100})
    for _ in range(COUNT):
        link.send(publish_bytes(1, "", "left", BODY))
    link.send(publish_bytes(1, "", "left", BODY)[:-400])
    loop.run(0.05)
    link.drop()
    loop.close()
    time.sleep(0.2)


KINDS: Final[dict[str, Callable[[Where], None]]] = {
    one.__name__: one for one in (tls, plain, streams, asyncio_client, celery_like, rough)
}


def main() -> None:
    kind = KINDS[sys.argv[1]]
    where = Where(*sys.argv[2:7])
    is_over = threading.Event()

    def listen() -> None:
        select.select([sys.stdin], [], [])
        is_over.set()

    threading.Thread(target=listen, daemon=True).start()
    done = refused = 0
    while not is_over.is_set():
        try:
            kind(where)
        except Exception as error:
            # Its user is deleted and made again under it: that is what this is about.
            if refused == 0:
                print(f"{sys.argv[1]}: {type(error).__name__}: {error}", file=sys.stderr)
            refused += 1
            time.sleep(0.2)
        else:
            done += 1
    print(done, refused, flush=True)


if __name__ == "__main__":
    main()
