# The only rule that writes results: it brings the record of a cell back from the archive.


rule fold:
    input:
        plan.fold_input,
    output:
        layout.RESULT,
    log:
        layout.log_of(layout.RESULT),
    resources:
        tmpdir=None,
    params:
        record=plan.record,
    shell:
        "exec {plan.quantgrid} fold {params.record} {plan.lines.archive} --out {output} > {log} 2>&1"
