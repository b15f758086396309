# One truth for people, hooks and CI. `make demo` and `make test` need nothing but python3.11+ and this checkout.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out/demo
ROOMS := cuda_kernels geo recon tracking lifting spatial_qa egospatial

.PHONY: help setup demo test lint types imports docs bench check accept-1 accept-2 gpu-check gpu-compile clean
help:
	@echo "make demo | test | lint | types | imports | docs | bench | check | accept-1 accept-2 accept-3 [ONLY=A] | gpu-check gpu-compile | clean"

setup:
	@$(PYTHON) tools/setup_env.py --venv $(VENV)

demo: setup
	$(BIN)/egospatial demo --out $(OUT)

test: setup
	$(BIN)/python -m pytest tests -n auto --maxprocesses=4 --dist loadfile

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

docs: setup
	$(BIN)/python tools/check_docs.py

bench: setup
	$(BIN)/python benchmarks/splat.py

check: lint types imports docs test

accept-1: setup
	$(BIN)/python benchmarks/accept_1.py $(if $(ONLY),--only $(ONLY))

accept-2: setup
	$(BIN)/python benchmarks/accept_2.py $(if $(ONLY),--only $(ONLY))

gpu-check:
	PYTHON=$(BIN)/python sh tools/gpu_check.sh

gpu-compile:
	$(BIN)/python tools/ptx_check.py

accept-3: setup
	$(BIN)/python benchmarks/accept_3.py $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .accept out
