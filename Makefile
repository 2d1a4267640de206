# Everything a newcomer needs: `make demo` and `make test` set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-gpu lint study bench bench-gpu clean

demo: $(VENV)/installed
	$(BIN)/isobag demo

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m "not slow" -n 2

test-slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

study: $(VENV)/installed-bench
	$(BIN)/python study

# `make bench AGAINST=../other/src` also measures the defaults against another checkout, by turns.
bench: $(VENV)/installed-bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/scale.py
	$(if $(AGAINST),$(BIN)/python benchmarks/against.py $(AGAINST))

test-gpu: $(VENV)/installed-gpu
	$(BIN)/python -m pytest -m gpu

bench-gpu: $(VENV)/installed-gpu
	$(BIN)/python benchmarks/gpu.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[cli,report]"
	touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/installed

$(VENV)/installed-bench: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

$(VENV)/installed-gpu: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[gpu]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
