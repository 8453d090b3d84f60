# Short names for the commands of ./onbeat, and for the tools in .venv. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help run up test check test-long chaos bench services services-stop format lint screenshots shell clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run:  ## run everything embedded (PORT, DATA_DIR)
	./onbeat run

up:  ## run everything on private services, with two beats and Flower
	./onbeat up

test:  ## run all checks and tests
	./onbeat test

check: test  ## what CI runs: the same

test-long: test  ## all of it, then the tests with real races, processes and random lives at length
	TEST_EXAMPLES=200 ./onbeat test tests/integration/test_lifecycle_stateful.py
	TEST_LONG=1 ./onbeat test tests/races tests/acceptance tests/integration

chaos:  ## try to break the promise: faults strike the real platform (SECONDS=300, SEED=…)
	./onbeat chaos --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED))

bench:  ## measure everything, keep the figures and make their page (ONLY=dispatch,worker)
	./onbeat bench $(if $(ONLY),--only $(ONLY))

services:  ## start private PostgreSQL, Redis and RabbitMQ and leave them running
	./onbeat services

services-stop:  ## stop them; the data stays
	./onbeat services stop

format:  ## format the code (once `make test` has installed the tools)
	.venv/bin/ruff check --quiet --fix-only .
	.venv/bin/ruff format .

lint:  ## look at style and types (once `make test` has installed the tools)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

screenshots:  ## take the pictures of the documentation anew (needs Chromium)
	.venv/bin/python -m examples.lively_demo.screenshots

shell:  ## a Python prompt with the models at hand
	./onbeat shell

clean:  ## remove caches; never data or .venv
	rm -rf .mypy_cache .ruff_cache .pytest_cache
	find . \( -path ./.venv -o -path ./var -o -path ./.git \) -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
