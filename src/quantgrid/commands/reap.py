"""`quantgrid reap`: find machines of ours that no lease wants, and end them when told to."""

import argparse
import sys
from pathlib import Path

from quantgrid.errors import PlatformFault, QuantgridError
from quantgrid.load import load_settings
from quantgrid.rental.clearing import Patience, end_machines, look
from quantgrid.rental.facts import Facts
from quantgrid.rental.reach import connect
from quantgrid.rental.reaping import Finding
from quantgrid.rental.register import Register
from quantgrid.rental.settling import Settling
from quantgrid.rental.stepping import rented
from quantgrid.store import open_store
from quantgrid.wording import agreeing, counted

HELP = "find rented machines that no lease wants; ends them only with --end, and confirms it"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--root", type=Path, default=Path(), help="folder of the Snakefile")
    parser.add_argument("--platform", help="look there only; everywhere by default")
    parser.add_argument("--end", action="store_true", help="end what is found, and confirm it")
    parser.add_argument("--wait-s", type=float, default=600.0, help="how long to wait for the end")


def main(options: argparse.Namespace) -> int:
    """Look on every platform that the configuration knows, and ask for the bills of what ended.

    Raises:
        PlatformFault: when a machine is still there after the wait.
    """
    root = options.root.absolute()
    register = Register(open_store(load_settings(root, {}).archive, root))
    code = 0
    for facts in rented(root):
        if options.platform in {None, facts.name}:
            code = max(code, _reap(facts, register, options))
    return code


def _reap(facts: Facts, register: Register, options: argparse.Namespace) -> int:
    try:
        platform = connect(facts)
        found = look(platform, register)
        now_s = register.store.now().timestamp()
        Settling(platform, register).go(register.books(), platform.whoami().id, now_s)
    except QuantgridError as error:  # the others are looked at all the same
        print(error, file=sys.stderr)
        return error.exit_code
    for each in found:
        print(_line(facts, each))
    meant = [each for each in found if each.is_reapable]
    if not meant or not options.end:
        print(_sum(facts, found, meant))
        return 0
    left = end_machines(platform, register, meant, Patience(options.wait_s))
    if left:
        raise PlatformFault(
            f"machines of {facts.name} do not end",
            seen=", ".join(each.id for each in left),
            do="They were asked again and again; end them in the platform's console.",
        )
    gone = agreeing(len(meant), "it is gone", "all of them are gone")
    print(f"{facts.name}: ended {counted(len(meant), 'machine')}, and {gone}.")
    return 0


def _line(facts: Facts, finding: Finding) -> str:
    mark = "reapable" if finding.is_reapable else "kept"
    return f"{facts.name} {finding.machine.id} {finding.machine.state} {mark}: {finding.why}"


def _sum(facts: Facts, found: tuple[Finding, ...], meant: list[Finding]) -> str:
    machines = counted(len(found), "machine")
    if meant:
        return f"{facts.name}: {len(meant)} of {machines} may be ended: --end does it."
    return f"{facts.name}: {machines} of ours, and none that nobody wants."
