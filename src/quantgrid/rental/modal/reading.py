"""What a sandbox wrote and what it cost, as far as a version of the SDK tells."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

_READ_S = 2.0


async def tail(box: Any, lines: int) -> str:
    """The last lines of a sandbox."""
    if hasattr(box, "logs"):  # from SDK 1.6 on
        return "".join([each.message async for each in box.logs.tail.aio(lines)])
    said: list[str] = []
    with suppress(TimeoutError):  # the stream of a running sandbox never ends
        async with asyncio.timeout(_READ_S):
            async for line in box.stdout:
                said.append(line)  # noqa: PERF401 - what was read before the time was over counts
    return "".join("".join(said).splitlines(keepends=True)[-lines:])


async def costs(modal: Any, client: Any, boxes: Iterable[str]) -> list[Any]:
    """Dollars of sandboxes that ended; None for one of which nothing is known yet."""
    return await asyncio.gather(*(_cost(modal, client, each) for each in boxes))


async def _cost(modal: Any, client: Any, box_id: str) -> Any:
    """By Modal's statistics: at the workspace's rates, without egress and discounts."""
    try:
        box = await modal.Sandbox.from_id.aio(box_id, client=client)
        if box.returncode is None:
            return None
        return (await box._experimental_stats.aio()).cost
    except modal.exception.NotFoundError:
        return None
