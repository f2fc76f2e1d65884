# Two commands: `make demo` and `make test`. Both set everything up in .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOLDERS := $(shell find npusim isa kernels scheduler reports -type d -not -name __pycache__)
# Two workers: most machines that run this have at least two cores.
JOBS ?= 2

.PHONY: demo test quick lint docs bench rtl clean

demo: $(VENV)/run
	$(BIN)/npusim demo

test: $(VENV)/dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# While you work: every room, in under a minute.
quick: $(VENV)/dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m quick

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd $(VENV) && bin/mypy --config-file ../pyproject.toml -p npusim

docs: $(VENV)/dev
	$(BIN)/python -m npusim.isa.text.manual
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/make_notebook.py

bench: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=strict --editable '.[bench]'
	$(BIN)/python -m benchmarks

# All of the register-transfer referee; needs Verilator and a C++ compiler (apt-get install verilator g++).
rtl: $(VENV)/dev
	NPUSIM_RTL=all $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/rtl

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "npusim needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Strict editable mode lays the packages out as links, which type checkers can follow. A folder that changes
# (a file was added) installs again.
$(VENV)/run: pyproject.toml setup.py $(FOLDERS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=strict --editable .
	@touch $@

$(VENV)/dev: pyproject.toml setup.py $(FOLDERS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=strict --editable '.[dev]'
	@touch $@ $(VENV)/run
