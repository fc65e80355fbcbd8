"""What lies in packaging/: it is read by the programs it is for, as far as they are here, and the
commands in it are run on a real broker."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.server.boot.config_file import read_config
from penstock.server.boot.log_lines import LineLog
from scripts.config_example import OF_A_SERVICE, TABLES, page
from tests.architecture.house import REPOSITORY
from tests.patience import PATIENCE_S, until

PACKAGING = REPOSITORY / "packaging"
DOCKERFILE = (PACKAGING / "docker" / "Dockerfile").read_text(encoding="utf-8")
UNIT = PACKAGING / "systemd" / "penstock.service"
PENSTOCK = str(Path(sys.executable).parent / "penstock")
ASKED = ["penstock", "status", "--control", OF_A_SERVICE["control_socket"]]


def instruction(name: str) -> list[str]:
    """The words of the Dockerfile's last instruction called `name`."""
    found: list[str] = json.loads(re.findall(rf"^\s*{name} (\[.*\])$", DOCKERFILE, re.M)[-1])
    return found


def manifests() -> dict[str, dict[str, Any]]:
    text = (PACKAGING / "kubernetes" / "penstock.yaml").read_text(encoding="utf-8")
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


# -- the example of a configuration --------------------------------------------------------------


def test_the_example_is_up_to_date() -> None:
    written = (PACKAGING / "penstock.toml").read_text(encoding="utf-8")
    assert written == page(), "run: make docs"


def test_the_example_is_the_default_but_for_where_things_are() -> None:
    assert read_config(str(PACKAGING / "penstock.toml")) == replace(
        Config(),
        **OF_A_SERVICE,  # type: ignore[arg-type]  # both are texts
    )


def test_every_key_is_in_the_example_and_is_read_with_its_default(tmp_path: Path) -> None:
    lines = page().splitlines()
    keys = [
        line.lstrip("#").partition(" = ")[0] for line in lines if re.match(r"#?[a-z_]+ = ", line)
    ]
    own = [one.name for one in fields(Config) if one.name not in TABLES]
    assert [key for key in keys if key in own] == own
    whole = tmp_path / "penstock.toml"
    before = page().partition("\n# -- Tables")[0]
    whole.write_text(re.sub(r"(?m)^#([a-z_]+ = )", r"\1", before), encoding="utf-8")
    assert read_config(str(whole)) == read_config(str(PACKAGING / "penstock.toml"))


@pytest.mark.parametrize("key", TABLES)
def test_the_example_of_a_table_is_read(tmp_path: Path, key: str) -> None:
    one = tmp_path / "penstock.toml"
    # The hash of a password is made for one, and not written down.
    text = TABLES[key].replace('password_hash = "..."', 'password = "x"')
    one.write_text(f"[[{key}]]\n{text}\n", encoding="utf-8")
    assert getattr(read_config(str(one)), key) != getattr(Config(), key)


