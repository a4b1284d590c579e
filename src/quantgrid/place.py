"""What is refused of a call: its place, its options, a configuration that is no YAML."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quantgrid import layout, yaml_lines
from quantgrid.errors import ConfigRefusal


def refuse_early(snakemake: Any) -> None:
    """Refuse what Snakemake would tell badly, or not at all, when it reads the configuration.

    Raises:
        ConfigRefusal: see below.
    """
    code = Path(snakemake.basedir).resolve()
    refuse_unreadable(code)
    if snakemake.is_main_process:
        refuse_unnamed(Path.cwd(), code, is_named=snakemake.overwrite_workdir is not None)


def refuse_unreadable(code: Path) -> None:
    """Refuse a configuration that is no YAML: Snakemake would name neither the file nor the line.

    Raises:
        ConfigRefusal: naming both.
    """
    yaml_lines.read(code / layout.CONFIG, root=code)


def refuse_unnamed(root: Path, code: Path, *, is_named: bool) -> None:
    """Refuse to begin a second working copy where nobody said that there shall be one.

    Args:
        root: The folder that Snakemake works in.
        code: The folder of the Snakefile.
        is_named: Whether `--directory` named the former.

    Raises:
        ConfigRefusal: when Snakemake was called from elsewhere with `--snakefile` alone.
    """
    if root != code and not is_named:
        raise ConfigRefusal(
            "Snakemake was called outside of the working copy, so nothing was planned",
            expected=code,
            seen=root,
            do="Change into that folder; "
            "`--directory .` keeps archive, volume and results of a second working copy here.",
        )


def foreign_profiles(named: Iterable[tuple[str, Path]], code: Path) -> list[str]:
    """One sentence for each profile that belongs to another working copy.

    `snakemake --profile local` follows a link in the user's folder, which has room for one copy:
    in a second one its settings, such as cores and the platform, would silently be the first's.

    Args:
        named: What was typed, and the folder that Snakemake found for it.
        code: The folder of the Snakefile.
    """
    found = [(typed, folder.resolve()) for typed, folder in named]
    return [
        f"profile {typed} is that of {folder.parent.parent}, not of this working copy: "
        f"use `--profile {_own(folder.name, code)}`"
        for typed, folder in found
        if folder.parent.parent != code and (folder.parent.parent / layout.CONFIG).is_file()
    ]


def _own(name: str, code: Path) -> str:
    """The profile of a name in the folder of the Snakefile, as it is typed here."""
    relative = layout.profile(name)
    return relative if Path.cwd() == code else str(code / relative)


def refuse_partial_files(execution: Any) -> None:
    """Refuse to keep what a failed job left: Snakemake takes it for finished afterwards.

    Raises:
        ConfigRefusal: when Snakemake was called with `--keep-incomplete`.
    """
    if execution.keep_incomplete:
        raise ConfigRefusal(
            "--keep-incomplete lets a part of a file count as the whole, so nothing was started",
            do="Leave it out; what a failed job says is in its log, and its work in the archive.",
        )
