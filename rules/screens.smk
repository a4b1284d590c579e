# Before money is spent: compile -> smoke -> probe -> budget -> clearance.
# Where nothing is paid they are offered (`snakemake screens`) and nothing waits for them.


localrules:
    screens,
    compile,
    smoke,
    budget,
    clearance,


rule screens:
    input:
        plan.screens.targets,


rule compile:
    output:
        layout.COMPILED,
    log:
        layout.log_of(layout.COMPILED),
    shell:
        "exec {plan.lines.compile} --grid {wildcards.grid} {plan.screens.select} --receipt {output} > {log} 2>&1"


rule smoke:
    output:
        layout.SMOKED,
    log:
        layout.log_of(layout.SMOKED),
    shell:
        "exec {plan.lines.smoke} --grid {plan.grid} {plan.screens.select} --receipt {output} > {log} 2>&1"


rule probe:
    input:
        plan.screens.probe_input,
    output:
        layout.PROBED,
    log:
        layout.log_of(layout.PROBED),
    resources:
        **plan.screens.probe_resources,
    shell:
        "exec {plan.lines.probe} --grid {plan.grid} --receipt {output} {wildcards.probe} > {log} 2>&1"


rule budget:
    input:
        plan.screens.budget_input,
    output:
        layout.BUDGET,
    log:
        layout.log_of(layout.BUDGET),
    shell:
        "exec {plan.quantgrid} budget {plan.screens.budget_options} --probed --receipt {output} > {log} 2>&1"


rule clearance:
    input:
        plan.screens.clearance_input,
    output:
        layout.CLEARANCE,
    log:
        layout.log_of(layout.CLEARANCE),
    shell:
        "exec {plan.quantgrid} screen clear --receipt {output} {input} > {log} 2>&1"
