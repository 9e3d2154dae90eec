# Two commands do everything: `make quickstart` and `make test`. Both set up .venv/ in this folder first.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin

export OMP_NUM_THREADS ?= 1

.PHONY: quickstart test lint unit base setup browser clean

quickstart: .venv/all.stamp
	@$(BIN)/evalspec run suites/digits/evalspec.yaml

test: setup browser lint unit base

setup: .venv/dev.stamp

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --upgrade pip

.venv/all.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -qq --constraint constraints.txt --editable '.[all]'
	@touch $@

.venv/dev.stamp: .venv/all.stamp
	$(BIN)/python -m pip install -qq --constraint constraints.txt --group dev
	@touch $@

# Debian's Chromium for the tests in a real browser; without it they are skipped and say so.
browser:
	@bash tests/install_chromium.sh

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The commands that need no extra, in an environment that has none.
base: setup
	@bash tests/base_install.sh

clean:
	rm -rf .venv .venv-base
