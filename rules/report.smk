# Verified records become a table and its laws; those become plots and one page.

IN_TABLES = {"category": "Tables", "subcategory": "{grid}"}
IN_PLOTS = {"category": "Plots", "subcategory": "{grid}"}
IN_PAGES = {"category": "Page", "subcategory": "{grid}"}
CELLS = {"caption": "../docs/report/table.rst", "labels": {"table": "all cells"}}
LAWS = {"caption": "../docs/report/laws.rst", "labels": {"table": "laws"}}
PAGE = {"caption": "../docs/report/page.rst", "labels": {"page": "answers"}}
BITS = {"caption": "../docs/report/bits.rst", "labels": {"plot": "loss against bits"}}
DAMAGE = {
    "caption": "../docs/report/damage.rst",
    "labels": {"plot": "damage against training tokens"},
}
SIZE = {"caption": "../docs/report/size.rst", "labels": {"plot": "size against loss"}}


rule table:
    input:
        wanted=plan.targets.wanted_file,
        cells=plan.targets.table_cells,
    output:
        table=report(layout.TABLE, **CELLS, **IN_TABLES),
        laws=report(layout.LAWS, **LAWS, **IN_TABLES),
    log:
        layout.log_of(layout.LAWS),
    shell:
        "exec {plan.quantgrid} table --wanted {input.wanted} --out {output.table} --laws {output.laws} > {log} 2>&1"


rule report:
    input:
        wanted=plan.targets.wanted_file,
        tables=plan.targets.page_tables,
    output:
        page=report(layout.PAGE, **PAGE, **IN_PAGES),
        bits=report(layout.PLOTS["bits"], **BITS, **IN_PLOTS),
        damage=report(layout.PLOTS["damage"], **DAMAGE, **IN_PLOTS),
        size=report(layout.PLOTS["size"], **SIZE, **IN_PLOTS),
    log:
        layout.log_of(layout.PAGE),
    shell:
        "exec {plan.quantgrid} report --wanted {input.wanted} --table {input.tables[0]} --laws {input.tables[1]} --out {output.page} {plan.lines.archive} > {log} 2>&1"
