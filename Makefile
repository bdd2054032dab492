# Everything happens in .venv; `make demo` and `make test` are all a new machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_RUN ?= runs/demo
SEED ?= 0

.PHONY: setup demo test test-fast test-sims check format clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt scripts/install_gl.sh scripts/install_strace.sh
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	sh scripts/install_gl.sh
	sh scripts/install_strace.sh
	touch $@

# Trains a cheetah to run, evaluates it and films it; interrupted, it goes on where it was.
demo: setup
	@if [ -f $(DEMO_RUN)/config.json ]; then $(BIN)/flashsac resume $(DEMO_RUN); \
	else $(BIN)/flashsac train mujoco:HalfCheetah-v4 --preset laptop --seed $(SEED) --run-dir $(DEMO_RUN); fi

test: check
	$(BIN)/python -m pytest -n auto --maxprocesses 4

# The daily loop: no training longer than a second, no storm of processes.
test-fast: setup
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m "not slow"

# Every simulator that can be installed, each in a virtual environment of its own; SIMS="genesis mjlab" for some of them.
test-sims: setup
	$(BIN)/python scripts/test_sims.py $(SIMS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist
