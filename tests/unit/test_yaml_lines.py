"""YAML files are read with the line of every key."""

from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal
from quantgrid.yaml_lines import parse, read, read_list

TEXT = """\
# a comment
grid: demo
blocks:
  main:
    tokens: [1,
             2]
    forms:
      - {method: none}
      - method: rtn
        bits: 4
"""


def test_document_knows_line_of_every_key_when_nested() -> None:
    """Keys, items of lists and keys inside items have the line on which they stand."""
    where = parse(TEXT, file="config/grids/demo.yaml").where

    assert where("grid") == "config/grids/demo.yaml:2"
    assert where("blocks", "main", "tokens", 1) == "config/grids/demo.yaml:6"
    assert where("blocks", "main", "forms", 0, "method") == "config/grids/demo.yaml:8"
    assert where("blocks", "main", "forms", 1, "bits") == "config/grids/demo.yaml:10"


def test_document_names_nearest_line_above_when_key_is_missing() -> None:
    """A key that is not there is placed where it should have been."""
    where = parse(TEXT, file="x.yaml").where

    assert where("blocks", "main", "seeds") == "x.yaml:4"
    assert where("corpus") == "x.yaml:1"


def test_document_data_is_plain_when_read(tmp_path: Path) -> None:
    """A schema may fill in defaults: the data are dicts and lists; the file is named from root."""
    (tmp_path / "a.yaml").write_text("n: 100_000\nl: [x]\n")

    document = read(tmp_path / "a.yaml", root=tmp_path)

    assert document.data == {"n": 100_000, "l": ["x"]}
    assert type(document.data) is dict
    assert document.file == "a.yaml"


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "key 'c' is here twice, first on line 3", 4),
        ("- a\n", "must hold `key: value` lines", 1),
        ("", "must hold `key: value` lines", 1),
        ("a: 1\nb: [1\n", "this is not YAML", 3),
        ("a: 1\nb: *gone\n", "this is not YAML: found undefined alias", 2),
    ],
)
def test_document_is_refused_with_line_when_unreadable(text: str, message: str, line: int) -> None:
    """What is no mapping, holds a key twice or is no YAML is refused with file and line."""
    with pytest.raises(ConfigRefusal) as refusal:
        parse(text, file="config/grids/x.yaml")

    assert message in str(refusal.value)
    assert f"(config/grids/x.yaml:{line})" in str(refusal.value)


def test_document_is_refused_when_it_holds_control_characters() -> None:
    """Bytes that YAML forbids are a refusal as well, not a traceback."""
    with pytest.raises(ConfigRefusal, match="this is not YAML"):
        parse("a: \x00", file="x.yaml")


def test_file_is_refused_when_nobody_can_read_it(tmp_path: Path) -> None:
    """A folder of its name, or a file of somebody else."""
    (tmp_path / "grid.yaml").mkdir()

    with pytest.raises(ConfigRefusal, match=r"cannot be read; seen Is a directory \(grid\.yaml\)"):
        read(tmp_path / "grid.yaml", root=tmp_path)


def test_file_is_refused_with_its_line_when_it_is_saved_in_another_alphabet(
    tmp_path: Path,
) -> None:
    """An editor of another age: the line is named as for any other mistake."""
    path = tmp_path / "grid.yaml"
    path.write_bytes("a: 1\n# gr\xfcn\n".encode("latin-1"))

    with pytest.raises(ConfigRefusal, match=r"UTF-8; seen byte 0xfc \(grid\.yaml:2\)"):
        read(path, root=tmp_path)
    with pytest.raises(ConfigRefusal, match=r"grid\.yaml:2"):
        read_list(path, root=tmp_path)
