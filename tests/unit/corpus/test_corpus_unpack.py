"""Files become documents: compressed ones, lines of JSON, tables, a data set of the hub."""

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from quantgrid import layout
from quantgrid.corpus import sources
from quantgrid.corpus.unpack import unpacked
from quantgrid.errors import CorpusRefusal
from quantgrid.load import load_corpus
from quantgrid.recipe import Recipe
from small_corpus import REPOSITORY, declare, prepare, tokens_of

pa = pytest.importorskip("pyarrow", reason="the extra `corpora` is not installed")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("huggingface_hub", reason="the extra `corpora` is not installed")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = ["one\ntwo", "", "drei \N{LATIN SMALL LETTER U WITH DIAERESIS}ber vier"]
BODY = "".join(f"{row}\n" for row in ROWS).encode()


def _lines(path: Path, rows: list[object], field: str = "text") -> None:
    lines = [json.dumps({"id": n, field: row}) for n, row in enumerate(rows)]
    path.write_text("\n".join(lines))


def _json(path: Path) -> None:
    _lines(path, list(ROWS))


def _packed(path: Path) -> None:
    _json(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def _table(path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "text": ROWS})
    parquet.write_table(table, path, row_group_size=2)


def _arrow(path: Path) -> None:
    """What `Dataset.save_to_disk` writes: a stream of Arrow."""
    table = pa.table({"text": ROWS})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def _recipe(folder: Path, **changes: object) -> Recipe:
    found = {p.name: p for p in sorted(folder.iterdir())}
    mapping = {"source": {"folder": str(folder), "glob": "*"}, "num_tokens": 1} | changes
    return Recipe.from_mapping(mapping, sources.pin(found), "rows")


def _unpacked(folder: Path, scratch: Path, **changes: object) -> tuple[bytes, list[int] | None]:
    recipe = _recipe(folder, **changes)
    (found,) = unpacked(recipe, sources.verified(recipe, folder), scratch).values()
    return found.text[:], None if found.ends is None else found.ends.tolist()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder for files."""
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.jsonl", _json),
        ("a.jsonl.gz", _packed),
        ("a.parquet", _table),
        ("data-00000-of-00001.arrow", _arrow),
    ],
)
def test_rows_become_documents_whatever_holds_them(
    texts: Path, tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    """Each row is a document, an empty one too, and ends with a line end."""
    write(texts / name)

    assert _unpacked(texts, tmp_path) == (BODY, [8, 9, 25])


def test_documents_keep_their_bytes_when_an_end_token_follows(texts: Path, tmp_path: Path) -> None:
    """An end token takes the place of the line end."""
    _json(texts / "a.jsonl")
    bpe: dict[str, Any] = {"tokeniser": "bpe", "vocab_size": 300, "end_token": "<|end|>"}
    recipe = replace(_recipe(texts), **bpe)

    (found,) = unpacked(recipe, sources.verified(recipe, texts), tmp_path).values()

    assert found.text[:] == "".join(ROWS).encode()


def test_compressed_text_is_cut_like_any_other(texts: Path, tmp_path: Path) -> None:
    """A `.dz` of Debian's dictionaries is a gzip file; it has no documents of its own."""
    (texts / "some.dict.dz").write_bytes(gzip.compress(b"word\n   meaning\n" * 9))

    assert _unpacked(texts, tmp_path) == (b"word\n   meaning\n" * 9, None)


def _torn(path: Path) -> None:
    path.write_bytes(gzip.compress(BODY)[:-9])


def _null(path: Path) -> None:
    _lines(path, ["one", None])


def _half(path: Path) -> None:
    path.write_text('{"text": "one"}\n{"text": "\\ud800"}\n')


def _broken(path: Path) -> None:
    path.write_text('{"text": "one"}\n{"text": \n')


def _short(path: Path) -> None:
    _table(path)
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("name", "write", "said"),
    [
        ("a.txt.gz", _torn, "a.txt.gz cannot be decompressed; expected a whole gzip file"),
        ("a.jsonl", _null, "row 2 of a.jsonl has no text"),
        ("a.jsonl", _half, "row 2 of a.jsonl has no text"),
        ("a.jsonl", _broken, "line 2 of a.jsonl is no JSON"),
        ("a.parquet", _short, "a.parquet is no table that can be read"),
        ("a.arrow", _json, "a.arrow is no table that can be read"),
    ],
)
def test_file_is_refused_when_it_is_not_what_its_name_says(
    texts: Path, tmp_path: Path, name: str, write: Callable[[Path], None], said: str
) -> None:
    """The message names file and row."""
    write(texts / name)

    with pytest.raises(CorpusRefusal) as refused:
        _unpacked(texts, tmp_path)

    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_another_field_is_read_when_it_is_named(texts: Path, tmp_path: Path, name: str) -> None:
    """A field that no row has is refused; `text_field` names the right one."""
    if name == "a.parquet":
        parquet.write_table(pa.table({"content": ROWS}), texts / name)
    else:
        _lines(texts / name, list(ROWS), "content")

    with pytest.raises(CorpusRefusal, match="text_field"):
        _unpacked(texts, tmp_path)
    assert _unpacked(texts, tmp_path, text_field="content")[0] == BODY


