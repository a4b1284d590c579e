"""Devices: what an hour costs, with source and date, and how fast they are expected to be."""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from quantgrid.errors import ConfigRefusal
from quantgrid.schemas import Validate, read
from quantgrid.settings import MICROUSD


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """Price and expected speed of a device.

    Args:
        name: Name of the device.
        usd_per_hour: Dollars of an hour.
        source: Where that was read.
        date: When.
        cell_s: Seconds that a cell takes besides its arithmetic.
        sustained: Pairs of parameters and sustained 10^12 operations a second, ascending.
    """

    name: str
    usd_per_hour: float
    source: str
    date: str
    cell_s: float
    sustained: tuple[tuple[int, float], ...]

    def tflops(self, parameters: int) -> float:
        """Sustained speed for a size: a line in logarithms, flat beyond both ends."""
        for (small, slow), (large, fast) in pairwise(self.sustained):
            if small <= parameters <= large:
                part = math.log(parameters / small) / math.log(large / small)
                return slow * math.exp(part * math.log(fast / slow))
        smallest, largest = self.sustained[0], self.sustained[-1]
        return smallest[1] if parameters < smallest[0] else largest[1]

    def price(self) -> tuple[int, str, str]:
        """The fields of `rental.port.Price`: micro-dollars an hour, rounded up; source and date."""
        return math.ceil(self.usd_per_hour * MICROUSD), self.source, self.date


def load_device(root: Path, name: str, validate: Validate | None = None) -> Device:
    """A device of `config/devices`.

    Raises:
        ConfigRefusal: when it is not there (lists the devices) or cannot be meant.
    """
    document = read(root, "device", name, validate)
    sustained = tuple((each["parameters"], each["tflops"]) for each in document.data["sustained"])
    if any(small >= large for (small, _), (large, _) in pairwise(sustained)):
        raise ConfigRefusal(
            f"the sizes of device {name} do not ascend", where=document.where("sustained")
        )
    return Device(**{**document.data, "name": name, "sustained": sustained})
