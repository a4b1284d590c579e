"""A plugin of pytest: tells the narrator of each test that is over, and what its doubles measured.

It adds no test and changes none: pass `-p rehearsal.narrator.listening --narrate FILE`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal import meters
from rehearsal.narrator.told import Play

_MEASURED = "measured"
_CAUSE = re.compile(r"\s*(fail|failed|refused|alarm|fault|E +\w*Error)\b")
"""How a line begins that says what went wrong, in what a program printed before its last words."""
_listener = meters.listen()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the narrator listens."""
    parser.addoption("--narrate", type=Path, help="file that gets one JSON line a test")


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that collects reports tells them; workers have a `workerinput`."""
    target = config.getoption("--narrate")
    if target and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Teller(target), "narrator")


@pytest.fixture(autouse=True)
def _measured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each double that takes part is read when the test is over, and its fixtures are."""
    _listener.begin()
    yield
    reading = _listener.read()
    if reading:
        request.node.user_properties.append((_MEASURED, reading._asdict()))
    _listener.forget_immortal()


class _Teller:
    """Collects the three reports of each test and writes them as one line."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._reports: dict[str, list[pytest.TestReport]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """All tests are known, where there are no workers."""
        if session.items:
            self._say({"collected": [item.nodeid for item in session.items]})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """All tests are known to a worker, and to every other one."""
        self._say({"collected": ids})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A part of a test is over; the last part tells all."""
        self._reports.setdefault(report.nodeid, []).append(report)
        if report.when == "teardown":
            self._tell(self._reports.pop(report.nodeid))

    def _tell(self, reports: list[pytest.TestReport]) -> None:
        measured: Any = dict(reports[-1].user_properties).get(_MEASURED) or {}
        outcomes = {report.outcome for report in reports}
        outcome = next((each for each in ("failed", "skipped") if each in outcomes), "passed")
        play = Play(
            test=reports[0].nodeid,
            outcome=outcome,
            wall_s=sum(report.duration for report in reports),
            words=_words(reports),
            **measured,
        )
        self._say(play._asdict())

    def _say(self, facts: dict[str, Any]) -> None:
        with self._target.open("a") as file:
            file.write(json.dumps(facts) + "\n")


def _words(reports: list[pytest.TestReport]) -> str:
    """Why it was skipped; or how it failed: the first line, and the last one that names a cause."""
    for report in reports:
        if report.skipped and isinstance(report.longrepr, tuple):
            return str(report.longrepr[2]).removeprefix("Skipped: ")
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = str(crash.message if crash else report.longrepr).strip().splitlines()
            causes = [line for line in lines if _CAUSE.match(line)]
            return " ... ".join(dict.fromkeys([lines[0], (causes or lines)[-1].strip()]))
    return ""
