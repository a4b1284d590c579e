"""Bundles: equal sources are equal bytes, and nothing travels that must not."""

import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from quantgrid.errors import ConfigRefusal, DataFault, Refusal
from quantgrid.rental.bundle import Item, fetch_files, pack, put, put_files, unpack
from quantgrid.store.folder import FolderStore

IGNORED = "/results/\n/archive/\n*.weights\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A small working copy that git knows."""
    root = tmp_path / "copy"
    texts = {
        "Snakefile": "rule all:\n",
        "rules/cells.smk": "",
        "config/config.yaml": "grid: demo\n",
        "scripts/trunk.py": "print(1)\n",
        "src/quantgrid/a.py": "A = 1\n",
        "src/quantgrid/big.weights": "ignored",
        "src/quantgrid/__pycache__/a.pyc": "made",
        "src/quantgrid.egg-info/PKG-INFO": "made",
        "results/demo.csv": "ignored",
        "archive/blob": "ignored",
        "notes.txt": "nobody declared it",
        ".gitignore": IGNORED,
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q", root], check=True)  # noqa: S607
    return root


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """An empty store."""
    return FolderStore(tmp_path / "store")


def names(data: bytes) -> list[str]:
    """The files in a bundle."""
    return tarfile.open(fileobj=BytesIO(data)).getnames()


def test_bundle_has_the_sources_when_packed(copy: Path) -> None:
    """What a job needs is in it; nothing ignored, made, undeclared or of git is."""
    assert names(pack(copy).data) == [
        "Snakefile",
        "config/config.yaml",
        "rules/cells.smk",
        "scripts/trunk.py",
        "src/quantgrid/a.py",
    ]
    assert "notes.txt" in names(pack(copy, ["notes.txt"]).data)


def test_bundle_is_equal_when_only_times_and_order_differ(copy: Path, tmp_path: Path) -> None:
    """Another clone with other times, another owner's umask and no git has the same digest."""
    twin = tmp_path / "twin"
    for name in reversed(names(pack(copy).data)):
        path = twin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((copy / name).read_bytes())
        path.chmod(0o600)
        os.utime(path, (1, 1))

    assert pack(twin).digest == pack(copy).digest


@pytest.mark.parametrize("change", ["text", "name", "program"])
def test_bundle_differs_when_a_source_does(copy: Path, change: str) -> None:
    """A byte, a name and the right to be executed each make another bundle."""
    before, path = pack(copy).digest, copy / "scripts" / "trunk.py"
    if change == "text":
        path.write_text("print(2)\n")
    elif change == "name":
        path.rename(path.with_name("other.py"))
    else:
        path.chmod(0o755)

    assert pack(copy).digest != before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config/.env", "A=1"),
        ("scripts/id_ed25519", "hidden"),
        ("config/cloud.pem", "hidden"),
        ("config/config.yaml", "grid: demo\nkey: AKIA" + "A1B2" * 4 + "\n"),
        ("scripts/trunk.py", "KEY = '-----BEGIN " + "PRIVATE KEY-----'"),
        ("scripts/trunk.py", "KEY = 'rpa_" + "A" * 40 + "'"),
    ],
)
def test_bundle_is_refused_when_it_would_carry_a_secret(copy: Path, name: str, text: str) -> None:
    """A key never travels, and the refusal names its file and not the key."""
    (copy / name).write_text(text)

    with pytest.raises(Refusal, match="looks like a secret") as refused:
        pack(copy)
    assert name in str(refused.value)
    assert text not in str(refused.value)


def test_bundle_is_refused_when_it_is_too_large_or_a_link(copy: Path) -> None:
    """Data is not smuggled with sources, and a link does not point into the unknown."""
    with pytest.raises(Refusal, match=r"expected at most 20 bytes; seen \d+ bytes"):
        pack(copy, limit_bytes=20)

    (copy / "scripts" / "linked.py").symlink_to("/etc/passwd")
    with pytest.raises(Refusal, match="a link to /etc/passwd"):
        pack(copy)


def test_bundle_comes_out_as_it_went_in_when_unpacked(
    copy: Path, store: FolderStore, tmp_path: Path
) -> None:
    """Another machine sees the same tree, and packs the same bundle from it."""
    (copy / "scripts" / "trunk.py").chmod(0o755)
    bundle = pack(copy)
    assert put(store, bundle.data) == bundle.digest

    unpack(store, bundle.digest, tmp_path / "there")

    assert pack(tmp_path / "there") == bundle


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_bundle_is_refused_when_the_store_damaged_it(
    copy: Path, store: FolderStore, tmp_path: Path, damage: str
) -> None:
    """No folder appears when the bytes are not those of the digest."""
    digest = put(store, pack(copy).data)
    (path,) = [p for p in store.root.rglob(digest) if p.is_file()]
    path.unlink()
    if damage == "changed":
        path.write_bytes(b"other bytes")

    with pytest.raises(DataFault, match="not in the store as it was put there"):
        unpack(store, digest, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_files_travel_when_they_are_small(copy: Path, store: FolderStore, tmp_path: Path) -> None:
    """Inputs go and outputs come by the same way, and each is what it was."""
    items = put_files(store, copy, ["Snakefile", "config/config.yaml"])

    fetch_files(store, tmp_path / "there", items)

    assert (tmp_path / "there" / "config" / "config.yaml").read_text() == "grid: demo\n"
    with pytest.raises(Refusal, match="too large"):
        put_files(store, copy, ["Snakefile", "config/config.yaml"], limit_bytes=15)


def test_files_are_published_all_or_none_when_one_is_damaged(
    copy: Path, store: FolderStore, tmp_path: Path
) -> None:
    """A lost second file leaves the first one unpublished."""
    items = (*put_files(store, copy, ["Snakefile"]), Item("config/x", "0" * 64, 1))

    with pytest.raises(DataFault, match="config/x is not in the store"):
        fetch_files(store, tmp_path / "there", items)
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "../escape", "a/../../escape", ""])
def test_files_are_refused_when_they_lead_outside(
    store: FolderStore, tmp_path: Path, path: str
) -> None:
    """A machine cannot write beside the working copy."""
    digest = put(store, b"x")

    with pytest.raises(ConfigRefusal, match="outside of the working copy"):
        fetch_files(store, tmp_path, [Item(path, digest, 1)])
