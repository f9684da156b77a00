#!/bin/sh
# Write requirements/*.txt anew from pyproject.toml: every package with its version and hashes, and no address. Needs uv.
#   run.txt  what `make run` installs: Kubehenge and the lab
#   all.txt  what `make test` installs: that, PostgreSQL's driver and the tools of the tests
# Versions stay as they are; `requirements/compile.sh --upgrade` takes the newest that pyproject.toml allows.
set -eu
cd "$(dirname "$0")/.."

compile() {
    uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url "$@"
}

compile --all-extras --output-file requirements/all.txt --quiet "$@"
compile --extra lab requirements/build.in --constraint requirements/all.txt --output-file requirements/run.txt --quiet
