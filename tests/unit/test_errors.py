"""Errors carry the exit code that the outside acts on, and one sentence that a person acts on."""

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from core_parts import BOUND_S, python, python_path
from quantgrid import entry, errors
from quantgrid.errors import DataFault, FailureClass, PlatformFault, QuantgridError, Refusal


def _kinds(kind: type[QuantgridError] = QuantgridError) -> list[type[QuantgridError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _kinds(below))]


def test_errors_are_in_the_drawing_when_declared() -> None:
    """The tree in the docstring shows each class with its exit code and failure class."""
    rows = {line.split("-- ")[-1].split()[0]: line.split() for line in _drawing()}
    for kind in set(_kinds()) - {QuantgridError}:
        assert str(kind.exit_code) in rows[kind.__name__]
        assert kind.failure_class.value in rows[kind.__name__]


def _drawing() -> list[str]:
    return [line for line in (errors.__doc__ or "").splitlines() if "-- " in line]


def test_exit_codes_mean_what_the_contract_says() -> None:
    """75 is run me again, every refusal is 78, and no code is taken by a shell or a signal."""
    assert errors.Checkpointed.exit_code == 75
    assert {kind.exit_code for kind in _kinds(Refusal)} == {78}
    assert all(64 <= kind.exit_code <= 78 for kind in _kinds())
    assert not {kind.exit_code for kind in _kinds(errors.Fault)} & {75, 76, 78, 0}


def test_failures_are_remembered_when_they_would_happen_again() -> None:
    """Code, data and refusals fail again for the same fingerprint; the rest may pass."""
    remembered = {each for each in FailureClass if each.is_remembered}

    assert remembered == {FailureClass.CODE, FailureClass.DATA, FailureClass.REFUSAL}


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({}, "refused: no."),
        ({"expected": 3, "seen": 0}, "refused: no; expected 3; seen 0."),
        ({"where": "f:1", "do": "Mend it."}, "refused: no (f:1). Mend it."),
        ({"seen": "", "do": "Go."}, "refused: no; seen . Go."),
        ({"expected": "a, or b?", "do": "Go."}, "refused: no; expected a, or b? Go."),
    ],
)
def test_message_is_one_sentence_when_parts_are_given(
    parts: dict[str, object], sentence: str
) -> None:
    """What, expected and seen, where, and what to do next, in this order."""
    assert str(Refusal("no", **parts)) == sentence  # type: ignore[arg-type]


# -- the entry ------------------------------------------------------------------------------------


def _raise(error: BaseException) -> int:
    raise error


def test_entry_gives_the_code_when_a_program_ends() -> None:
    """Nothing is success; a number is itself."""
    assert entry.code_of(lambda: None) == 0
    assert entry.code_of(lambda: 65) == 65


def test_entry_tells_the_sentence_when_the_error_is_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line on standard error, no traceback, the error's own code."""
    assert entry.code_of(lambda: _raise(DataFault("torn", seen=2))) == 65

    assert capsys.readouterr() == ("", "failed: torn; seen 2.\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_entry_blames_the_machine_when_it_has_no_room(
    capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """A full or dead disk is no defect of the program: its file is named."""
    error = OSError(number, os.strerror(number), "/disk/file")

    assert entry.code_of(lambda: _raise(error)) == PlatformFault.exit_code
    said = capsys.readouterr().err
    assert os.strerror(number) in said
    assert "/disk/file" in said


@pytest.mark.parametrize("error", [KeyError("x"), FileNotFoundError(2, "no", "f"), ValueError()])
def test_entry_keeps_the_traceback_when_the_error_is_a_defect(error: Exception) -> None:
    """What is not ours goes on: the traceback is evidence."""
    with pytest.raises(type(error)):
        entry.code_of(lambda: _raise(error))


@pytest.mark.parametrize("size", [10, 10_000_000])
def test_entry_ends_in_silence_when_nobody_reads(tmp_path: Path, size: int) -> None:
    """A reader that left early is no error worth a line, however much was left to say."""
    text = (
        "import os, subprocess, sys\n"
        "reader, writer = os.pipe(); os.close(reader)\n"
        f"code = 'from quantgrid import entry; entry.run(lambda: print(\"x\" * {size}))'\n"
        "done = subprocess.run([sys.executable, '-c', code], stdout=writer, stderr=-1, text=True)\n"
        "print(done.returncode, repr(done.stderr))\n"
    )
    assert python(text, cwd=tmp_path, PYTHONUNBUFFERED="") == (0, "141 ''\n")


@pytest.mark.parametrize(
    ("encoding", "close", "said"),
    [("ascii", "", "gr\\xfcn\\udcff\n"), ("utf-8", "", "grün\\udcff\n"), ("utf-8", ">&-", "")],
)
def test_entry_says_what_it_can_when_the_terminal_is_poor(
    tmp_path: Path, encoding: str, close: str, said: str
) -> None:
    """A poor alphabet shows codes; a closed output loses the words, and no file gets them."""
    code = (
        "import os, sys; from quantgrid import entry\n"
        "def main():\n"
        "    print('gr\\u00fcn\\udcff')\n"
        "    with open('file', 'w') as file:\n"
        "        os.write(1, b'')\n"
        "        return 0 if file.fileno() > 2 else 9\n"
        "entry.run(main)\n"
    )
    (tmp_path / "program.py").write_text(code)
    line = f"{shlex.quote(sys.executable)} program.py {close}"
    extra = {**os.environ, **python_path(), "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=tmp_path,
        env=extra,
        capture_output=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, said, b"")


@pytest.mark.parametrize(
    "number",
    [errno.EACCES, errno.EPERM, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG],
)
def test_entry_tells_a_command_from_a_script_when_a_file_is_not_its_own(
    capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """Somebody else's folder is no defect of a command; in a script of a cell it is."""
    error = OSError(number, os.strerror(number), "/others/file")

    with pytest.raises(SystemExit) as caught:
        entry.run(lambda: _raise(error))
    assert caught.value.code == PlatformFault.exit_code
    assert f"seen {os.strerror(number)} (/others/file)" in capsys.readouterr().err
    with pytest.raises(OSError, match="/others/file"):
        entry.code_of(lambda: _raise(error))


def test_entry_says_so_when_the_current_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody removed it meanwhile, or checked out another branch."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(SystemExit) as caught:
        entry.run(lambda: len(str(Path.cwd())))
    assert caught.value.code == PlatformFault.exit_code
    assert "(the current folder)" in capsys.readouterr().err


def test_entry_exits_when_run() -> None:
    """`run` ends the process with the program's code."""
    with pytest.raises(SystemExit) as caught:
        entry.run(lambda: 7)
    assert caught.value.code == 7
    assert sys.exc_info() == (None, None, None)
