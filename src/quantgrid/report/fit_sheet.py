"""The fitted damage laws as a sheet of the page."""

from quantgrid.report import fits
from quantgrid.report.sections import Entry, Head, Named, Sheet

HEADS = (
    Head("way to quantise", is_number=False),
    Head("forms"),
    Head("\N{GREEK SMALL LETTER GAMMA} of tokens"),
    Head("\N{GREEK SMALL LETTER GAMMA} of size"),
    Head("\N{GREEK SMALL LETTER GAMMA} of bits"),
    Head("R\N{SUPERSCRIPT TWO}"),
    Head("points"),
)


def fits_of(of: Named) -> Sheet:
    """One row a fitted law, and the published constants below; no row when none is fixed."""
    found = fits.fitted(of.grid)
    rows = [_row(each) for each in found]
    return Sheet("Fitted damage laws", HEADS, [*rows, *([_published()] if rows else [])])


def _row(each: fits.Fitted) -> list[Entry]:
    law = each.law
    size = "" if law.gamma_n is None else f"{law.gamma_n:.2f}"
    texts = (
        each.name,
        str(len(each.variants)),
        f"{law.gamma_d:.2f}",
        size,
        f"{law.gamma_post:.2f}",
        f"{law.r_squared:.3f}",
        str(law.num_points),
    )
    return [Entry(text) for text in texts]


def _published() -> list[Entry]:
    gamma_d, gamma_n, gamma_post = fits.PUBLISHED.values()
    texts = ("published", "", f"{gamma_d:.2f}", f"{gamma_n:.2f}", f"{gamma_post:.2f}", "", "")
    return [Entry(text) for text in texts]
