"""Writes the parts of documents that code already knows, so that they cannot go stale unseen.

A document holds `<!-- generated: NAME -->`, text, `<!-- end -->`; `BLOCKS[NAME]` is the text.

    python docs/generate.py            rewrite what differs (part of `make fix`)
    python docs/generate.py --check    name what differs and exit with 1 (part of `make check`)
"""

import argparse
import ast
import configparser
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from quantgrid import contract, diagnosis, errors, own_script

if TYPE_CHECKING:
    from rehearsal.narrator.scenes import Scene

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def contract_table() -> str:
    """The environment variables of the cell contract."""
    rows = [(f"`{each.name}`", each.meaning, f"`{each.example}`") for each in contract.TABLE]
    return _table(("variable", "meaning", "example"), rows)


def exit_codes() -> str:
    """Every class of error with its exit code and failure class."""
    rows = [("done", errors.EXIT_DONE, "", "")]
    rows += [
        (each.__name__, each.exit_code, each.failure_class, (each.__doc__ or "").split("\n")[0])
        for each in _descendants(errors.QuantgridError)
    ]
    return _table(("outcome", "exit code", "failure class", "meaning"), rows)


def failure_classes() -> str:
    """Every failure class, and whether it is remembered."""
    rows = [(each.value, "yes" if each.is_remembered else "no") for each in errors.FailureClass]
    return _table(("failure class", "remembered until the fingerprint changes"), rows)


def layers() -> str:
    """The modules of the plumbing, from the top layer down, each with its own first sentence."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / ".importlinter")
    lines = settings["importlinter:contract:layers"]["layers"].strip().splitlines()
    rows = [
        (number, f"`{name}`", _first_sentence(path))
        for number, line in enumerate(reversed(lines), start=1)
        for name in re.findall(r"\w+", line)
        if (path := _module(f"quantgrid/{name}"))
    ]
    return _table(("layer", "module", "what it is"), list(reversed(rows)))


def science() -> str:
    """The modules of the science and the scripts, each with its own first sentence."""
    package = ROOT / "src" / "quantlm"
    paths = [*sorted((ROOT / "scripts").glob("*.py")), *sorted(package.rglob("*.py"))]
    rows = [
        (f"`{path.relative_to(ROOT).as_posix().removeprefix('src/')}`", _first_sentence(path))
        for path in paths
        if _first_sentence(path)
    ]
    return _table(("file", "what it is"), rows)


def commands() -> str:
    """The commands of `quantgrid`, each with the sentence of its own help."""
    folder = ROOT / "src" / "quantgrid" / "commands"
    found = sorted(module.name for module in pkgutil.iter_modules([str(folder)]))
    names = [name for name in found if not name.startswith("_")]
    return _table(
        ("command", "what it does"),
        [
            (f"`quantgrid {name.replace('_', '-')}`", _constant(folder / f"{name}.py", "HELP"))
            for name in names
        ],
    )


def layout_tables() -> str:
    """The paths of the project as the modules of layout spell them, section by section."""
    modules = sorted((ROOT / "src" / "quantgrid" / "layout").glob("*.py"))
    text = "\n".join(path.read_text() for path in modules)
    parts = re.split(r"^# -- (.+?) -+$", text, flags=re.MULTILINE)[1:]
    return "\n\n".join(
        f"### {title.strip().capitalize()}\n\n{table}"
        for title, body in zip(parts[::2], parts[1::2], strict=True)
        if (table := _layout_section(body))
    )


def decisions() -> str:
    """The decision records in order, each with its title."""
    files = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    titles = [path.read_text().split("\n", 1)[0].removeprefix("# ") for path in files]
    return "\n".join(f"- [{title}]({path.name})" for title, path in zip(titles, files, strict=True))


def places() -> str:
    """The names that an attempt of a program of its own fills in."""
    rows = [(f"`{{{name}}}`", meaning) for name, meaning in own_script.PLACES.items()]
    return _table(("name", "value"), rows)


def failure_kinds() -> str:
    """The kinds of failures that show in a script's last words."""
    rows = [(each.name, each.failure_class.value, each.meaning) for each in diagnosis.KINDS]
    return _table(("kind", "class", "meaning"), rows)


def incidents() -> str:
    """Every incident that a test plays: what happened, what stops it, and what remains."""
    sys.path.append(str(ROOT))  # the narrator of `make rehearse` reads the same
    from rehearsal.narrator import scenes

    return "\n\n".join(map(_incident, scenes.all_of(ROOT / "tests" / "incidents")))


