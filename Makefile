# Needs Python 3.11 or newer, make and bash. Every target does its own set-up.

SHELL := /bin/bash
PYTHON := .venv/bin/python
READY := .venv/.ready
PEERS := .venv-peers

.DEFAULT_GOAL := help
.PHONY: help setup demo up test test-fast chaos check docs bench bench-search bench-peers fsck lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Install Foldex with everything it needs into .venv

# `value` keeps dollar signs as they were typed; the environment keeps spaces and quotes
demo: export DEMO_FOLDER := $(value FOLDER)
demo: export DEMO_QUERY := $(value QUERY)
demo: $(READY) ## Index a folder and query it: make demo [FOLDER=path] [QUERY="…"]
	@$(PYTHON) -m foldex demo $${DEMO_FOLDER:+--folder="$$DEMO_FOLDER"} $${DEMO_QUERY:+--query="$$DEMO_QUERY"}

up: $(READY) ## Run everything on this machine until Ctrl-C
	@$(PYTHON) -m foldex up

# Threads of numpy would wait for each other on few cores, and each of hundreds of processes would compile everything again.
test test-fast: export OMP_NUM_THREADS := 1
test test-fast: export OPENBLAS_NUM_THREADS := 1
test test-fast: export PYTHONDONTWRITEBYTECODE :=
# UMAP is compiled in 9 s instead of 33, and divides few points here.
test test-fast: export NUMBA_OPT := 0
test: $(READY) ## Run every test
	@$(PYTHON) -m tests

test-fast: $(READY) ## Run the unit and contract tests that end soon: at most three minutes on two cores
	@$(PYTHON) -m tests fast

chaos: $(READY) ## Kill, pause and deceive processes, stage by stage and at random: make chaos [SECONDS=600] [SEED=…]
	CHAOS_SECONDS="$(or $(SECONDS),600)" CHAOS_SEED="$(SEED)" $(PYTHON) -m pytest tests/chaos \
		tests/browser/test_page_link.py tests/integration/steps/test_equal_folders.py

check: $(READY) ## Check lint, format, types, layers, migrations and commit subjects
	$(PYTHON) -m tests.commit_subjects
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	.venv/bin/lint-imports
	.venv/bin/squawk schemas/migrations/*.sql

docs: $(READY) ## Write the reference from the code, and build docs/ as a site in .site/
	$(PYTHON) -m docs.generate
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

bench: $(READY) ## Run the benchmarks
	$(PYTHON) -m tests.bench

# threads of numpy would wait for each other on few cores
bench-search: $(READY) ## Measure search quality, compared with plain BM25 and plain vectors
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PYTHON) -m tests.bench.search

bench-peers: $(READY) $(PEERS)/.ready ## Index one folder with Foldex and with other indexers, side by side
	@$(PYTHON) -m tests.bench.peers $(PEERS)/bin/python

fsck: $(READY) ## Compare the vectors with Postgres: make fsck [TOOL=id] [REPAIR=1]
	@$(PYTHON) -m foldex fsck "$(or $(TOOL),--all)" $(if $(REPAIR),--repair)

# A release must be a week old: by then a poisoned one has been found out.
lock: $(READY) ## Resolve the dependencies and rewrite the requirements.lock files
	@set -euo pipefail; \
	place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; \
	$(PYTHON) -m venv "$$place"; \
	"$$place/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	    --only-binary :all: -r deploy/uv.lock; \
	week_ago=$$($(PYTHON) -c 'import datetime as d; print(d.date.today() - d.timedelta(7))'); \
	compile() { "$$place/bin/uv" pip compile --quiet --universal --python-version 3.11 \
	    --generate-hashes --no-header --exclude-newer "$$week_ago" "$$@"; }; \
	compile pyproject.toml --all-extras --output-file requirements.lock; \
	compile pyproject.toml --extra code --extra ocr --extra lancedb --extra local-model --extra multilingual --extra raptor \
	    --output-file deploy/requirements.lock; \
	compile tests/bench/peers/requirements.in --output-file tests/bench/peers/requirements.lock; \
	echo uv | compile --no-annotate - --output-file deploy/uv.lock

clean: ## Remove the virtual environment and all caches; data in .foldex/ stays
	rm -rf .venv $(PEERS) .site .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# Candidates are run, not only looked up: a version manager's shim may have no Python behind it.
# The shell reads what pip prints, because mawk would hold it back until it has 4 KiB.
$(READY): requirements.lock pyproject.toml
	@set -euo pipefail; \
	fits='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'; \
	for python in python3.13 python3.12 python3.11 python3 python none; do \
	    if "$$python" -c "$$fits" 2>/dev/null; then break; fi; \
	done; \
	if [ "$$python" = none ]; then \
	    echo "Foldex needs Python 3.11 or newer with venv (on Debian: apt-get install python3 python3-venv)." >&2; \
	    exit 1; \
	fi; \
	echo "Setting up (once, a few minutes) with $$("$$python" --version) …"; \
	$(PYTHON) -c '' 2>/dev/null || rm -rf .venv; \
	[ -e .venv ] || "$$python" -m venv .venv; \
	export PIP_DISABLE_PIP_VERSION_CHECK=1; \
	$(PYTHON) -m pip install --require-hashes --no-deps --only-binary :all: -r requirements.lock \
	    | { all=$$(grep -c '==' requirements.lock); n=0; while read -r word _; do case "$$word" in \
	        Collecting|Requirement) n=$$((n + 1)); [ $$((n % 25)) != 0 ] || echo "  $$n of $$all packages";; \
	        Installing) echo "  installing them (a minute or two)";; esac; done; }; \
	$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation -e .; \
	touch $@

# The other indexers have an environment of their own, as they need hundreds of packages that Foldex does not.
$(PEERS)/.ready: tests/bench/peers/requirements.lock $(READY)
	@rm -rf $(PEERS)
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	    --only-binary :all: -r $<
	@touch $@
