# The entry point for every task. A target installs what it needs first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
PYTHON := $(BIN)/python
STAMP := .venv/.installed
# Compiled with a Java runtime, and no JDK.
DATA_SOURCE := operator/penstock/local/tools/penstock-kafka.jar
DEMO_STAMP := .venv/.installed-demo
# Processes that share the tests of a run: one for the cluster, and three for two cores, because
# every test waits. Each has its own JVM and broker.
WORKERS ?= 4
# When make began, in seconds since 1970.
STARTED := $(shell date +%s)

.PHONY: help demo demo-cluster check test test-all prepare tools static lint types images push wheel data-source generate lock docs bench-latency format cluster-up cluster-down clean

help: ## Show the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

demo: $(DEMO_STAMP) ## Run a stream on this machine, kill its driver, watch the recovery: needs Python only
	@$(MAKE) --silent $(DATA_SOURCE)
	$(PYTHON) -m demo.laptop

demo-cluster: $(STAMP) ## The same with the operator on a kind cluster
	$(PYTHON) -m testkit prepare --cluster
	$(PYTHON) -m demo.cluster

check: static ## Static checks and unit tests: a minute, no Spark, no broker, no cluster
	$(PYTHON) -m pytest -q -n $(WORKERS) operator/tests/unit

test: ## What CI runs for every change: each fact once, on the cheapest real part that shows it
	$(MAKE) --jobs=2 $(STAMP) tools
	$(MAKE) --jobs=2 types lint prepare
	PENSTOCK_TEST_STARTED=$(STARTED) $(PYTHON) -m pytest -n $(WORKERS) -m "not full" --junitxml=.cache/results.xml

# A release is published, installed and upgraded; an ordinary machine pulls its images; the guides are
# followed; Argo CD applies examples/gitops. In processes of their own: each changes the installation.
REHEARSALS := e2e/rehearsals/release.py e2e/rehearsals/ordinary_way.py e2e/rehearsals/guides.py operator/tests/integration/gitops/argo_cd.py
OTHER_KUBERNETES := 1.33 1.35
# Their kubelets want a newer containerd than the test node's: API server and garbage collector only.
NEWER_KUBERNETES := 1.36 1.37
WITHOUT_KUBELET := $(addprefix operator/tests/integration/,api chart client controller)

test-all: static prepare ## Everything, before each release and every night: two to three hours
	PENSTOCK_TEST_STARTED=$(STARTED) $(PYTHON) -m pytest -n $(WORKERS) --junitxml=.cache/results.xml
	for rehearsal in $(REHEARSALS); do $(PYTHON) -m pytest $$rehearsal; done
	for version in $(OTHER_KUBERNETES); do $(MAKE) test PENSTOCK_KUBERNETES=$$version; done
	for version in $(NEWER_KUBERNETES); do \
	  PENSTOCK_KUBERNETES=$$version $(PYTHON) -m pytest -n $(WORKERS) -m "not full" $(WITHOUT_KUBELET); done

static: lint types

types: $(STAMP)
	$(BIN)/mypy

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(PYTHON) -m scripts.generate --check
	$(MAKE) docs

prepare: $(STAMP) ## Build the tools, jars and images of the tests, if they are missing
	@echo "==> Building what the tests need. The first time takes twenty minutes on two cores."
	$(PYTHON) -m testkit prepare

# Go compiles while pip downloads. It needs no .venv, but a Python that is new enough.
tools:
	@! python3 -c 'import tomllib' 2>/dev/null || python3 -m testkit.tools

REGISTRY ?= penstock
images: $(STAMP) ## Build the release's images as REGISTRY/operator and REGISTRY/spark
	$(PYTHON) -m scripts.release images $(REGISTRY)

push: $(STAMP) ## Push the release's images and chart to REGISTRY
	$(PYTHON) -m scripts.release push $(REGISTRY)

wheel: $(STAMP) ## Build the release's wheel, in dist
	$(PYTHON) -m scripts.release wheel dist

data-source: $(STAMP) $(DATA_SOURCE) ## Compile the data source for Kafka, for `penstock run` in this checkout

$(DATA_SOURCE): $(wildcard $(addprefix connector/src/dev/penstock/spark/,*.java */*.java)) connector/build
	$(PYTHON) -m scripts.data_source

generate: $(STAMP) ## Write the files that are generated from the models
	$(PYTHON) -m scripts.generate

# uv, because pip cannot resolve for another Python and another architecture. What it writes names no index.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.13 --generate-hashes --upgrade --no-annotate \
  --constraint constraints.txt --custom-compile-command 'make lock'
lock: $(STAMP) ## Write the hashes of the Python packages in the images, from constraints.txt
	$(LOCK) pyproject.toml --extra operator --output-file images/operator/requirements.txt
	$(LOCK) pyproject.toml --extra driver --output-file images/spark/requirements.txt
	echo 'setuptools>=77' | $(LOCK) - --output-file images/build-requirements.txt

docs: $(STAMP) ## Build the documentation as a site, in build/docs, and check its links
	$(BIN)/zensical build --strict

bench-latency: $(STAMP) ## Measure each mode beside Kafka Streams and Flink, for docs/benchmarks; 35 minutes
	$(PYTHON) -m benchmarks.latency
	$(PYTHON) -m scripts.generate

format: $(STAMP) ## Format the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

cluster-up: $(STAMP) ## Start the test cluster, or reuse the running one
	$(PYTHON) -m testkit up

cluster-down: $(STAMP) ## Remove the test cluster
	$(PYTHON) -m testkit down

clean: ## Remove the virtual environment and the caches of the tools
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(STAMP): pyproject.toml constraints.txt scripts/venv
	scripts/venv dev
	@touch $@

# In the same .venv, which `make test` later completes.
$(DEMO_STAMP): pyproject.toml constraints.txt scripts/venv
	scripts/venv demo
	@touch $@
