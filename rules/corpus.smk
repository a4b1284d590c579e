# Raw text becomes shards and a manifest; another process re-reads them and publishes the sentinel.


rule corpus:
    input:
        plan.sentinel,


rule prepare:
    input:
        plan.screens.prepare_input,
    output:
        layout.PREPARED,
    log:
        layout.log_of(layout.PREPARED),
    shell:
        "exec {plan.lines.prepare} {plan.places} --corpus {wildcards.corpus} --receipt {output} > {log} 2>&1"


rule seal:
    input:
        prepared=layout.PREPARED,
        cleared=plan.screens.seal_input,
    output:
        layout.SENTINEL,
    log:
        layout.log_of(layout.SENTINEL),
    resources:
        own_machine=1,  # what it vouches for has to be seen by another machine
    shell:
        "exec {plan.compute} seal {plan.places} --reload {plan.platform.reload:q} --corpus {wildcards.corpus} --prepared {input.prepared} --sentinel {output} > {log} 2>&1"
