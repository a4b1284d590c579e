"""The ledger becomes the platform's bill: what an ended machine cost is asked for until it is told.

Our own measure of a machine begins before its create and ends when its end was seen twice, so it is
never less than the bill, and a little more.  It counts until the platform has said the last word.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from quantgrid.errors import QuantgridError
from quantgrid.rental.port import Ended, Platform, find_name
from quantgrid.rental.register import Register
from quantgrid.rental.spend import Bill, Books, Cost

_FIRST_S = 1.0
"""After a question without an answer; each further pause is as long as all before it together."""
_LAST_S = 72 * 3600.0
"""Who has not said it by then will not: RunPod's bill has buckets of a day (CP 2.4)."""


class Settling:
    """Asks one platform for what ended machines did cost, ever more rarely.

    Args:
        platform: The platform.
        register: Where costs and bills are written down.
    """

    def __init__(self, platform: Platform, register: Register) -> None:
        self._platform, self._register = platform, register
        self._first_s: dict[str, float] = {}
        self._next_s: dict[str, float] = {}

    def go(self, books: Books, account: str, now_s: float) -> None:
        """Ask for all that are due in one call; what fails is asked again.

        Args:
            books: What was charged and what was billed.
            account: Who pays on this platform.
            now_s: The time by the store's clock.
        """
        due = [cost for cost in books.unbilled() if self._is_due(cost, now_s)]
        with suppress(QuantgridError):
            ended = list(self._ended(due, account))
            told = self._platform.statements(ended) if ended else {}
            for each in ended:
                if statement := told.get(str(each.name)):
                    self._register.settle(Bill(each.name.nonce, *statement))

    def _is_due(self, cost: Cost, now_s: float) -> bool:
        """Whether to ask now; asked or not, the next time is then later."""
        if now_s - cost.end_s > _LAST_S or now_s < self._next_s.get(cost.nonce, 0.0):
            return False
        first_s = self._first_s.setdefault(cost.nonce, now_s)
        self._next_s[cost.nonce] = now_s + max(_FIRST_S, now_s - first_s)
        return True

    def _ended(self, costs: Iterable[Cost], account: str) -> Iterator[Ended]:
        """Those that this account paid for here; another one knows nothing of them."""
        for cost in costs:
            where = self._register.find_where(cost)
            name = find_name(where.name) if where else None
            if where and name and (where.platform, where.account) == (self._platform.name, account):
                yield Ended(name, where.machine, cost.begin_s, cost.end_s)