def _incident(scene: "Scene") -> str:
    said = [f"**{label}:** {_lines(text)}" for label, text in scene.said.items()]
    test = f"Played by [{scene.name}.py](tests/incidents/{scene.name}.py):"
    played = "\n".join([test, "", *(f"- {line}" for line in scene.plays.values())])
    return "\n\n".join([f"## {scene.title}", *said, played])


def _lines(text: str) -> str:
    """One sentence a line."""
    return re.sub(r"(?<=[a-z)`])\. (?=[A-Z`])", ".\n", text)


def guards() -> str:
    """Guards that a nightly takes out, each with the test that has to fall."""
    sys.path.append(str(ROOT / "tests"))
    from guards.removed import MUTATIONS

    rows = [
        (each.guard, ", ".join(f"`{file}`" for file, _, _ in each.edits), f"`{each.test}`")
        for each in MUTATIONS
    ]
    return _table(("guard", "taken out of", "what falls"), rows)


def messages() -> str:
    """Every sentence of a refusal or fault that code spells, with its advice."""
    kinds = {each.__name__: each for each in _descendants(errors.QuantgridError)}
    found = {
        row
        for path in sorted((ROOT / "src" / "quantgrid").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if (row := _message(node, kinds))
    }
    return _table(("class", "what you read", "what to do"), sorted(found))


def _message(
    node: ast.AST, kinds: Mapping[str, type[errors.QuantgridError]]
) -> tuple[str, str, str] | None:
    """Class, sentence and advice of a call that makes an error; None for any other node."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    what = _spelled(node.args[0])
    if name not in kinds or not what:
        return None
    advice = next((_spelled(each.value) for each in node.keywords if each.arg == "do"), "")
    return name, f"{kinds[name].word}: {what}", advice


def _spelled(node: ast.expr) -> str:
    """A text as it reads, with `...` for what only the moment knows."""
    match node:
        case ast.Constant(value=str(text)):
            return " ".join(text.split()).replace("|", "\\|")
        case ast.JoinedStr(values=values):
            parts = [_spelled(each) or "..." for each in values]
            return "".join(part for part, _ in groupby(parts))
        case ast.BinOp(left=left, right=right):
            return _spelled(left) + _spelled(right)
    return ""


def platforms() -> str:
    """Settings of platforms whose file says where their value comes from."""
    line = re.compile(r"^ *-? *([\w]+): +([^#{}]*?) +# (.+)$")
    rows = [
        (path.stem, f"`{found[1]}`", found[2] or "", found[3].replace("|", "\\|"))
        for path in sorted((ROOT / "config" / "platforms").glob("*.yaml"))
        for text in path.read_text().splitlines()
        if (found := line.match(text))
    ]
    return _table(("file", "setting", "value", "what for, or who says so"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "contract": contract_table,
    "exit-codes": exit_codes,
    "failure-classes": failure_classes,
    "failure-kinds": failure_kinds,
    "layers": layers,
    "science": science,
    "commands": commands,
    "layout": layout_tables,
    "decisions": decisions,
    "places": places,
    "incidents": incidents,
    "guards": guards,
    "messages": messages,
    "platforms": platforms,
}


def rewritten(text: str) -> str:
    """A document with all its generated blocks as they should be.

    Raises:
        KeyError: when a document asks for a block that nobody generates.
    """
    return BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match['name']]()}\n{match[3]}", text)


def main() -> int:
    """Rewrite or check every document; the exit code is 1 when a check found a difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="only name what differs")
    parser.add_argument("documents", nargs="*", type=Path, help="default: all of the project")
    arguments = parser.parse_args()
    paths = arguments.documents or [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    stale = [path for path in paths if rewritten(path.read_text()) != path.read_text()]
    for path in stale:
        print(f"{'differs' if arguments.check else 'written'}: {path}")
        if not arguments.check:
            path.write_text(rewritten(path.read_text()))
    return 1 if stale and arguments.check else 0


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def _descendants(kind: type[errors.QuantgridError]) -> Iterator[type[errors.QuantgridError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _descendants(each)


def _module(name: str) -> Path | None:
    base = ROOT / "src" / name
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


def _first_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(docstring.split("\n\n")[0].split()).replace("|", "\\|")


def _constant(path: Path, name: str) -> str:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return str(ast.literal_eval(node.value))
    return ""


def _layout_section(body: str) -> str:
    rows: list[tuple[object, ...]] = []
    for node in ast.parse(body).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(path))):
                rows.append((f"`{name}`", f"`{path}`"))
            case ast.FunctionDef(name=name):
                rows.append((f"`{name}()`", ast.get_docstring(node) or ""))
    return _table(("name in `layout`", "path or meaning"), rows) if rows else ""


if __name__ == "__main__":
    sys.exit(main())
