# Everything a person types. `make help` lists it.
SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
LOCKED := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
export RUNCAST_HOME ?= $(CURDIR)/var
# One OpenMP thread: two spinning threads on a busy 2-core machine were measured 10 to 100 times slower.
export OMP_NUM_THREADS ?= 1

.PHONY: help setup wheel run ui test crash attack lint lock digests images licences reference format fuzz bench nights accuracy studies worth clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## make the environment in .venv (uv where it can be had, else pip)

$(VENV)/.ready: requirements.txt pyproject.toml
	@bash setup.sh "$(PYTHON)" "$(VENV)"
	@touch $@

wheel: setup ## build dist/runcast-*.whl, for a scheduler host
	@rm -rf build && mkdir -p dist
	@$(BIN)/python -c "from setuptools import build_meta; build_meta.build_wheel('dist')" >/dev/null && ls dist/runcast-*.whl

run: setup ## write three made-up clusters, run a night on each in Airflow, print what came of it
	@$(BIN)/python dags/in_process.py

ui: setup ## Airflow and MLflow on loopback; Ctrl-C stops both
	@$(BIN)/python dags/local_ui.py

test: setup ## the whole suite (RUNCAST_TRACES=folder adds the tests on real logs)
	@$(BIN)/python -m pytest -q -n auto --dist loadfile

crash: setup ## kill a night at 200 file operations, fill its disk, make it read-only (SEED=0: others for each); what must hold is checked
	@$(BIN)/python tests/crash/harness.py --points 200 --full 60 --read-only 40 --seed $(or $(SEED),0)

attack: setup ## what somebody who means harm would try: on the service at length, on logs, bundles, registry, feeder and webhook
	@$(BIN)/python tests/attack/service_attacks.py
	@$(BIN)/python -m pytest -q -n auto --dist loadfile -m attack

lint: setup ## ruff, mypy, import-linter; known vulnerabilities of what is pinned, where their data can be reached
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python deploy/audit.py

lock: setup ## compile the locks again: requirements.txt, those of the images and of the set-up
	@$(UV) pip compile pyproject.toml --extra pipeline --extra scheduler --extra postgres --extra dev $(LOCKED) -o requirements.txt
	@$(UV) pip compile pyproject.toml deploy/image/build.in --extra pipeline --extra scheduler --extra postgres --extra kubernetes \
	  -c requirements.txt $(LOCKED) -o deploy/image/runcast.txt
	@$(UV) pip compile deploy/image/mlflow.in $(LOCKED) -o deploy/image/mlflow.txt
	@$(UV) pip compile deploy/setup.in -c deploy/image/runcast.txt $(LOCKED) -o deploy/setup.txt

digests: ## ask the registry for the digests of the base images: deploy/image/digests.env (needs Docker)
	@sh deploy/image/digests.sh

images: ## build both images on the base of deploy/image/digests.env (TAG=0.1.0; needs Docker)
	@base=$$(sed -n 's/^PYTHON_IMAGE=//p' deploy/image/digests.env 2>/dev/null); \
	  case $$base in *@sha256:*) ;; *) echo "images: no digest of the base image. Run: make digests" >&2; exit 1 ;; esac; \
	  for target in runcast mlflow; do name=$$([ $$target = runcast ] && echo runcast || echo runcast-mlflow); \
	    docker build -f deploy/image/Dockerfile --build-arg PYTHON_IMAGE="$$base" --target $$target -t $$name:$(or $(TAG),0.1.0) . || exit 1; done

licences: setup ## write docs/licences.md from the locks
	@$(BIN)/python deploy/licences.py

reference: setup ## write docs/cluster-file.md from the code that reads cluster files
	@$(BIN)/runcast clusters reference >docs/.cluster-file.part && mv docs/.cluster-file.part docs/cluster-file.md

format: setup ## put the code in one form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

fuzz: setup ## a million mutated lines through every log format (SEED=1 LINES=1000000)
	@$(BIN)/python tests/fuzz/run.py --seed $(or $(SEED),1) --lines $(or $(LINES),1000000) --keep $(RUNCAST_HOME)/fuzz

bench: setup ## the benchmarks, with their ratios and percentiles
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

nights: setup ## one night on every public log (RUNCAST_TRACES), one line each
	@mkdir -p $(RUNCAST_HOME)
	@for file in data/clusters/examples/*.yaml; do name=$$(basename $$file .yaml); \
	  grep -q '^refused:' $$file && continue; \
	  RUNCAST_CLUSTERS=data/clusters/examples $(BIN)/runcast nightly --cluster $$name >"$(RUNCAST_HOME)/$$name.txt" 2>&1 && echo "$$name: done" || { echo "$$name: failed, see $(RUNCAST_HOME)/$$name.txt"; exit 1; }; done

accuracy: setup ## replay every public log (RUNCAST_TRACES) and rewrite docs/accuracy.md; then see studies and worth
	@$(BIN)/runcast accuracy
	@echo "What lies behind it: make studies. What it is worth to a scheduler, from these replays: make worth."

studies: setup ## feature families, cadences, retraining, running jobs, a search outside (FLAML=python that holds it): docs/studies.md
	@for study in ablation cadence retraining censoring; do $(BIN)/runcast study $$study || exit 1; done
	@if [ -n "$(FLAML)" ]; then $(BIN)/runcast study outside --python "$(FLAML)"; \
	  else echo "The search outside was left out: make studies FLAML=PYTHON (docs/studies.md says how to make one)."; fi

worth: setup ## schedule the replayed jobs again and rewrite docs/worth.md; needs what make accuracy left
	@$(BIN)/runcast study worth

clean: ## remove the environment and everything under var/
	rm -rf $(VENV) var
