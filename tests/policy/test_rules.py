"""Rules are sentences: what each needs, what it makes, who does it; logic lives in tested code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

RULE_LINES = 25
SNAKEFILE_LINES = 60
RULE = re.compile(r"^(?:rule|checkpoint|use rule \w+ as) (\w+)(?: with)?:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it is written: its name and its lines."""

    name: str
    text: str

    @property
    def num_lines(self) -> int:
        """Lines from the name to the last directive."""
        return len(self.text.strip().splitlines())

    def has(self, directive: str) -> bool:
        """Whether a directive is given."""
        return re.search(rf"^    {directive}:", self.text, re.MULTILINE) is not None


def rules(text: str) -> list[Rule]:
    """The rules of a file that snakefmt formatted: a rule ends at the next line at the margin."""
    return [
        Rule(match[1], match[0] + re.split(r"^\S", text[match.end() :], maxsplit=1, flags=re.M)[0])
        for match in RULE.finditer(text)
    ]


def offenders(name: str, text: str) -> Iterator[str]:
    """Each place where a file of rules says more, or less, than it should."""
    for line, words in enumerate(text.splitlines(), start=1):
        if re.match(r"\s*(?:async )?def ", words) or re.search(r"\blambda\b", words):
            yield f"{name}:{line}: logic belongs into src, where it is tested"
    for rule in rules(text):
        yield from (f"{name}: rule {rule.name} {fault}" for fault in _faults(rule))


def _faults(rule: Rule) -> Iterator[str]:
    if rule.num_lines > RULE_LINES:
        yield f"has {rule.num_lines} lines of {RULE_LINES}"
    for directive in ("run", "script", "notebook"):
        if rule.has(directive):
            yield f"uses {directive}:, which starts Python in a way of its own; use shell:"
    if rule.has("shell") and not rule.has("log"):
        yield "keeps no log"
    if rule.has("shell") and not re.search(r"\bexec ", rule.text):
        yield "does not exec its program, so that a signal ends the shell instead"


def test_rules_are_sentences_when_files_are_read(rule_files: dict[str, str]) -> None:
    """Every rule is short, logs, execs its program, and holds no logic."""
    found = [line for name, text in rule_files.items() for line in offenders(name, text)]

    assert not found, "\n".join(found)


def test_rules_are_found_when_files_are_read(rule_files: dict[str, str]) -> None:
    """The scanner sees the rules of the design, so that it cannot pass by seeing none."""
    names = {rule.name for text in rule_files.values() for rule in rules(text)}

    assert names >= {"milestone", "base", "quantise", "qat", "fold", "table"}


def test_snakefile_is_read_at_a_glance_when_opened(rule_files: dict[str, str]) -> None:
    """The Snakefile has at most 60 lines."""
    assert len(rule_files["Snakefile"].splitlines()) <= SNAKEFILE_LINES


GOOD = """rule good:
    output:
        "a",
    log:
        "b",
    shell:
        "exec make {output} 2> {log}"
"""


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        (GOOD.replace('    log:\n        "b",\n', ""), "keeps no log"),
        (GOOD.replace("exec ", ""), "does not exec"),
        (GOOD.replace("    log:", "    # why\n" * 25 + "    log:"), "has 32 lines"),
        (GOOD + "    script:\n        'a.py'\n", "uses script:"),
        (GOOD + "    run:\n        print()\n", "uses run:"),
        (GOOD.replace('"a",', "lambda w: w.cell,"), "logic belongs"),
        ("def targets():\n    return []\n" + GOOD, "logic belongs"),
    ],
)
def test_rules_are_refused_when_one_breaks_the_policy(planted: str, fault: str) -> None:
    """The policy sees each fault once, and none in a good rule."""
    found = list(offenders("a.smk", planted))

    assert len(found) == 1
    assert fault in found[0]
    assert list(offenders("a.smk", GOOD)) == []
