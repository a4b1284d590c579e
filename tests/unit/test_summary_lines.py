"""The block at the end of a run: one form, whatever happened, in eighty columns."""

from typing import Any

import pytest

from quantgrid.errors import CorpusRefusal
from quantgrid.summary import Summary, Trouble, lines

COMMAND = ("snakemake", "--profile", "runpod", "--config", "select=bits<=3 and method=gptq")
NOTHING = Summary("demo", True, False, 0, (), (), (), (), 0, (), "nothing was rented", True)


def failure(**changes: Any) -> dict[str, Any]:
    """A failure as it is kept."""
    known = {"class": "code", "cell": "n0-s0/16384", "stage": "trunk", "message": "KeyError: 'lr'"}
    return {**known, "is_remembered": True, "log": "logs/a.log", "fingerprint": "f", **changes}


def told(**changes: Any) -> str:
    """The block of a run that differs from an empty one."""
    return "\n".join(lines(NOTHING._replace(**changes), COMMAND))


def test_block_leads_to_the_page_when_all_is_there() -> None:
    """Counts that are nothing are not said."""
    assert told(made=("a/b",), current=2) == (
        "summary   demo: done; 1 made, 2 there before\n"
        "cost      nothing was rented\n"
        "next      Look at results/demo.html"
    )


def test_block_says_so_when_no_cell_was_asked_for() -> None:
    """A corpus alone is done; its grid is not: said one way, whatever was there before."""
    assert told(left=("a/b",)).startswith("summary   demo: done; 1 not asked for\n")
    told_of_more = told(left=("a/b",), current=6)
    assert told_of_more.startswith("summary   demo: done; 6 there before, 1 not asked for\n")


def test_block_leads_to_no_page_when_a_part_was_asked_for() -> None:
    """Where nothing is next, nothing is said."""
    assert told(made=("a/b",), has_page=False).endswith("cost      nothing was rented")


def test_block_calls_a_run_stopped_only_when_nothing_failed() -> None:
    """A corpus that cannot be sealed is nobody's cell, and nobody stopped what went wrong."""
    assert "demo: not done; " in told(is_done=False)
    assert "demo: stopped; " in told(is_done=False, was_interrupted=True)
    assert "demo: not done; " in told(is_done=False, has_failed=True, was_interrupted=True)
    assert "demo: stopped; " in told(is_done=False, has_failed=True, was_stopped=True)


def test_block_does_not_say_its_word_twice() -> None:
    """The message of a refusal begins with the word that its label has."""
    trouble = Trouble(failure(**{"class": "refusal", "message": "refused: short"}), ("n0/x",))

    assert "          short" in told(is_done=False, troubles=(trouble,)).splitlines()


@pytest.mark.parametrize(
    ("kind", "word"),
    [("refusal", "refused"), ("budget", "refused"), ("science", "alarm"), ("device", "failed"),
     ("preemption", "stopped"), ("held", "held")],
)  # fmt: skip
def test_block_calls_a_failure_by_its_class(kind: str, word: str) -> None:
    """The same word in every place, and the same next step."""
    trouble = Trouble(failure(**{"class": kind}), ("n0-t1k-s0/none", "n0-t1k-s0/rtn"))
    block = told(is_done=False, troubles=(trouble,))

    assert f"{word:<10}n0-s0/16384, trunk (2 cells wait for it)" in block
    assert "          KeyError: 'lr'\n          log: logs/a.log" in block
    assert "next      1. See the whole of it:\n             quantgrid why n0-s0/16384\n" in block
    assert block.endswith(
        "again     snakemake --profile runpod --config 'select=bits<=3 and method=gptq'"
    )


def test_block_fits_eighty_columns_when_a_message_is_long() -> None:
    """Words wrap below their label; what is copied is never broken."""
    trouble = Trouble(failure(message="refused: a shard is short; " * 12), ("n0/x",))
    block = told(is_done=False, troubles=(trouble,), held=3, left=("n0/y",))

    wrapped = [line for line in block.splitlines() if not line.startswith("again")]
    assert max(map(len, wrapped)) <= 80
    assert "held      3 by another controller" in block
    assert "not done; 2 still to do" in block


