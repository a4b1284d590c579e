"""The command lines of the rules: of those that run here, and of those that run on machines.

A line for a machine names nothing of this one: its first process provides `python`, the working
copy as current folder, and the folder of the volume in a variable.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from quantgrid import durability, layout
from quantgrid.archive import opened
from quantgrid.settings import Platform, Settings

_VOLUME = "QG_VOLUME"
"""Where a machine mounts the volume; set by its first process (docs/formats/rental.md)."""


class Lines(NamedTuple):
    """How rules call programs, quoted for a shell.

    Args:
        code: Folder of the Snakefile.
        root: The working copy.
        settings: What to run.
        platform: Where the rules that compute run.
    """

    code: Path
    root: Path
    settings: Settings
    platform: Platform

    @property
    def here(self) -> str:
        """The command `quantgrid` on this machine."""
        return f"{shlex.quote(sys.executable)} -m quantgrid"

    @property
    def there(self) -> str:
        """The command `quantgrid` where the rules that compute run."""
        return "python -m quantgrid" if self._is_rented else self.here

    @property
    def places(self) -> str:
        """Options that name the code and the volume there."""
        if self._is_rented:
            return f'--root . --volume "${_VOLUME}"'
        volume = self.root / self.settings.volume
        return shlex.join(["--root", str(self.code), "--volume", str(volume)])

    @property
    def prepare(self) -> str:
        """The script that makes shards of text, with the science beside it."""
        if self._is_rented:
            return f"python {shlex.quote(str(layout.script(Path(), 'prepare')))}"
        return self._script("prepare")

    @property
    def compile(self) -> str:
        """The script that tries all science of a grid here, with that science beside it."""
        return f"{self._script('compile')} --root {shlex.quote(str(self.code))}"

    def _script(self, name: str) -> str:
        before = os.environ.get("PYTHONPATH")
        path = [str(layout.source_root(self.code)), *([before] if before else [])]
        script = str(layout.script(self.code, name))
        return shlex.join(["env", f"PYTHONPATH={os.pathsep.join(path)}", sys.executable, script])

    @property
    def smoke(self) -> str:
        """The smoke screen here."""
        return f"{self.here} screen smoke --root {shlex.quote(str(self.code))}"

    @property
    def probe(self) -> str:
        """The probe where the rules that compute run."""
        root = "." if self._is_rented else shlex.quote(str(self.code))
        return f"{self.there} screen probe --root {root} --platform {self.platform.name}"

    @property
    def archive(self) -> str:
        """The options that name the archive here, and those that are read as well."""
        return shlex.join(opened.words(self.settings))

    @property
    def run(self) -> str:
        """The runner with everything that is not the job's own."""
        machine = durability.machine(self.platform, waits=self.settings.on_held == "wait")
        archive = self._archive_there if self._is_rented else self.archive
        watch = shlex.join(self.settings.watch.options())
        pays = " --pays" if self.platform.is_paid and not self._is_rented else ""
        return f"{self.there} run {self.places} {archive} {machine} {watch}".rstrip() + pays

    @property
    def _archive_there(self) -> str:
        return shlex.join(opened.words(self.settings, within=self.root))

    @property
    def _is_rented(self) -> bool:
        return self.platform.rented is not None
