# Two commands: `make demo` and `make test`. Both set everything up in .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOLDERS := $(shell find npusim isa kernels scheduler reports -type d -not -name __pycache__)
# Two workers: most machines that run this have at least two cores.
JOBS ?= 2

.PHONY: demo test quick nightly lint docs bench rtl pins clean

demo: $(VENV)/run
	$(BIN)/npusim demo

test: $(VENV)/dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# While you work: one case of each test that is not marked slow, in about a minute.
quick: $(VENV)/dev
	NPUSIM_QUICK=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd $(VENV) && bin/mypy --config-file ../pyproject.toml -p npusim
	$(BIN)/mypy --config-file pyproject.toml -p benchmarks

docs: $(VENV)/dev
	$(BIN)/python -m npusim.isa.text.manual
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/make_notebook.py

bench: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=strict --editable '.[bench]'
	$(BIN)/python -m benchmarks

# Every case of every test and 25 times as many random examples as by day, all of the register-transfer reference: hours.
nightly: $(VENV)/dev
	NPUSIM_NIGHT=1 NPUSIM_RTL=all $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# The register-transfer reference in an hour on two cores; all of it is part of `make nightly`. Needs Verilator and a
# C++ compiler (apt-get install verilator g++).
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
$(VENV)/run: pyproject.toml setup.py requirements/run.txt $(FOLDERS) | $(BIN)/python
	$(call install,run)
	@touch $@

$(VENV)/dev: pyproject.toml setup.py requirements/dev.txt $(FOLDERS) | $(BIN)/python
	$(call install,dev)
	@touch $@ $(VENV)/run

# What the commands install has fixed versions and hashes: the same on every day and machine. pip checks no hashes of a
# folder, so npusim itself is a step of its own; its build takes the setuptools that is among them.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
define install
$(PIP) --require-hashes --requirement requirements/$(1).txt
$(PIP) --no-deps --no-build-isolation --config-settings editable_mode=strict --editable .
endef

# Take the newest versions that the index has. Look at the difference, then run `make test`. backports-strenum 1.3 is
# not for Python 3.11 and newer, which uv does not look at and pip does.
COMPILE := $(BIN)/uv pip compile pyproject.toml - --universal --python-version 3.11 --generate-hashes --no-annotate \
  --upgrade --quiet --custom-compile-command 'make pins'
BUILD := $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])'
pins: $(BIN)/python
	$(PIP) uv
	(echo 'backports-strenum<1.3'; $(BUILD)) | $(COMPILE) --extra dev --output-file requirements/dev.txt
	$(BUILD) | $(COMPILE) --constraint requirements/dev.txt --output-file requirements/run.txt
