"""A record vouches for itself: no byte of it changes unnoticed."""

import json

import pytest

from core_parts import body, key_of
from quantgrid import RECORD_VERSION, atomic
from quantgrid.archive.record import SCHEMA, parse_record, refuse_misplaced, sealed
from quantgrid.errors import DataFault
from quantgrid.fingerprint import digest


def test_record_comes_back_when_it_was_sealed() -> None:
    """A sealed record is its body with schema, version and digest."""
    record = sealed(body())

    assert parse_record(atomic.json_bytes(record), where="here", key=key_of(record)) == record
    assert record.items() >= body().items()
    assert (record["schema"], record["version"]) == (SCHEMA, RECORD_VERSION)


def test_record_is_refused_when_any_field_changed() -> None:
    """The digest covers every field, schema and version included."""
    record = sealed(body())
    for name in record:
        changed = {**record, name: "0" * 64}
        with pytest.raises(DataFault):
            parse_record(atomic.json_bytes(changed), where="here")
        missing = {key: value for key, value in record.items() if key != name}
        with pytest.raises(DataFault):
            parse_record(atomic.json_bytes(missing), where="here")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 40,
        b"\xff\xfe",
        b"null",
        b"[]",
        b'"digest"',
        b"{}",
        b'{"digest": 1}',
        b'{"digest": 1, "schema": "quantgrid/record", "version": "x"}',
        b'{"digest": 1, "schema": "quantgrid/record", "version": null}',
        b'{"digest": 1, "schema": "quantgrid/record", "version": 1, "loss": NaN}',
        json.dumps(sealed(body())).encode()[:-5],
    ],
)
def test_record_cannot_be_read_when_it_is_torn(data: bytes) -> None:
    """Torn or foreign bytes are a data fault that shows them and says where."""
    with pytest.raises(DataFault, match="a record cannot be read") as caught:
        parse_record(data, where="archive/key")
    assert "archive/key" in str(caught.value)


@pytest.mark.parametrize("change", [{"schema": "other"}, {"version": RECORD_VERSION + 1}])
def test_record_of_another_format_is_refused_when_read(change: dict[str, object]) -> None:
    """A record of a later version is not guessed at, though its digest is right."""
    fields = {**sealed(body()), **change}
    fields["digest"] = digest({name: fields[name] for name in fields if name != "digest"})

    with pytest.raises(DataFault, match="another format"):
        parse_record(atomic.json_bytes(fields), where="here")


@pytest.mark.parametrize("name", ["kind", "cell", "fingerprint"])
def test_record_is_refused_when_it_lies_under_another_key(name: str) -> None:
    """A whole record under the key of another one is not taken for it."""
    record = sealed({**body(), name: "other"})

    with pytest.raises(DataFault, match="another key"):
        parse_record(atomic.json_bytes(record), where="here", key=key_of(body()))
    with pytest.raises(DataFault, match="another key"):
        refuse_misplaced({}, key_of(body()), "here")
