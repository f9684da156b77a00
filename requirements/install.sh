#!/bin/sh
# Make the environment .venv, or bring it up to date: requirements/install.sh run|all
# By plain venv and pip, or by uv where it is installed. PYTHON names another Python than the first one found that is new enough.
set -eu
cd "$(dirname "$0")/.."
wanted=${1:?usage: requirements/install.sh run|all}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if command -v "$name" >/dev/null && new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    echo "Kubehenge needs Python 3.11 or newer, and there is none on the path. PYTHON=/path/to/python3 names one." >&2
    exit 1
}

if ! new_enough .venv/bin/python; then
    python=$(find_python)
    echo "Making .venv with $("$python" --version)"
    rm -rf .venv
    if command -v uv >/dev/null; then
        UV_PYTHON_DOWNLOADS=never uv venv --quiet --python "$python" .venv
    elif ! "$python" -m venv .venv; then
        rm -rf .venv
        echo "Python's venv does not work here. On Debian and Ubuntu it is a package of its own: apt-get install python3-venv" >&2
        exit 1
    fi
fi

echo "Installing $(grep -c == "requirements/$wanted.txt") packages, pinned by requirements/$wanted.txt; this takes a minute or two the first time"
if command -v uv >/dev/null; then
    uv pip install --quiet --python .venv/bin/python --require-hashes --requirement "requirements/$wanted.txt"
    uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
else
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip
    pip() {
        .venv/bin/python -m pip --quiet --disable-pip-version-check --no-input "$@"
    }
    pip install --require-hashes --requirement "requirements/$wanted.txt"
    pip install --no-deps --no-build-isolation --editable .
fi
