# Cells become results/<base>/<variant>/result.json; a whole grid becomes results/<grid>.csv and
# results/<grid>.html.  Rules move receipts; weights and states lie in the archive (ARCHITECTURE.md).

from pathlib import Path

from snakemake.utils import min_version

from quantgrid import layout
from quantgrid.workflow import Workflow

min_version("9.27")
Workflow.check(workflow)


configfile: Path(workflow.basedir) / layout.CONFIG


report: "docs/report/workflow.rst"


plan = Workflow.open(config, workflow)


wildcard_constraints:
    **layout.WILDCARDS,


localrules:
    all,
    corpus,
    fold,
    table,
    report,


rule all:
    input:
        plan.targets.asked,


include: "rules/corpus.smk"
include: "rules/screens.smk"
include: "rules/cells.smk"
include: "rules/archive.smk"
include: "rules/report.smk"


onstart:
    plan.start(workflow)


onsuccess:
    plan.end(is_done=True)


onerror:
    plan.end(is_done=False)
