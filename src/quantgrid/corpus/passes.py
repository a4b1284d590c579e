"""The pass contract: nothing is read more often than was declared.

Held three times: when rules are read (recipe), when a view opens (manifest), and in the loader.
Many passes over few tokens look like training until the validation loss rises, hours later.
"""

from quantgrid.errors import CorpusRefusal


def check(planned_tokens: int, unique_tokens: int, passes: int, where: object) -> None:
    """Refuse more tokens than the declared passes over the unique ones hold.

    Args:
        planned_tokens: Tokens that will be read, repetitions included.
        unique_tokens: Tokens that one pass reads.
        passes: Declared passes.
        where: Cell, corpus or shard that the message names.

    Raises:
        CorpusRefusal: with planned and unique tokens and the passes that they make.
    """
    allowed = passes * unique_tokens
    if planned_tokens <= allowed:
        return
    made = f"{planned_tokens / unique_tokens:.2f} passes" if unique_tokens else "of none"
    raise CorpusRefusal(
        "more tokens than the declared passes hold",
        expected=f"at most {allowed:,} tokens ({passes} x {unique_tokens:,} unique)",
        seen=f"{planned_tokens:,} tokens ({made})",
        where=where,
        do="Lower the budget, take a larger corpus, or declare the passes in the grid.",
    )
