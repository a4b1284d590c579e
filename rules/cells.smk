# One job makes one record: a milestone of a trunk, or the weights of a cell and their evaluation.
# Receipts name the record; parents that the archive holds already are not inputs.
# Jobs inherit TMPDIR: to ask Snakemake for it takes a twentieth of a plan (bench/plan.py).


rule milestone:
    input:
        plan.milestone_input,
    output:
        layout.TRUNK_RECEIPT,
    log:
        layout.log_of(layout.TRUNK_RECEIPT),
    resources:
        tmpdir=None,
    params:
        job=plan.milestone_job,
    shell:
        "exec {plan.run} --threads {threads} --receipt {output} {params.job:q} > {log} 2>&1"


rule base:
    input:
        plan.cell_input,
    output:
        layout.CELL_RECEIPT,
    log:
        layout.log_of(layout.CELL_RECEIPT),
    wildcard_constraints:
        variant=plan.variants("base"),
    resources:
        tmpdir=None,
    params:
        job=plan.cell_job,
    shell:
        "exec {plan.run} --threads {threads} --receipt {output} {params.job:q} > {log} 2>&1"


use rule base as quantise with:
    wildcard_constraints:
        variant=plan.variants("quantise"),


use rule base as qat with:
    wildcard_constraints:
        variant=plan.variants("qat"),


use rule base as own with:
    wildcard_constraints:
        variant=layout.OWN_VARIANT,


rule evaluate:
    input:
        plan.evaluation_input,
    output:
        layout.EVALUATION_RECEIPT,
    log:
        layout.log_of(layout.EVALUATION_RECEIPT),
    resources:
        tmpdir=None,
    params:
        job=plan.evaluation_job,
    shell:
        "exec {plan.run} --threads {threads} --receipt {output} {params.job:q} > {log} 2>&1"
