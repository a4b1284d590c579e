"""Tells a person how much of a grid's money is spent, at each of the parts that they named."""

from typing import TYPE_CHECKING

from quantgrid.notify import Event, Kind, tell
from quantgrid.rental.spend import Books, dollars
from quantgrid.store import Store

if TYPE_CHECKING:
    from quantgrid.settings import Money, Notify


def spent(books: Books, grid: str) -> int:
    """Micro-dollars that the machines of a grid did cost."""
    return sum(span.cost for span in books.spent() if span.grid == grid)


class Thresholds:
    """Tells a person, from round to round, of each part of the cap that was reached.

    Args:
        grid: Whose money it is.
        money: The caps.
        whom: Who is told, and at which parts.
        store: That of the register; its marks keep others from telling the same.
    """

    def __init__(self, grid: str, money: "Money", whom: "Notify", store: Store) -> None:
        self._grid, self._cap = grid, money.bounds()[1]
        self._whom, self._store = whom, store
        self._told = 0.0

    def look(self, books: Books) -> None:
        """Tell the largest part that was reached, once for ever; nothing but sums while none is."""
        did = spent(books, self._grid)
        part = max((each for each in self._whom.spend_at if did >= each * self._cap), default=0.0)
        if self._cap and part > self._told:
            self._told = part
            text = f"{dollars(did)} of {dollars(self._cap)} are spent, more than {part:.0%}"
            key = f"{part:g} of {self._cap}"
            tell(Event(Kind.SPEND, self._grid, text, key), self._whom, self._store)
