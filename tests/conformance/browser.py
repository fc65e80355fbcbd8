"""Chromium, headless, driven over WebDriver's HTTP as its chromedriver speaks it.

Source: https://www.w3.org/TR/webdriver2/
"""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.conformance.live import free_port
from tests.patience import PATIENCE_S

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER: Final = shutil.which("chromedriver")
ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)


class Browser:
    """One window. base: the address of its session at the driver."""

    def __init__(self, base: str) -> None:
        self.base = base

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return ask(method, self.base + path, body)

    def open(self, address: str) -> None:
        self._ask("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function body of JavaScript returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of Chromium's own."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width: int, dark: bool) -> None:
        """How wide the screen is, and what colours the system asks for."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def find(self, css: str) -> str:
        """The element that a selector finds first; waits for it."""
        end = time.monotonic() + PATIENCE_S
        while True:
            found = self._ask("POST", "/elements", {"using": "css selector", "value": css})
            if found:
                return str(found[0][ELEMENT])
            assert time.monotonic() < end, f"no {css} on {self.text()[:500]}"
            time.sleep(0.05)

    def write(self, css: str, text: str) -> None:
        self._ask("POST", f"/element/{self.find(css)}/value", {"text": text})

    def click(self, css: str) -> None:
        self._ask("POST", f"/element/{self.find(css)}/click", {})

    def text(self) -> str:
        """What can be read on the page."""
        return str(self.run("return document.body.innerText"))

    def wait_for(self, text: str) -> None:
        """Until `text` can be read on the page."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.text():
            assert time.monotonic() < end, f"no {text!r} in {self.text()[:2000]}"
            time.sleep(0.05)

    def log(self) -> list[str]:
        """What the console has said since the last time: errors, and what the policy refused."""
        entries = self._ask("POST", "/se/log", {"type": "browser"})
        return [str(one["message"]) for one in entries]

    def screenshot(self, file: Path) -> None:
        """Of the whole page."""
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


def ask(method: str, address: str, body: dict[str, Any] | None = None) -> Any:
    """The value that the driver answers."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(address, data, {"content-type": "application/json"}, method=method)
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)["value"]
    except HTTPError as error:
        raise AssertionError(error.read().decode()[:2000]) from error


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a new profile in `folder`."""
    assert DRIVER is not None and CHROMIUM is not None
    port = free_port()
    driver = subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    base = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                if ask("GET", f"{base}/status")["ready"]:
                    break
            except URLError:
                assert time.monotonic() < end, "chromedriver does not answer"
                time.sleep(0.05)
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={folder / 'profile'}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = ask("POST", f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})
        session = f"{base}/session/{made['sessionId']}"
        try:
            yield Browser(session)
        finally:
            ask("DELETE", session)
    finally:
        driver.terminate()
        driver.wait()
