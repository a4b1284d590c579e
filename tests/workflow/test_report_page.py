"""The page in a real browser: quiet, inside the window, and its table searched and sorted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser

from quantgrid.main import dispatch
from report_records import write_demo

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium; this machine has none"),
    pytest.mark.xdist_group("chromium"),
]

ROWS = "[...document.querySelectorAll('#all tbody tr')]"
SHOWN = f"{ROWS}.filter(row => row.offsetParent !== null).length"


@pytest.fixture(scope="module")
def demo_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a demo grid, made as the rules make it."""
    wanted, results = write_demo(tmp_path_factory.mktemp("page"))
    out = ["--wanted", str(wanted), "--laws", str(results / "demo-laws.csv")]
    assert dispatch(["table", *out, "--out", str(results / "demo.csv")]) == 0
    out += ["--table", str(results / "demo.csv")]
    assert dispatch(["report", *out, "--out", str(results / "demo.html")]) == 0
    return results / "demo.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One Chromium for all tests of this module."""
    with Browser(str(CHROMIUM), tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def type_into_search(browser: Browser, text: str) -> None:
    """What a person's keys do to the search box."""
    browser.evaluate(
        f"search.value = {text!r}; search.dispatchEvent(new Event('input', {{bubbles: true}}))"
    )


@pytest.mark.parametrize("width", [400, 1280])
def test_page_is_quiet_and_fits_when_opened(browser: Browser, demo_page: Path, width: int) -> None:
    """No complaint of console or network, and nothing sticks out of the window."""
    browser.complaints.clear()

    browser.open(demo_page, width=width)

    assert browser.evaluate("innerWidth") == width
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []


@pytest.mark.parametrize("width", [400, 1280])
def test_wide_tables_scroll_in_their_box_when_opened(
    browser: Browser, demo_page: Path, width: int
) -> None:
    """Every table lies in a box that is no wider than the window."""
    browser.open(demo_page, width=width)

    boxes = browser.evaluate(
        "[...document.querySelectorAll('table')]"
        ".map(table => table.closest('.scroll').getBoundingClientRect().right)"
    )

    assert len(boxes) == 7
    assert max(boxes) <= width


CUT = (
    "[...document.querySelectorAll('.scroll')].map(box => {"
    " const right = box.getBoundingClientRect().left + box.clientLeft + box.clientWidth;"
    " const cells = [...box.querySelectorAll('td, tbody th, .cells th')]"
    "  .filter(cell => cell.offsetWidth);"
    " return cells.filter(cell => cell.getBoundingClientRect().right > right + 1).length; })"
)


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_cut_when_opened(browser: Browser, demo_page: Path, width: int) -> None:
    """Every field of every table is wholly inside its box before anybody scrolls."""
    browser.open(demo_page, width=width)

    assert browser.evaluate(CUT) == [0] * 7


def test_box_says_so_when_it_holds_more_columns(browser: Browser, demo_page: Path) -> None:
    """With all columns on a phone a cue covers what is not wholly inside, until the end."""
    browser.open(demo_page, width=400)
    frame = "document.querySelector('#cells .frame')"
    assert browser.evaluate(f"{frame}.dataset.more === undefined")

    browser.evaluate("every.click()")

    assert browser.evaluate(f"{frame}.dataset.more") == ""
    assert "scroll sideways" in browser.evaluate(f"getComputedStyle({frame}, '::before').content")
    assert browser.evaluate(
        f"[...{frame}.querySelectorAll('th')].some(head => Math.abs(head.offsetLeft +"
        f" head.offsetWidth - parseFloat({frame}.style.getPropertyValue('--cut'))) < 1)"
    )
    box = f"{frame}.firstElementChild"
    browser.evaluate(f"{box}.scrollLeft = 1e5; {box}.dispatchEvent(new Event('scroll'))")
    assert browser.evaluate(f"{frame}.dataset.more === undefined")


@pytest.mark.parametrize(("width", "shown"), [(400, "narrow"), (1280, "wide")])
def test_plots_have_readable_text_when_opened(
    browser: Browser, demo_page: Path, width: int, shown: str
) -> None:
    """One drawing of each plot is shown, and its smallest text is at least 10 px high."""
    browser.open(demo_page, width=width)

    heights = browser.evaluate(
        "[...document.querySelectorAll('figure')].map(figure => {"
        " const svgs = [...figure.querySelectorAll('svg')].filter(svg => svg.clientWidth);"
        " const svg = svgs[0], scale = svg.clientWidth / svg.viewBox.baseVal.width;"
        " const sizes = [...svg.querySelectorAll('text')]"
        "  .map(text => parseFloat(getComputedStyle(text).fontSize) * scale);"
        " return [svgs.length, svg.parentElement.className, Math.min(...sizes)]; })"
    )

    assert [entry[:2] for entry in heights] == [[1, shown]] * 3
    assert min(entry[2] for entry in heights) >= 10


def test_search_filters_rows_when_typed(browser: Browser, demo_page: Path) -> None:
    """All words must be in a row, in any order; emptied, all rows are back."""
    browser.open(demo_page, width=1280)
    assert browser.evaluate(SHOWN) == 105

    type_into_search(browser, "W3G32 gptq t1600k")

    assert browser.evaluate(SHOWN) == 3
    assert browser.evaluate("count.textContent") == "3 of 105"
    type_into_search(browser, "no such cell")
    assert browser.evaluate(SHOWN) == 0
    type_into_search(browser, "")
    assert browser.evaluate(SHOWN) == 105


def test_rows_are_sorted_when_a_heading_is_pressed(browser: Browser, demo_page: Path) -> None:
    """Numbers sort as numbers, up at the first press and down at the second."""
    browser.open(demo_page, width=1280)
    press = (
        "[...document.querySelectorAll('#all thead button')]"
        ".find(button => button.textContent === 'damage').click()"
    )
    column = f"{ROWS}.map(row => Number(row.cells[7].dataset.raw))"

    browser.evaluate(press)
    rising = browser.evaluate(column)
    browser.evaluate(press)
    falling = browser.evaluate(column)

    assert rising == sorted(rising)
    assert falling == sorted(rising, reverse=True)
    assert rising[0] != rising[-1]
    assert (
        browser.evaluate("document.querySelector('#all [aria-sort=descending]').textContent")
        == "damage"
    )


def test_headings_and_figures_are_named_when_heard(browser: Browser, demo_page: Path) -> None:
    """Every heading cell has a scope; boxes and drawings have names for a screen reader."""
    browser.open(demo_page, width=1280)

    nameless = browser.evaluate(
        "document.querySelectorAll('th:not([scope]), [role=img]:not([aria-label]),"
        " [role=region]:not([aria-label]), input:not([id])').length"
    )

    assert nameless == 0
    assert browser.evaluate("document.documentElement.lang") == "en"
    assert browser.evaluate("document.querySelectorAll('h1').length") == 1