def test_rows_are_refused_when_the_declared_number_is_another(texts: Path, tmp_path: Path) -> None:
    """A data set that lost a file says fewer documents than its card."""
    _json(texts / "a.jsonl")

    assert _unpacked(texts, tmp_path, documents=3)[0] == BODY
    with pytest.raises(CorpusRefusal, match="expected 4; seen 3"):
        _unpacked(texts, tmp_path, documents=4)


# -- a data set of the hub ------------------------------------------------------------------------


class _Hub(BaseHTTPRequestHandler):
    """Answers the hub's client about one data set, of the files that its server has."""

    def do_GET(self) -> None:
        files = vars(self.server)["files"]
        vars(self.server)["asked"].append(self.path)
        if self.path.startswith("/api/datasets/me/mine/"):
            return self._answer(_facts(self.path, files), "application/json")
        name = self.path.partition(f"/resolve/{COMMIT}/")[2]
        if name not in files:
            return self.send_error(404)
        return self._answer(files[name], "application/octet-stream")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{sha256(body).hexdigest()}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _facts(path: str, files: dict[str, bytes]) -> bytes:
    """What the hub says of the data set at its commit, or of its files there."""
    kind, commit = path.partition("?")[0].split("/")[5:7]
    assert commit == COMMIT
    listed = [
        {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
        for name, data in files.items()
    ]
    names = [{"rfilename": name} for name in files]
    facts = {"id": "me/mine", "sha": COMMIT, "siblings": names}
    return json.dumps(listed if kind == "tree" else facts).encode()


@contextmanager
def _hub(files: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server on this machine that answers the hub's client, and what it was asked."""
    asked: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        vars(server).update(files=files, asked=asked)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def test_data_set_goes_from_the_hub_to_shards_by_its_commit(tmp_path: Path, texts: Path) -> None:
    """Pinned and prepared from the hub's server by its own client; afterwards without network."""
    _table(texts / "a.parquet")
    corpus = declare(tmp_path)
    config = layout.section_file(tmp_path, "corpus", "small")
    config.write_text(
        f"source: {{dataset: me/mine, revision: {COMMIT}, glob: '**/*.parquet'}}\n"
        "validation_tokens: 10\nshard_tokens: 6\n"
    )
    (tmp_path / "scripts").symlink_to(REPOSITORY / "scripts")
    files = {"a.parquet": (texts / "a.parquet").read_bytes(), "README.md": b"no text"}
    home = {"HF_HOME": str(tmp_path / "hub"), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "quantgrid", "corpus", "pin", "small", "--root", str(tmp_path)]

    with _hub(files) as (address, asked):
        environment = os.environ | home | {"HF_ENDPOINT": address}
        pinned = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=180, check=False
        )
    assert pinned.returncode == 0, pinned.stderr
    done = prepare(corpus, **home, HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9")

    pins = layout.pins_file(tmp_path, "small").read_text()
    assert pins == f"{sha256(files['a.parquet']).hexdigest()}  a.parquet\n"
    assert not any("README" in path for path in asked)
    assert done.returncode == 0, done.stderr
    assert _made(tmp_path) == sorted(BODY)


def _made(root: Path) -> list[int]:
    """All tokens of the small corpus, sorted."""
    recipe = load_corpus(root, "small")
    folder = layout.corpus_folder(root / "volume", "small", recipe.digest)
    names = [layout.shard_name(n) for n in range(recipe.num_shards)]
    parts = [tokens_of(folder / name).tolist() for name in (layout.VALIDATION_SHARD, *names)]
    return sorted(token for part in parts for token in part)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "data set me/mine cannot be had"),
        ({"PYTHONPATH": "{without}"}, "huggingface_hub, which is not installed"),
    ],
)
def test_data_set_is_refused_when_it_cannot_be_had(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    """Without network and copy, or without the client, one sentence says what is missing."""
    corpus = declare(tmp_path)
    config = layout.section_file(tmp_path, "corpus", "small")
    config.write_text(
        f"source: {{dataset: me/mine, revision: {COMMIT}, glob: '*'}}\nnum_tokens: 9\n"
    )
    without = tmp_path / "without" / "huggingface_hub.py"
    without.parent.mkdir()
    without.write_text("raise ImportError('none here')\n")
    environment = {key: each.format(without=without.parent) for key, each in environment.items()}

    done = prepare(corpus, HF_HOME=str(tmp_path / "hub"), **environment)

    assert done.returncode == 78
    assert said in done.stderr
