"""`snakemake --lint` has nothing to say that was not answered."""

import os
import re
import sys
from pathlib import Path

import forked

# What the linter says, and why we do otherwise.
ANSWERED = {
    "Shell command directly uses variable plan from outside of the rule": (
        "programs, archive and volume are places of this machine; as params they are compared, "
        "so that a moved working copy would make its cells again (docs/decisions/0002)"
    ),
    "Specify a conda environment or container for each rule.": (
        "jobs run under the interpreter of Snakemake, whose versions constraints.txt fixes; an "
        "environment of a rule would stand unused, at a twentieth of the cost of a plan"
    ),
}


def remarks(snakefile: Path, directory: Path) -> list[str]:
    """What the linter says of a workflow, one line a remark, each with its rule."""
    command = ["snakemake", "--lint", "--snakefile", str(snakefile), "--directory", str(directory)]
    line = [sys.executable, "-m", *command]
    said = forked.run(line, cwd=directory, env=os.environ, timeout=180).stdout
    assert "Lints for" in said or "Congratulations" in said, said
    found, rule = [], ""
    for line in said.splitlines():
        if heading := re.match(r"Lints for (.+?)(?: \(line .*)?:$", line):
            rule = heading[1]
        if remark := re.match(r"    \* (.+?):?$", line):
            found.append(f"{rule}: {remark[1]}")
    return found


def unanswered(found: list[str]) -> list[str]:
    """Remarks that no answer covers."""
    return [each for each in found if each.split(": ", 1)[1] not in ANSWERED]


def test_rules_are_without_remark_when_linted(root: Path, tmp_path: Path) -> None:
    """Every remark of Snakemake's linter is mended or answered."""
    found = unanswered(remarks(root / "Snakefile", tmp_path))

    assert not found, "\n".join(found)


def test_remarks_are_seen_when_a_rule_keeps_no_log(tmp_path: Path) -> None:
    """The policy sees the remarks on a rule without log and environment."""
    planted = tmp_path / "Snakefile"
    planted.write_text('rule bad:\n    output: "a"\n    shell: "touch {output}"\n')

    found = unanswered(remarks(planted, tmp_path))

    assert any("No log directive" in each for each in found)
    assert all(each.startswith("rule bad: ") for each in found)
