"""A small grid with the rule names of the project, whose jobs say how far they are and stop."""

FP = "0123456789abcdef0f1e2d3c4b5a69780123456789abcdeffedcba9876543210"

SNAKEFILE = r"""
import sys
from quantgrid.terminal import Grid, announce
configfile: "config.json"
FP = config["fp"]
VARIANTS = ["none", "rtn-w3g32-noclip", "qat-ternary-row-absmean"]
JOB = f"exec {sys.executable} -I -S job.py"
announce(Grid("demo", 105, 60))
localrules: all, fold
wildcard_constraints: variant="[^/.]+", base="[^/]+", grid="[a-z]+"

rule all:
    input: "results/demo.csv"
rule milestone:
    output: "receipts/trunk/{trunk}/{milestone}.{fp}.json"
    log: "logs/trunk/{trunk}/{milestone}.{fp}.log"
    shell: "{JOB} trunk n0-s0/79872 {output} 2> {log}"
rule base:
    input: f"receipts/trunk/n0-s0/79872.{FP}.json"
    output: "receipts/cell/{base}/none.{fp}.json"
    log: "logs/cell/{base}/none.{fp}.log"
    shell: "{JOB} cooldown {wildcards.base}/none {output} 2> {log}"
rule quantise:
    input: "receipts/cell/{base}/none.{fp}.json"
    output: "receipts/cell/{base}/{variant}.{fp}.json"
    wildcard_constraints: variant="rtn[^/.]+"
    log: "logs/cell/{base}/{variant}.{fp}.log"
    shell: "{JOB} quantise {wildcards.base}/{wildcards.variant} {output} 2> {log}"
rule qat:
    input: f"receipts/trunk/n0-s0/79872.{FP}.json"
    output: "receipts/cell/{base}/{variant}.{fp}.json"
    wildcard_constraints: variant="qat[^/.]+"
    log: "logs/cell/{base}/{variant}.{fp}.log"
    shell: "{JOB} qat {wildcards.base}/{wildcards.variant} {output} 2> {log}"
rule fold:
    input: f"receipts/cell/{{base}}/{{variant}}.{FP}.json"
    output: "results/{base}/{variant}/result.json"
    log: "logs/fold/{base}/{variant}.log"
    shell: "cp {input} {output} 2> {log}"
rule table:
    input: expand("results/n0-t100k-s0/{variant}/result.json", variant=VARIANTS)
    output: "results/{grid}.csv"
    log: "logs/{grid}.log"
    shell: "{JOB} table {wildcards.grid} {output} 2> {log}"

onsuccess: print("a hook speaks", file=sys.stderr)
"""

JOB = r"""
import json, os, sys
stage, cell, output = sys.argv[1:]
config = json.load(open("config.json"))
facts = {"cell": cell, "stage": stage, "step": 120, "steps": 391, "loss": 2.4123,
         "tokens_per_s": 38123, "left_s": 42.2}
where = config["progress"].replace("OUTPUT", output.replace("/", "~"))
with open(where + ".tmp", "w") as file:
    json.dump(facts, file)
os.replace(where + ".tmp", where)
if stage in config["held"]:
    open(f"go-{stage}").read()  # a FIFO: the test opens it when it has seen enough
print("step 120", file=sys.stderr)
if stage in ("trunk", "table"):
    print(f"{stage} speaks", flush=True)  # into the terminal, between two frames
fate = config["fates"].get(stage)
if fate == "refuses":
    what = "a shard is short; expected 9; seen 8. Make it: `snakemake --profile local corpus`."
    sys.exit(print(f"refused: {what}", file=sys.stderr) or 78)
if fate == "raises":
    raise ValueError("step 12 has no loss")
if fate != "forgets":
    open(output, "w").write("{}")
"""
