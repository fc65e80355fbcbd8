"""What a measurement was taken on: every field has an answer, also where the system has none."""

from pathlib import Path

from bench.machine import available_mb, describe, file_system, first_line, sync_us


def test_a_line_is_found_by_its_key(tmp_path: Path) -> None:
    file = tmp_path / "info"
    file.write_text("other: 1\nmodel name\t: X 2.0: fast\n", encoding="utf-8")
    assert first_line(str(file), "model name") == "X 2.0: fast"
    assert first_line(str(file), "absent") == "unknown"
    assert first_line(str(tmp_path / "no-file"), "model name") == "unknown"


def test_the_machine_is_described() -> None:
    assert all(value is not None for value in describe().values())
    assert available_mb() > 0
    assert sync_us(count=3) > 0


def test_a_file_system_is_that_of_the_nearest_mount() -> None:
    assert file_system("/proc/self").startswith("/proc/self on proc")
    assert " on " in file_system("/no/such/place")
