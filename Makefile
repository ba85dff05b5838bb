PYTHON ?= .venv/bin/python

.PHONY: check lint types test

check: lint types test triton3.6 triton3.9  ## all that CI runs

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest

triton%: requirements-triton%.txt  ## what is compiled and interpreted, with another Triton
	$(PYTHON) -m pip install -q --upgrade --no-deps --target .triton/$* -r $<
	PYTHONPATH=$(CURDIR)/.triton/$* $(PYTHON) -m pytest tests/test_compiled.py tests/test_gpu_variants.py \
		-k "not element"  # a minute in the interpreter
