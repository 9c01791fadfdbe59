"""Chromium without a window, driven by the DevTools protocol over one WebSocket.

Debian has it as `chromium`; nothing is downloaded. Where there is none, the tests that need it are
skipped and say so.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium: on Debian, apt-get install chromium"
PATIENCE = 60.0
"""Seconds that the busiest machine may take."""


def find() -> str | None:
    """The path of a Chromium; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def opened(folder: Path, width: int = 1280, height: int = 800, *flags: str) -> Iterator[Tab]:
    """A browser with one empty tab; its profile is in ``folder``."""
    program = find()
    assert program is not None, MISSING
    command = [program, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}"]
    command += ["--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    command += ["--remote-allow-origins=*", f"--window-size={width},{height}", *flags]
    if os.geteuid() == 0:
        command.append("--no-sandbox")
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "about:blank"], stdout=log, stderr=log)
    try:
        yield Tab(_port(folder, process), width, height)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _port(folder: Path, process: subprocess.Popen[bytes]) -> int:
    file = folder / "DevToolsActivePort"
    until = time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text()):
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until, "Chromium does not start"
        time.sleep(0.05)
    return int(file.read_text().split()[0])


class Tab:
    """A tab.

    Attributes:
        requests: the addresses that were asked for.
        faults: what the console has said of errors, and exceptions.
    """

    def __init__(self, port: int, width: int, height: int) -> None:
        with urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            targets = json.load(answer)
        address = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
        self._socket = websocket.create_connection(address, timeout=PATIENCE)
        self._ids = itertools.count(1)
        self.requests: list[str] = []
        self.faults: list[str] = []
        self.received = 0
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.dataReceived":
            self.received += params["encodedDataLength"] or params["dataLength"]
        elif method == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.faults.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))

    def open(self, url: str) -> None:
        """Go there, and wait until what the page names is loaded."""
        self.send("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression, of a promise when it is kept."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self.send("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression once it is true."""
        until = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            text = self.run("document.body?.innerText")
            assert time.monotonic() < until, f"never true: {script}\n{text}\n{self.faults}"
            time.sleep(0.05)
        return value

    def text(self, selector: str) -> str:
        """The text of an element."""
        value: str = self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        return value

    def click(self, x: float, y: float) -> None:
        """Press and release the left button there."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {"button": "none"} if kind == "mouseMoved" else {"button": "left"}
            where = {"x": x, "y": y, "clickCount": 1, **button}
            self.send("Input.dispatchMouseEvent", type=kind, **where)

    def press(self, *keys: str) -> None:
        """Press and release keys, one after the other."""
        for key in keys:
            text = key if len(key) == 1 else "\r" if key == "Enter" else ""
            self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def prefer(self, **features: str) -> None:
        """Media features, such as ``color_scheme="dark"``."""
        chosen = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self.send("Emulation.setEmulatedMedia", features=chosen)

    def screenshot(self) -> bytes:
        """The tab as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
