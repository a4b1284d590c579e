"""Whatever is deposited comes back equal; whatever byte changes, it is noticed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from quantgrid import atomic
from quantgrid.archive.record import parse_record, sealed
from quantgrid.errors import DataFault

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
BODIES = st.dictionaries(
    st.text().filter(lambda name: name not in {"schema", "version", "digest"}), JSON, max_size=6
)


@examples(60, 300)
@given(body=BODIES)
def test_record_comes_back_equal_when_parsed(body: dict[str, Any]) -> None:
    """Sealing, writing and parsing lose and add nothing."""
    record = sealed(body)

    assert parse_record(atomic.json_bytes(record), where="here") == record


@examples(100, 300)
@given(body=BODIES, data=st.data())
def test_record_is_equal_or_refused_when_a_byte_changes(body: dict[str, Any], data: Any) -> None:
    """A changed byte either changes no value (a blank became a tab) or is a data fault."""
    whole = atomic.json_bytes(sealed(body))
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255))
    torn = whole[:at] + bytes([byte]) + whole[at + 1 :]

    try:
        assert parse_record(torn, where="here") == sealed(body)
    except DataFault:
        assert torn != whole


@examples(50, 300)
@given(body=BODIES, data=st.data())
def test_record_is_refused_when_cut_short(body: dict[str, Any], data: Any) -> None:
    """No proper beginning of a record is a record, but for the newline at its end."""
    whole = atomic.json_bytes(sealed(body))
    length = data.draw(st.integers(0, len(whole) - 2))

    with pytest.raises(DataFault):
        parse_record(whole[:length], where="here")
