"""A headless Chromium, driven over its debugging pipe: no driver, no port, no library."""

import base64
import fcntl
import json
import os
import select
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WAIT_S = 180.0
ARGUMENTS = (
    "--headless=new",
    "--remote-debugging-pipe",  # commands on descriptor 3, answers on 4
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
)


class Browser:
    """One page in one headless Chromium.

    `complaints` collects what the console and the network of the page complain about.
    """

    def __init__(self, program: str, profile: Path) -> None:
        self.complaints: list[str] = []
        self._next_id, self._rest = 0, b""
        self._session: str | None = None
        to_child, self._to_child = _high_pipe()
        self._from_child, from_child = _high_pipe()
        self._pid = os.posix_spawn(
            program,
            [program, *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"],
            os.environ,
            file_actions=[
                *((os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in (0, 1, 2)),
                (os.POSIX_SPAWN_DUP2, to_child, 3),
                (os.POSIX_SPAWN_DUP2, from_child, 4),
            ],
        )
        os.close(to_child)
        os.close(from_child)

    def __enter__(self) -> Self:
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._to_child)
        os.close(self._from_child)

    def open(self, page: Path, *, width: int, height: int = 900) -> None:
        """Load a file in a window of a width, and wait until it is loaded."""
        mobile = width < 600
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        self._call("Page.navigate", url=page.as_uri())
        while self._event()["method"] != "Page.loadEventFired":
            pass

    def evaluate(self, script: str) -> Any:
        """The JSON value of a JavaScript expression in the page."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def screenshot(self, target: Path, *, full: bool = True) -> None:
        """A picture of the page, of its whole length or of what the window shows."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=full, **self._clip(full))
        target.write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, full: bool) -> dict[str, Any]:
        if not full:
            return {}
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {**size, "scale": 1}}

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._next_id += 1
        message = {"id": self._next_id, "method": method, "params": parameters}
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._to_child, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _event(self) -> dict[str, Any]:
        while "method" not in (message := self._message()):
            pass
        return message

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from_child], [], [], deadline - time.monotonic())
            data = os.read(self._from_child, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "warning"}:
                self.complaints.append(str(parameters["args"]))
            case "Log.entryAdded":
                self.complaints.append(str(parameters["entry"]))
            case "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if not url.startswith(("file:", "data:", "about:")):
                    self.complaints.append(f"asked the network for {url}")


def _high_pipe() -> tuple[int, int]:
    """A pipe whose descriptors are not among those that the child gets."""
    low = os.pipe()
    reader, writer = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in low)
    for each in low:
        os.close(each)
    return reader, writer
