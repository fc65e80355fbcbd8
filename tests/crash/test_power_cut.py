"""The power goes while publishes are under way: rows F1, F3, F6, F7 and F17 of the catalogue.

PENSTOCK_POWER_CUTS says how many cuts; a few by default, because each is two starts of a broker.
"""

import contextlib
import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.crash.live import Lost, Publisher, recovered, served
from tests.crash.mounts import NoMount, cut_disk, small_disk
from tests.crash.test_kill import body, check_back

CUTS = int(os.environ.get("PENSTOCK_POWER_CUTS", "3"))
NO_ALARM = 'disk_free_min = "0"\n'
"""Or the disk alarm stops publishers long before the disk is full."""


def test_f01_f06_f07_power_cuts(tmp_path: Path) -> None:
    """Whatever the client had read the confirm of before the cut is there after it. A sync that is
    under way at the cut may be answered although nothing reached the disk, so confirms read after
    the cut do not count."""
    chance = Random(11)
    try:
        with cut_disk(tmp_path, 512) as disk:
            said = 0
            confirmed: set[int] = set()
            for _ in range(CUTS):
                data = disk.path / "data"
                with served(data, tmp_path) as broker:
                    publisher = Publisher(broker)
                    publisher.declare("d1", "d2")
                    first = said
                    for _ in range(100 + chance.randrange(300)):
                        publisher.publish("amq.fanout", "", body(said))
                        said += 1
                    before = set(publisher.confirmed)
                    disk.cut()
                    with contextlib.suppress(Lost):
                        publisher.finish()
                    publisher.close()
                    broker.kill()
                assert before, "nothing was confirmed before the cut"
                confirmed |= {first + number for number in before}
                disk.unmount()
                disk.mount()
            with served(disk.path / "data", tmp_path) as broker:
                check_back(broker, "d1", range(said), confirmed)
                check_back(broker, "d2", range(said), confirmed)
                assert broker.stop() == 0
    except NoMount as reason:
        pytest.skip(f"NO POWER CUTS HERE: {reason}")


def test_f03_f17_a_full_disk_stops_publishers_and_nobody_else(tmp_path: Path) -> None:
    """F3, F17: a disk filled to the last byte: what was confirmed is served and can be answered;
    publishes wait, and go on when there is room again, without a restart; a start on the full disk
    works, too."""
    try:
        with small_disk(tmp_path, 48) as path:
            data = path / "data"
            filler = path / "filler"
            with served(data, tmp_path, settings=NO_ALARM) as broker:
                publisher = Publisher(broker)
                publisher.declare("d1")
                for number in range(50):
                    publisher.publish("", "d1", body(number))
                publisher.finish()
                _fill(filler)
                publisher.publish_alone("", "d1", body(50))
                for number in range(51, 60):
                    publisher.publish_alone("", "d1", body(number))
                time.sleep(1.0)
                publisher.read_what_is_there()
                # The last page of the file may have had room for one or two more.
                assert 50 <= len(publisher.confirmed) < 55, "confirmed on a full disk"
                bodies = recovered(broker, "d1", 50)
                assert bodies == [body(number) for number in range(50)]
                filler.unlink()
                publisher.finish()
                assert len(publisher.confirmed) == 60
                assert "is full" in broker.errors.read_text()
                _fill(filler)
                publisher.close()
                broker.kill()
            with served(data, tmp_path, settings=NO_ALARM) as broker:
                back = recovered(broker, "d1")
                assert set(back) >= {body(number) for number in range(50, 60)}
                filler.unlink()
    except NoMount as reason:
        pytest.skip(f"NO SMALL DISKS HERE: {reason}")


def _fill(path: Path) -> None:
    """Take every byte there is."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