# -- a service -----------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # It looks for the program.
    text = UNIT.read_text(encoding="utf-8").replace("/opt/penstock/bin/penstock", PENSTOCK)
    unit.write_text(text, encoding="utf-8")
    for words in (["verify"], ["security", "--offline=true", "--threshold=20"]):
        done = subprocess.run(
            ["systemd-analyze", *words, str(unit)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 and done.stderr == "", done.stdout[-300:] + done.stderr


def test_commands_of_the_image_serve_say_that_they_are_ready_and_well(tmp_path: Path) -> None:
    """ENTRYPOINT with CMD, as the container begins, and its HEALTHCHECK; only places differ."""
    config, control = tmp_path / "penstock.toml", tmp_path / "control.sock"
    text = (PACKAGING / "penstock.toml").read_text(encoding="utf-8")
    text = text.replace("#port = 5672", "port = 0")
    text = text.replace(OF_A_SERVICE["data_dir"], str(tmp_path / "data"))
    config.write_text(text.replace(OF_A_SERVICE["control_socket"], str(control)), encoding="utf-8")
    places = {
        "penstock": PENSTOCK,
        "/etc/penstock/penstock.toml": str(config),
        OF_A_SERVICE["control_socket"]: str(control),
    }
    begins = [places.get(word, word) for word in instruction("ENTRYPOINT") + instruction("CMD")]
    assert instruction("HEALTHCHECK .*\\n\\s*CMD") == ASKED
    check = [places.get(word, word) for word in ASKED]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "PATH": ""}
        with subprocess.Popen(
            begins, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as broker:
            assert manager.recv(64) == b"READY=1"
            well = subprocess.run(check, capture_output=True, text=True, check=False)
            broker.send_signal(signal.SIGTERM)
            said, _ = broker.communicate(timeout=PATIENCE_S)
    assert well.returncode == 0 and "profile      penstock" in well.stdout, well.stderr
    assert broker.returncode == 0 and "amqp://0.0.0.0:" in said
    # The guest of every broker is no secret of the file; commands are told where to ask.
    assert "holds secrets" not in said and f"penstock why --control {control}" in said
    gone = subprocess.run(check, capture_output=True, text=True, check=False)
    assert gone.returncode == 2 and "no broker answers at" in gone.stderr


def test_a_service_manager_that_has_gone_is_no_reason_not_to_serve(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from penstock.server.machine.service_manager import tell_ready

    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    tell_ready()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0penstock-{tmp_path.name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@penstock-{tmp_path.name}")
        tell_ready()
        until(lambda: manager.recv(64) == b"READY=1", "told")


# -- containers ----------------------------------------------------------------------------------


def test_containers_agree_on_the_user_the_places_and_the_check(tmp_path: Path) -> None:
    user = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.M)[-1]
    made = manifests()
    pod = made["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert str(pod["securityContext"]["runAsUser"]) == user and f"--uid {user} " in DOCKERFILE
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["exec"]["command"] == ASKED
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert mounts.keys() == {"/var/lib/penstock", "/run/penstock", "/etc/penstock"}
    claims = {
        one["metadata"]["name"] for one in made["StatefulSet"]["spec"]["volumeClaimTemplates"]
    }
    assert set(mounts.values()) == claims | {one["name"] for one in pod["volumes"]}
    assert container["args"] == instruction("CMD")[:3]
    config = tmp_path / "penstock.toml"
    config.write_text(made["ConfigMap"]["data"]["penstock.toml"], encoding="utf-8")
    read = read_config(str(config))
    assert (read.host, read.port) == ("0.0.0.0", container["ports"][0]["containerPort"])
    assert {key: getattr(read, key) for key in OF_A_SERVICE} == OF_A_SERVICE
    text = (PACKAGING / "docker" / "compose.yaml").read_text(encoding="utf-8")
    service = yaml.safe_load(text)["services"]["penstock"]
    assert service["tmpfs"] == [f"/run/penstock:uid={user},mode=0700"] and service["read_only"]
    assert (PACKAGING / "docker" / service["build"]["context"]).resolve() == REPOSITORY


def test_the_image_is_made_of_files_that_are_there_and_sent() -> None:
    ignored = (PACKAGING / "docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    sent = {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    assert not [name for name in sent if not (REPOSITORY / name).exists()]
    copied = {words.split()[0] for words in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M)} - {"."}
    assert copied <= sent
    # What the build reads: see setup.py and MANIFEST.in.
    assert {"src", "setup.py", "native_build.py", "compile_list.txt", "pyproject.toml"} <= sent


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="there is no logrotate here")
def test_logrotate_rotates(tmp_path: Path) -> None:
    """The broker's own log, which is opened anew as SIGHUP has it done."""
    path = tmp_path / "penstock.log"
    text = (PACKAGING / "logrotate" / "penstock").read_text(encoding="utf-8")
    assert "HUP penstock.service" in text
    rules = tmp_path / "rules"
    rules.write_text(text.replace("/var/log/penstock", str(tmp_path)), encoding="utf-8")
    rules.chmod(0o600)
    # It refuses folders that others may write to.
    tmp_path.chmod(0o700)
    log = LineLog(sys.stderr, ManualClock())
    log.open(str(path))
    log.info("a line")
    command = ["logrotate", "--force", "--state", str(tmp_path / "state"), str(rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    log.open(str(path))
    log.info("the next")
    log.open("")
    assert (tmp_path / "penstock.log.1").read_text().endswith(" a line\n")
    assert path.read_text().count("\n") == 1 and path.read_text().endswith(" the next\n")