def test_block_names_five_of_many_and_counts_the_rest() -> None:
    """A mistake in a script is not told a thousand times."""
    many = tuple(Trouble(failure(cell=f"n0/{n}"), (f"n0/{n}",)) for n in range(9))
    block = told(
        is_done=False, troubles=many, doubted=tuple((f"n1/{n}", "SUSPECT") for n in range(7))
    )

    assert block.count("KeyError") == 5
    assert "and 4 more: `quantgrid status`" in block
    assert block.count("suspect   ") == 5
    assert "and 2 more that no average contains" in block
    assert "next      1. See why it is SUSPECT:\n             quantgrid why n1/0\n" in block


def test_block_tells_a_refusal_in_few_words_and_its_steps_in_their_order() -> None:
    """The whole sentence stood where it happened; a command stands alone on its line."""
    refusal = CorpusRefusal(
        "a shard is short", expected="9 bytes", seen="8", where="volume/x", do="Make it: `again`."
    )
    of = failure(**{"class": "refusal", "message": str(refusal)})
    block = told(is_done=False, troubles=(Trouble(of, ("n0/x",)),)).splitlines()

    assert block[1:-1] == [
        "refused   n0-s0/16384, trunk (1 cell waits for it)",
        "          a shard is short",
        "          log: logs/a.log",
        "cost      nothing was rented",
        "next      1. See the whole of it:",
        "             quantgrid why n0-s0/16384",
        "          2. Make it:",
        "             again",
        "          3. Once it is mended, let it be tried again:",
        "             quantgrid retry n0-s0/16384",
    ]


def test_block_of_a_run_that_is_done_says_that_a_failure_is_older() -> None:
    """A corpus was made again, and what it had failed is still remembered."""
    block = told(left=("n0/x",), troubles=(Trouble(failure(), ("n0/x",)),), has_page=False)

    assert "\nfailed    n0-s0/16384, trunk (1 cell waits for it), before this run\n" in block
    assert block.endswith(
        "next      Once it is mended, let it be tried again:\n          quantgrid retry n0-s0/16384"
    )


def test_block_wraps_a_step_that_is_no_command_alone() -> None:
    """Prose stays prose, with its commands in it."""
    step = "Mount the right volume, or take another `name` in the file of the platform, and so on."
    of = failure(message=f"refused: another volume. {step}", is_remembered=False)
    block = told(is_done=False, troubles=(Trouble(of, ("n0/x",)),)).splitlines()

    assert block[-3:-1] == [
        "          2. Mount the right volume, or take another `name` in the file of the",
        "             platform, and so on.",
    ]


def test_block_types_a_mend_with_the_settings_of_its_call() -> None:
    """A message knows neither grid nor platform, and would prepare the corpus of another one."""
    of = failure(message="refused: short. Make it: `snakemake --profile local corpus -R x`.")
    block = told(is_done=False, troubles=(Trouble(of, ("n0/x",)),))

    mend = "snakemake --profile runpod corpus -R x --config 'select=bits<=3 and method=gptq'"
    assert f"\n             {mend}\n" in block


def test_block_names_the_mend_before_the_command_when_a_corpus_was_refused() -> None:
    """The same command alone is refused again; no cell is asked why, for none failed."""
    message = "refused: a shard is short (volume). Make it again: `snakemake corpus --forcerun x`."
    of = failure(cell="shakespeare", stage="seal", message=message, is_remembered=False)
    trouble = Trouble({**of, "class": "refusal"}, ("n0/x",), is_common=True)
    block = told(is_done=False, has_failed=True, troubles=(trouble,)).splitlines()

    assert block[1] == "refused   shakespeare, seal (1 cell waits for it)"
    assert block[-3:-1] == ["next      Make it again:", "          snakemake corpus --forcerun x"]
    assert block[-1].startswith("again     snakemake ")
    assert not [line for line in block if "quantgrid why" in line]
