# What one does with this repository. It needs Python 3.11 or newer, git and make; everything else goes into .venv.
# ARGS is passed on: `make run ARGS="--speed 10"`, `make test ARGS="-k quorum"`.

ARGS =
VENV = .venv
BIN = $(VENV)/bin
# As many tests side by side as there are cores, at most.
WORKERS = 2

.DEFAULT_GOAL := help
.PHONY: help run test lint format bench plane requirements clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1	\2/p' $(MAKEFILE_LIST) | while IFS='	' read -r name what; do printf '%-14s %s\n' "$$name" "$$what"; done

run: $(VENV)/.run ## Start the lab with Kubehenge, and show what goes on until Ctrl-C
	@$(BIN)/kubehenge lab up $(ARGS)

test: lint ## Check everything: lint, then all tests whose programs are installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: $(VENV)/.all ## Check form, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.all ## Bring the code into form, and mend what can be mended
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

plane: $(VENV)/.all ## Build the real API server and Cluster API for the tests' plane, into the user's cache; needs Go
	@$(BIN)/python -m tests.plane.build $(ARGS)

bench: $(VENV)/.all ## Print the numbers of bench/, as ratios
	@$(BIN)/python -m bench $(ARGS)

requirements: ## Write requirements/*.txt anew from pyproject.toml (needs uv)
	requirements/compile.sh $(ARGS)

clean: ## Remove the environment and all caches; the lab's directory stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.run: requirements/run.txt requirements/install.sh pyproject.toml
	@requirements/install.sh run
	@touch $@

$(VENV)/.all: requirements/all.txt requirements/install.sh pyproject.toml
	@requirements/install.sh all
	@touch $(VENV)/.run $@
