# Everything happens in .venv; `make demo` and `make test` are all a new machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DOCS := .venv-docs
DEMO_RUN ?= runs/demo
SEED ?= 0

.PHONY: setup demo test test-fast test-sims check format docs release clean

setup: $(VENV)/.installed

# All but torch is verified by its hash, and nothing is built but flashsac itself. torch comes in the build that the machine's package
# index serves: no list of hashes fits all of them (see requirements.lock).
$(VENV)/.installed: pyproject.toml constraints.txt requirements.lock scripts/install_gl.sh scripts/install_strace.sh \
		scripts/install_browser.sh
	@echo "Installing into $(VENV). This takes a few minutes, mostly silent."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	sh scripts/install_gl.sh
	sh scripts/install_strace.sh
	sh scripts/install_browser.sh
	touch $@
	@echo "Installed. To call flashsac by its name: source $(BIN)/activate"

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
	$(BIN)/python scripts/check_prose.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation, into site/: open site/index.html. Its tools have an environment of their own, verified by hashes as well.
docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	$(DOCS)/bin/python scripts/check_site.py

$(DOCS)/.installed: constraints/docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: --requirement constraints/docs.lock
	$(DOCS)/bin/python -m pip check
	touch $@

# sdist, wheel (tried in an environment of its own), bill of materials and checksums, into dist/.
release: setup
	$(BIN)/python scripts/release.py

clean:
	rm -rf $(VENV) $(DOCS) build dist site
