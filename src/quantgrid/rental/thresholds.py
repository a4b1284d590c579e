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


def tell_spend(books: Books, grid: str, money: "Money", whom: "Notify", store: Store) -> None:
    """Tell each part of the cap that was reached, once for ever; cheap while none is.

    Args:
        books: What was spent.
        grid: Whose money it is.
        money: The caps.
        whom: Who is told, and at which parts.
        store: That of the register.
    """
    cap = money.bounds()[1]
    did = spent(books, grid)
    reached = [part for part in whom.spend_at if cap and did >= part * cap]
    for part in reached[-1:]:
        text = f"{dollars(did)} of {dollars(cap)} are spent, more than {part:.0%}"
        tell(Event(Kind.SPEND, grid, text, f"{part:g} of {cap}"), whom, store)
