"""Makes the plan: looks at the archive, the local results and the holds of others, once."""

from pathlib import Path

from quantgrid.archive import opened
from quantgrid.elsewhere import held_elsewhere
from quantgrid.lineage import Lineage
from quantgrid.plan import Plan
from quantgrid.receipts import vouch
from quantgrid.remembered import Remembered
from quantgrid.select import choose
from quantgrid.settings import Platform, Settings
from quantgrid.wanted import local_results


def make_plan(settings: Settings, lineage: Lineage, root: Path) -> Plan:
    """Look at the archive and the local results once.

    Raises:
        ArchiveRefusal: when the archive is not the one that holds this working copy's deposits.
    """
    archive = opened.of(settings, root)
    index = archive.index()
    identity, others = archive.find_identity(), archive.other_identities()
    vouch(root, index=index, archive=identity, address=archive.store.address, others=others)
    wanted = choose(lineage.grid.every, settings.select)
    local = local_results(root, lineage.grid.every)
    failed = Remembered(root, archive.store).fingerprints(lineage.owned())
    plan = Plan(lineage, index, local, wanted, failed)
    waits = settings.on_held == "wait"
    if waits:
        return plan
    held = held_elsewhere(lineage, index, archive.store, root, settings.platform)
    return plan.without(held)


def told(plan: Plan, volume: Path, platform: Platform) -> str:
    """The plan in words, with the links to come where a cap ends them."""
    if platform.cap_s is None:
        return plan.line()
    from quantgrid.links_ahead import sentence  # a desk without a cap does not pay for it

    return "\n".join(filter(None, (plan.line(), sentence(plan, volume, platform))))
