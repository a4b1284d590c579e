"""The rules of the watch on a program's metrics, whose names and units only its author knows.

So what cannot be wrong about any loss stops a program, and everything else is recorded unless the
policy says otherwise.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout
from quantgrid.cell import Cell, say
from quantgrid.clock import Clock, SystemClock
from quantgrid.errors import Alarm
from quantgrid.watch.observation import Expected, Finding, Point, Steps
from quantgrid.watch.rules import STALL, Gap, Spike
from quantgrid.watch.watch import Action, Watch

USUAL: Mapping[str, str] = {Spike.name: "record", Gap.name: "record", STALL: "stop"}
UNKNOWN_PASSES = 0


class OwnWatch:
    """Hears every row of a metrics file once, however many attempts wrote it.

    Args:
        cell: Whose program it is; says what a finding does.
        declared: The file, and the program's names for ours; `stall_s` where silence is bounded.
        clock: Times the silence.
    """

    def __init__(self, cell: Cell, declared: Mapping[str, Any], clock: Clock | None = None) -> None:
        self._cell, self._declared, self._clock = cell, declared, clock or SystemClock()
        asked = cell.watch.get("policy", {})
        self._watch = Watch(Expected(passes=UNKNOWN_PASSES), {**USUAL, **asked})
        self._since: list[float] = []
        self._last = -math.inf
        self._heard_s = self._clock.monotonic_s()
        self._is_stalled = False

    # -- rows -------------------------------------------------------------------------------------

    def hear(self, row: Mapping[str, Any]) -> None:
        """Look at a row in our names; one of a step that an earlier attempt told is known.

        Raises:
            Alarm: when a rule stops the cell.
        """
        self._heard_s = self._clock.monotonic_s()
        step = _number(row.get("step", max(self._last, -1) + 1))
        if not step > self._last:
            return
        self._last = step
        tokens = int(_number(row["tokens"])) if "tokens" in row else 0
        found = self._steps(row, int(step), tokens) + self._point(row, int(step), tokens)
        for finding in found:
            self._act(finding)

    def _steps(self, row: Mapping[str, Any], step: int, tokens: int) -> list[Finding]:
        norms = (_number(row["gradient_norm"]),) if "gradient_norm" in row else ()
        if "train_loss" not in row:
            return []
        loss = _number(row["train_loss"])
        self._since.append(loss)
        return self._watch.steps(Steps(step, tokens, (loss,), norms))

    def _point(self, row: Mapping[str, Any], step: int, tokens: int) -> list[Finding]:
        if "validation_loss" not in row:
            return []
        since, self._since = self._since, []
        validation = _number(row["validation_loss"])
        if not since and math.isfinite(validation):  # no training loss stands beside it
            return []
        return self._watch.point(Point.of(step, tokens, since or [0.0], [validation]))

    # -- findings ---------------------------------------------------------------------------------

    def listen(self) -> None:
        """Notice that no row came for too long.

        Raises:
            Alarm: when the policy does not say otherwise.
        """
        stall_s = self._declared.get("stall_s")
        silent_s = self._clock.monotonic_s() - self._heard_s
        if stall_s and silent_s > stall_s and not self._is_stalled:
            self._is_stalled = True
            expected, seen = f"a row within {stall_s:g} s", f"none for {silent_s:.0f} s"
            self._act(Finding(STALL, int(max(self._last, 0)), 0, expected, seen))

    def _act(self, finding: Finding) -> None:
        say(f"watch: {finding.line()}")
        if self._watch.action(finding.rule) is Action.STOP:
            raise Alarm(
                f"the watch stops {self._cell.id} by its rule {finding.rule}",
                expected=finding.expected,
                seen=finding.seen,
                where=f"{Path(self._declared['file']).name}, step {finding.step}",
                do="Its newest checkpoint is kept. Look at its data and its learning rate.",
            )
        if finding.rule == STALL:
            notice = self._cell.out.parent / layout.DESK_NOTICE
            with suppress(OSError):
                atomic.publish_json(notice, {"rule": STALL, "text": finding.line()})

    def results(self) -> dict[str, Any]:
        """What the record tells: the evaluations, and what was found."""
        state = self._watch.state(timed=False)
        told = {name: state[name] for name in ("curve", "findings")}
        return {"passes": UNKNOWN_PASSES, **told}

    # -- links ------------------------------------------------------------------------------------

    def save(self) -> None:
        """Keep what was heard, for the attempt that goes on from a checkpoint of the program."""
        last = self._last if math.isfinite(self._last) else None
        facts = {"watch": self._watch.state(), "since": self._since, "last": last}
        with suppress(OSError, ValueError):  # a full disk, or a loss that is no number
            atomic.publish_json(self._cell.state / layout.OWN_WATCH, facts)

    def restore(self) -> None:
        """Go on from what an earlier attempt heard; without it the watch starts over."""
        try:
            facts = json.loads((self._cell.state / layout.OWN_WATCH).read_bytes())
            self._watch.restore(facts["watch"])
            self._since = list(facts["since"])
            self._last = -math.inf if facts["last"] is None else float(facts["last"])
        except (OSError, ValueError, KeyError, TypeError):
            return


def _number(value: object) -> float:
    """A value of a row; what is no number is NaN."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
