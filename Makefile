# Penstock's front door. Each target installs what it needs and says what it is doing.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
PYTHON := $(BIN)/python
STAMP := .venv/.installed

.PHONY: help demo test check prepare static unit real torture e2e generate format cluster-up cluster-down clean

help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: prepare ## A stream on a real cluster, killed and recovered before your eyes
	$(PYTHON) -m e2e.demo

test: static prepare ## Everything CI runs: static checks, every test, the real cluster
	$(PYTHON) -m pytest

check: static unit ## The inner loop: static checks and the fast tests, no cluster

static: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PYTHON) -m scripts.generate --check

unit: $(STAMP)
	$(PYTHON) -m pytest -q -m "not real and not cluster"

prepare: $(STAMP) ## Build the cluster's tools and images, as far as they are not there yet
	@echo "==> building what the tests need (half an hour the first time on two cores)"
	$(PYTHON) -m testkit prepare

real: prepare ## The tests with real parts on this machine: Spark, a broker, an API server
	$(PYTHON) -m pytest -m real

KILLS ?= 30
torture: prepare ## The driver killed KILLS (30) times in each mode under traffic; half an hour
	PENSTOCK_KILLS=$(KILLS) $(PYTHON) -m pytest -s operator/tests/chaos/test_driver_kills.py

e2e: prepare ## The tests on the kind cluster
	$(PYTHON) -m pytest -m cluster

generate: $(STAMP) ## Renew what is generated from the models
	$(PYTHON) -m scripts.generate

format: $(STAMP) ## Lay the code out
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

cluster-up: $(STAMP) ## Bring the test cluster up and leave it warm
	$(PYTHON) -m testkit up

cluster-down: $(STAMP) ## Remove the test cluster without a trace
	$(PYTHON) -m testkit down

clean: ## Remove the virtual environment and what the tools left in the checkout
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(STAMP): pyproject.toml constraints.txt scripts/venv
	scripts/venv
	@touch $@
