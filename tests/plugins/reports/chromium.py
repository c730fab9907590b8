"""A headless Chromium, spoken to over a pipe in the DevTools protocol: what a page does, without a driver."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, Queue
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
          "--disable-background-networking", "--disable-component-update",
          "--remote-debugging-pipe")  # fmt: skip


class Page:
    """One tab; `events` holds what it told so far."""

    def __init__(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self._close = ExitStack()
        self.events: list[dict[str, Any]] = []
        self._number = 0
        self._messages: Queue[dict[str, Any]] = Queue()
        self._start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.look(width, height, dark=dark)

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Change the size of the window and the colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._take(self._messages.get(timeout=300))

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def mouse(self, x: float, y: float) -> None:
        """Move the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, x0: float, x1: float, y: float) -> None:
        """Press at (x0, y), move to (x1, y), release."""
        for kind, x, button in (("mousePressed", x0, 1), ("mouseMoved", (x0 + x1) / 2, 1), ("mouseMoved", x1, 1),  # noqa: E501
                                ("mouseReleased", x1, 0)):  # fmt: skip
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=button, clickCount=1
            )

    def click(self, x: float, y: float) -> None:
        """Press and release the button at a place."""
        for kind, buttons in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)):
            button, count = ("none", 0) if kind == "mouseMoved" else ("left", 1)
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons,
                      clickCount=count)  # fmt: skip

    def complaints(self) -> list[str]:
        """What the page wrote to the console as errors or warnings, and what it threw."""
        found = []
        for event in self.events:
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(told["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(json.dumps(told["args"]))
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(told["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        sent = [e["params"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [told["request"]["url"] for told in sent]

    def screenshot(self, path: Path, *, full: bool = True) -> None:
        """Write a picture of the whole page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=full)["data"]
        path.write_bytes(base64.b64decode(data))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._messages.get(timeout=300)
            if told.get("id") == self._number:
                assert "error" not in told, told["error"]
                return told["result"]
            self._take(told)

    def settle(self) -> None:
        """Take in what has been told up to now."""
        self.run("new Promise(done => setTimeout(done, 100))")
        while True:
            try:
                self._take(self._messages.get_nowait())
            except Empty:
                return

    def _take(self, message: dict[str, Any]) -> None:
        assert "closed" not in message, "Chromium ended"
        if "method" in message:
            self.events.append(message)

    def _start(self) -> None:
        assert PROGRAM is not None
        folder = self._close.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        its_in, self._to = os.pipe()
        self._from, its_out = os.pipe()
        # The browser reads file descriptor 3 and writes 4.
        command = ["bash", "-c", f'exec 3<&{its_in} 4>&{its_out}; exec "$0" "$@"', PROGRAM, *_FLAGS,
                   f"--user-data-dir={folder}", "about:blank"]  # fmt: skip
        self._process = subprocess.Popen(
            command, pass_fds=(its_in, its_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(its_in)
        os.close(its_out)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._from, 1 << 16):
            *whole, rest = (rest + data).split(b"\0")
            for message in whole:
                self._messages.put(json.loads(message))
        self._messages.put({"closed": True})

    def close(self) -> None:
        """End the browser."""
        os.close(self._to)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        os.close(self._from)
        self._close.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
