# Two commands do everything: `make quickstart` and `make test`. Both set up .venv/ in this folder first.
SHELL := /bin/bash
# The system's Python of the same version, where it can make environments: Debian's is compiled with profiles, unlike what
# pyenv compiles; tests of statistics take a fifth less in it, `validate` a third.
PYTHON ?= $(shell one=$$(python3 -c 'import sys; print("/usr/bin/python%d.%d" % sys.version_info[:2])'); \
	$$one -c 'import ensurepip' 2>/dev/null && echo $$one || echo python3)
BIN := .venv/bin

export OMP_NUM_THREADS ?= 1
# Hundreds of processes are started: without bytecode each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

# Few of the 20,000 files that pip installs are ever imported; Python compiles those when they first are, and keeps that.
INSTALL := $(BIN)/python -m pip install -qq --no-compile --constraint constraints.txt --editable '.[all]'

.PHONY: quickstart test proof lint unit served engines places base setup browser gpu site clean

quickstart: .venv/all.stamp
	@$(BIN)/evalspec run suites/digits/evalspec.yaml

# All three at once: what installs leaves a processor free for the base install.
test:
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=line lint unit base

setup: .venv/dev.stamp

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --upgrade pip

.venv/all.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL)
	@touch $@

# One after the other where both are wanted.
.venv/dev.stamp: .venv/bin/python pyproject.toml constraints.txt $(if $(filter quickstart,$(MAKECMDGOALS)),.venv/all.stamp)
	$(INSTALL) --group dev
	@touch .venv/all.stamp $@

# Debian's Chromium for the tests in a real browser; without it they are skipped and say so.
browser:
	@bash tests/install_chromium.sh

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup browser
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not served and not engines and not places and not proof"

# Simulations and campaigns that take minutes: the statistics on designs of other shapes, whole gates, random faults.
proof: setup browser
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "proof and not served and not engines and not places"

# The documentation as a site in site/, to be read from disk or put on a server; a warning is an error.
site: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Against servers that people use, in environments of their own (1 GB).
served: setup
	$(BIN)/python -m pytest -m served

# Ray and Dask with two nodes each, which are killed, in an environment of their own (1 GB).
engines: setup
	$(BIN)/python -m pytest -m engines

# Against servers of object storage that people use, in an environment of their own (500 MB).
places: setup
	$(BIN)/python -m pytest -m places

# The commands that need no extra, in an environment that has none.
base:
	@PYTHON="$(PYTHON)" bash tests/base_install.sh

# On a machine with CUDA and no network: the GPU tests, the full ResNet-50 and a small language model, from this checkout and a folder of wheels.
WHEELS ?= wheels
GPU := .venv-gpu/bin
gpu: .venv-gpu/gpu.stamp
	$(GPU)/python -m pytest -m gpu -p no:cacheprovider
	$(GPU)/python suites/resnet50/make_resnet50.py --width 64 --pictures 256
	$(GPU)/evalspec run suites/resnet50/gpu.yaml
	$(GPU)/evalspec run suites/small-lm/gpu.yaml

.venv-gpu/gpu.stamp: pyproject.toml constraints.txt
	@test -d "$(WHEELS)" || { echo "make gpu needs a folder of wheels: make gpu WHEELS=DIR (see suites/resnet50/README.md)"; exit 2; }
	$(PYTHON) -m venv .venv-gpu
	$(GPU)/python -m pip install -qq --no-index --find-links "$(WHEELS)" --constraint constraints.txt --editable '.[all]' --group gpu-test
	@touch $@

clean:
	rm -rf .venv .venv-base .venv-gpu .venv-servers
