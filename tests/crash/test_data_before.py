"""A data directory and definitions that the build before the house had rooms has written.

The directory was stopped in order once, used again and then killed. It is never written again; a
build that changes what is on the disk adds one.
"""

import json
import tarfile
from pathlib import Path

import pika

from tests.crash.live import served
from tests.definitions import export_definitions, import_definitions
from tests.unit.broker.peer import Bed

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
QUEUES = {
    "plain": [
        *(f"plain {number}" for number in range(6, 30)),
        *(f"both {number}" for number in range(6)),
        *(f"second life {number}" for number in range(3)),
    ],
    "urgent": [f"both {number}" for number in (5, 4, 3, 2, 1, 0)],
    "quorum": [f"quorum {number}" for number in range(5)],
    "limited": [f"limited {number}" for number in range(4)],
    "dying": ["dying 1", "dying 2"],
    "dead": ["dying 0", "last"],
}


def test_its_messages_are_all_there(tmp_path: Path) -> None:
    with tarfile.open(FIXTURES / "data-before-rooms.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    with served(tmp_path / "data", tmp_path) as broker:
        link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
        channel = link.channel()
        for queue, wanted in QUEUES.items():
            found = []
            while True:
                method, _, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    break
                found.append(body.decode())
            assert found == wanted, queue
        channel.basic_qos(prefetch_count=100)
        offset = {"x-stream-offset": "first"}
        read = channel.consume("stream", arguments=offset, inactivity_timeout=30)
        stream = [next(read)[2].decode() for _ in range(12)]
        assert stream == [f"stream {number}" for number in range(12)]
        channel.cancel()
        other = channel.connection.channel()
        other.queue_declare("plain", passive=True)
        other.exchange_declare("late", "x-delayed-message", passive=True)
        link.close()


def test_its_definitions_come_back_as_they_were() -> None:
    text = (FIXTURES / "definitions-before-rooms.json").read_text(encoding="utf-8")
    wanted = json.loads(text)
    bed = Bed()
    assert import_definitions(bed.broker, wanted).counts["queues"] == 8
    version = wanted["product_version"]
    found = json.loads(json.dumps(export_definitions(bed.broker, version)[0]))
    # Made from the password that the configuration gives, with salt.
    for definitions in (found, wanted):
        definitions["users"][0]["password_hash"] = ""
    assert found == wanted
