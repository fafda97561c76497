# SPDX-License-Identifier: Apache-2.0
# Standard output carries answers alone; everything else goes to standard error.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup image check kernels ds41f arguments test long lab lab-vllm gpu lint bench scale lock clean

# Of the person's command line, never of an environment that happens to hold these names.
ifneq ($(origin IMAGE),command line)
override IMAGE :=
endif
ifneq ($(origin ARGS),command line)
override ARGS :=
endif
export IMAGE
image = "$${IMAGE:-probe}"

# Programs in .venv see its packages and no others; those that run make do not pass this command line on.
unexport PYTHONPATH PYTHONHOME PYTHONUSERBASE PYTHONSTARTUP VIRTUAL_ENV MAKEFLAGS MFLAGS MAKELEVEL

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 14

setup: ## make .venv and install what deriving needs
	@tools/bootstrap

image: setup ## derive an image and print its digest: [IMAGE=probe] [ARGS='--platform linux/arm64']
	@.venv/bin/derive image $(image) $(ARGS)

check: setup ## derive an image for both platforms, each step built twice and compared: [IMAGE=probe]
	@for platform in linux/amd64 linux/arm64; do \
	  .venv/bin/derive image $(image) --platform $$platform --check $(ARGS) || exit; \
	done

kernels: setup ## compile every kernel twice, for both architectures and hosts, and run all their tests
	@.venv/bin/derive kernels check $(ARGS)

test: ## everything: set-up, format, lint, types, tests: [ARGS='tests/unit -k tar']
	@tools/test all $(ARGS)

long: ## tests that take minutes each: probe from its capsule alone, a unit of each kernel twice
	@tools/bootstrap --tests
	@.venv/bin/python -m pytest tests/long/audit_probe.py tests/long/kernels.py $(ARGS)

lab: ## everything that can go wrong with a site of namespaces, recorded in records/lab (root): [ARGS='SCENARIO...']
	@tools/bootstrap --tests && tests/support/install-docker .cache/docker
	@.venv/bin/python tests/lab/run.py all $(ARGS)

lab-vllm: ## a vLLM with a tiny model, deployed by release over 2, 4 and 3 nodes (root, minutes): [ARGS='--cabling ring4']
	@tools/bootstrap --tests && tests/support/install-docker .cache/docker
	@.venv/bin/python tests/lab/vllm_run.py $(ARGS)

gpu: setup ## the tests that need a GPU
	@.venv/bin/python -m pytest -m gpu tests/gpu $(ARGS)

lint: ## format, lint and types only
	@tools/test lint

ds41f: setup ## derive the production image cold into two stores, and compare: [ARGS='--record FILE']
	@.venv/bin/python bench/engine/builds.py ds41f $(ARGS)

arguments: setup ## hold the options read from vLLM's sources against a vLLM that runs (2.5 GB, minutes)
	@tools/arguments

bench: setup ## measure the engine
	@.venv/bin/python bench/engine/run.py $(ARGS)

scale: ## building on 1 to 50 workers, simulated and on BuildKit (root, an hour): [ARGS='--steps 100 --record FILE']
	@tools/bootstrap --tests && tests/support/install-docker .cache/docker
	@.venv/bin/python bench/engine/scale.py $(ARGS)
	@.venv/bin/python -m pytest tests/scale/probe_on_buildkit.py

lock: setup ## resolve what the wishes in lock/ want: [ARGS='--outdated']
	@.venv/bin/derive lock $(ARGS)

clean: ## remove .venv and caches; the store stays
	@[ ! -d .cache/kernels ] || chmod -R u+w .cache/kernels
	@rm -rf .venv .cache/arguments .cache/bootstrap.lock .cache/docker .cache/kernels .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find bench derivations kernels src tests -name __pycache__ -prune -exec rm -rf {} +
