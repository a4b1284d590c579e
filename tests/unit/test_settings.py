"""What may be spent, who is told, and which platforms are paid."""

import shutil
from pathlib import Path

import pytest

from quantgrid.devices import load_device
from quantgrid.errors import ConfigRefusal
from quantgrid.rental.port import Price
from quantgrid.rental.spend import Caps
from quantgrid.settings import Money, load_platform, load_settings


@pytest.fixture
def copy(tmp_path: Path, root: Path) -> Path:
    """A configuration that may be changed."""
    shutil.copytree(root / "config", tmp_path / "config")
    return tmp_path


def test_money_becomes_caps_in_microdollars_when_it_is_given() -> None:
    """Dollars and cents of a person are the micro-dollars of the books; nothing is no bound."""
    money = Money(max_usd_per_grid=12.5, max_usd_per_cell=0.25, cents_per_hour=269)

    assert Caps(*money.bounds()) == Caps(250_000, 12_500_000, None, 2_690_000)


def test_nothing_may_be_spent_when_nobody_said_how_much(root: Path) -> None:
    """A forgotten cap is a cap of nothing, for the grid and for its probes."""
    settings = load_settings(root, {})

    assert Caps(*settings.money.bounds()).grid == 0
    assert settings.money.probe_max_usd == 0
    assert not load_platform(root, settings.platform).is_paid


def test_money_names_file_and_line_when_a_key_is_unknown(copy: Path) -> None:
    """A misspelt cap would otherwise be no cap."""
    path = copy / "config/config.yaml"
    path.write_text(path.read_text().replace("cents_per_hour", "cent_per_hour"))

    with pytest.raises(ConfigRefusal, match=r"did you mean 'cents_per_hour'.*config.yaml:\d+"):
        load_settings(copy, {})


def test_platform_is_paid_when_it_bills_as_a_device(copy: Path) -> None:
    """The price has a source and a date; an unknown device is refused with file and line."""
    path = copy / "config/platforms/local.yaml"
    path.write_text(path.read_text() + "bills_as: h100\n")
    assert load_platform(copy, "local").is_paid
    price = Price(*load_device(copy, "h100").price())
    assert price.microusd_per_h == 2_690_000
    assert price.source
    assert price.date

    path.write_text(path.read_text().replace("h100", "h10"))
    with pytest.raises(ConfigRefusal, match=r"did you mean 'h100'.*local.yaml:\d+"):
        load_platform(copy, "local")
