# Everything a newcomer needs: `make demo` and `make test` set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A test that hangs fails after ten minutes, and says where.
PATIENCE := --timeout 600
# Tests start many processes: modules are compiled once for all of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-all test-gpu test-lowest test-doors lint docs pictures build paper test-paper study study-groups study-streams bench bench-gpu clean

demo: $(VENV)/installed
	$(BIN)/isobag demo

# Two workers share the cores: threads of BLAS in each would wait for one another.
TEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(PATIENCE) -n 2 --dist worksteal

test: $(VENV)/installed-dev
	$(TEST) -m "not slow"

test-slow: $(VENV)/installed-dev
	$(TEST) -m slow

test-paper: $(VENV)/installed-paper
	$(TEST) paper/tests

# All of these in one session; the slow tests build the site.
test-all: $(VENV)/installed-docs $(VENV)/installed-paper
	$(TEST) tests src paper/tests

# The oldest versions that pyproject.toml allows of all that isobag needs; the tests themselves need newer tools. What
# pages print is compared with the newest versions only.
test-lowest: .venv-lowest/installed
	OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR="$(CURDIR)/.venv-lowest/compiled" .venv-lowest/bin/python -m pytest $(PATIENCE) -m "not slow and not browser" --ignore=tests/docs -n 2 --dist worksteal -W default -p no:cacheprovider

.venv-lowest/installed: pyproject.toml
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --system-certs --python .venv-lowest --resolution lowest-direct -e ".[cli,dask,excel,files,report]" "polars>=1.10"
	.venv-lowest/bin/uv pip install --quiet --system-certs --python .venv-lowest build cloudpickle hypothesis playwright pytest pytest-timeout pytest-xdist
	touch $@

# The doors to other libraries, against these, in an environment of their own: aeon needs older versions of Numba and
# NumPy. PyOD's combinations need combo, which it does not ask for. With CI_ADAPTERS=1 tests fail where they would be skipped.
test-doors: .venv-doors/installed
	CI_ADAPTERS=1 NUMBA_CACHE_DIR="$(CURDIR)/.venv-doors/compiled" PATH="$(CURDIR)/.venv-doors/bin:$(PATH)" .venv-doors/bin/python -m pytest $(PATIENCE) tests/adapters tests/docs/test_pages.py -k "adapters or streams or integrations" -n 2

.venv-doors/installed: pyproject.toml
	$(PYTHON) -m venv --clear .venv-doors
	.venv-doors/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-doors/bin/uv pip install --quiet --system-certs --python .venv-doors -e ".[dev,pyod,river,aeon,mlflow,mcp]" combo skops
	touch $@

build: $(VENV)/installed-dev
	$(BIN)/python -m build --outdir dist

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, into the folder site. The variable silences a note that the theme's makers print at every build.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# What docs keeps of what code has made: pictures (the report's needs Chromium).
pictures: $(VENV)/installed-dev
	$(BIN)/python -m website.screenshot
	$(BIN)/python -m website.pictures

study-streams: $(VENV)/installed-bench
	$(BIN)/python -m study.streams

study: $(VENV)/installed-bench
	$(BIN)/python -m study

# The suite of odd groups: downloads public archives once, and goes on where it stopped.
study-groups: $(VENV)/installed-bench
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m study.suite

# The paper again: every table and figure into paper/results; goes on where it stopped.
paper: $(VENV)/installed-paper
	$(BIN)/python -m paper all --budget 600 --resume

bench: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks.run

test-gpu: $(VENV)/installed-gpu
	$(BIN)/python -m pytest -m gpu

bench-gpu: $(VENV)/installed-gpu
	$(BIN)/python -m benchmarks.gpu

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[cli,report]"
	touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/installed

$(VENV)/installed-docs: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

$(VENV)/installed-paper: $(VENV)/installed-dev paper/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r paper/requirements.txt
	touch $@

$(VENV)/installed-bench: $(VENV)/installed-paper
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

$(VENV)/installed-gpu: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[gpu]"
	touch $@

clean:
	rm -rf $(VENV) .venv-lowest .venv-doors site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
