"""How an attempt ended that did not finish: its link, its failure, and what a person is told."""

import os
import sys
from typing import Any, NamedTuple

from quantgrid import failures, links, masking, watching
from quantgrid.diagnosis import Diagnosis, diagnose
from quantgrid.errors import Checkpointed, FailureClass, Fault, Interrupted
from quantgrid.remembered import Remembered


class Ending(NamedTuple):
    """The end of an attempt at a stage that has no result."""

    memory: Remembered
    cell: str
    stage: str
    fingerprint: str
    chain: links.Chain
    link: dict[str, Any]
    ended: watching.Ended
    folders: tuple[str, ...]
    now: str

    def conclude(self, chains: bool) -> None:  # noqa: FBT001 - a fact of the platform
        """Close the link; return when another one may start at once.

        Args:
            chains: Whether this runner starts the next link.

        Raises:
            SystemExit: with the script's exit code, when it has told its own sentence.
            QuantgridError: else.
        """
        diagnosis = self.diagnosis()
        end = self._end(diagnosis)
        chain = self.chain.closed(self.link, end)
        chain.save()
        if end == links.FAILED:
            self.keep(diagnosis)
            self._raise(diagnosis)
        if end == links.INTERRUPTED:
            raise self._interruption(diagnosis, chain)
        try:
            chain.refuse_standstill(self.cell)
        except Fault as fault:
            self.keep(Diagnosis.of(fault, kind="no progress"))
            raise
        if not chains:
            raise self._checkpointed(chain)
        told = f"link {len(chain.links)} of {self.cell} ended, {_place(chain)}; the next one starts"
        print(told, file=sys.stderr, flush=True)

    def diagnosis(self) -> Diagnosis:
        """What ended the script."""
        full = watching.full_folders(*self.folders)
        return diagnose(self.ended.exit_code, self.ended.tail, self.ended.facts._replace(full=full))

    def keep(self, diagnosis: Diagnosis) -> None:
        """Write the failure down."""
        facts = self.ended.facts
        failure = failures.failure_of(
            diagnosis,
            cell=self.cell,
            stage=self.stage,
            fingerprint=self.fingerprint,
            attempt=self.ended.attempt,
            exit_code=self.ended.exit_code,
            log=self.ended.log,
            host=self.link["host"],
            platform=self.link["platform"],
            when=self.now,
            evidence={"oom_kills": facts.oom_kills, "full": list(facts.full)},
        )
        self.memory.keep(failure)

    def _end(self, diagnosis: Diagnosis) -> str:
        if diagnosis.failure_class is not FailureClass.PREEMPTION:
            return links.FAILED
        if self.ended.facts.received is not None:
            return links.INTERRUPTED
        if self.ended.facts.is_over:
            return links.CAP
        return links.CHECKPOINTED if diagnosis.kind == "checkpointed" else links.INTERRUPTED

    def _raise(self, diagnosis: Diagnosis) -> None:
        """Raise the script's own error, or end as it ended when it told a sentence itself."""
        if diagnosis.is_told:
            raise SystemExit(diagnosis.error.exit_code)
        raise diagnosis.error(
            f"{self.cell}: {masking.masked(diagnosis.message, os.environ)}",
            seen=f"{diagnosis.kind} in stage {self.stage}",
            where=self.ended.log,
            do=f"`quantgrid why {self.cell}` tells more.",
        )

    def _interruption(self, diagnosis: Diagnosis, chain: links.Chain) -> Interrupted:
        return Interrupted(
            f"{self.cell} was ended by {diagnosis.error_type or 'a signal'}, {_place(chain)}",
            do=f"Run the same command again; it {_again(chain)}.",
        )

    def _checkpointed(self, chain: links.Chain) -> Checkpointed:
        return Checkpointed(
            f"link {len(chain.links)} of {self.cell} ended by its cap, {_place(chain)}",
            do=f"Run the same command again; it {_again(chain)}.",
        )


def _again(chain: links.Chain) -> str:
    """What the next attempt does, in words."""
    return "goes on from there" if chain.newest else "begins this stage anew"


def _place(chain: links.Chain) -> str:
    """How far a chain is, in words; the name of a checkpoint that tells its tokens is left out."""
    if chain.newest and (tokens := links.find_told(chain.state).get("tokens")):
        return f"state kept at {tokens:,} tokens"
    return f"state kept: {chain.newest}" if chain.newest else "no checkpoint was saved yet"
