"""
`make plane`: builds the plane's programs and renders its manifests, into a cache outside the checkout.

    CACHE/programs/NAME-DIGEST      a program, by what it was made from
    CACHE/manifests/NAME-DIGEST     a release's objects as JSON
    CACHE/sets/DIGEST/              all that belongs together: bin, manifests, set.json
    CACHE/recipes/DIGEST            which set a checkout's recipe gave last; it needs no Go to be found
    CACHE/latest                    the set that was built last
    CACHE/tools/NAME                what bench/ needs beside it
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from kubehenge.lab.plane.programs import LATEST, ProgramSet, cache_directory
from tests.plane import recipe

_FLAGS = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath", "GOTOOLCHAIN": "local", "GOWORK": "off"}
_VARIABLE = re.compile(r"\$\{\w+(?::?=([^}]*))?\}")
_MIB = 1024 * 1024


class BuildError(Exception):
    """It cannot be built; the text says why."""


def find_set(cache: Path) -> ProgramSet | None:
    """The set that this checkout's recipe gave, None when it is not built."""
    link = cache / "recipes" / recipe.digest_of_recipe()
    found = ProgramSet(link)
    return ProgramSet(link.resolve()) if link.exists() and found.is_complete() else None


def missing(cache: Path) -> str:
    """Why there is no plane here, '' when there is one."""
    if find_set(cache):
        return ""
    return "the plane is not built: run `make plane`" if shutil.which("go") else "the plane is not built, and there is no Go to build it"


def build(cache: Path, *, tools: bool = True) -> None:
    """Build what is missing; without `tools` only what the plane needs. Errors: BuildError."""
    go = _compiler()
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache):
        target = cache / "sets" / recipe.digest_of_set(go)
        if not (target.exists() and ProgramSet(target).is_complete()):
            began = time.monotonic()
            programs = {program.name: _program(cache / "programs", program, go) for program in recipe.PROGRAMS}
            manifests = {manifest.name: _manifest(cache / "manifests", manifest, programs) for manifest in recipe.MANIFESTS}
            manifests |= {name: recipe.CRDS / f"{name}.json" for name in recipe.WRITTEN}
            _assemble(target, programs, manifests, go)
            print(f"The plane is built, in {time.monotonic() - began:.0f} s: {target}")
        else:
            print(f"The plane is built already, nothing is to be done: {target}")
        _point(cache / "recipes" / recipe.digest_of_recipe(), target)
        _point(cache / LATEST, target)
        for tool in recipe.TOOLS if tools else ():
            _point(cache / "tools" / tool.name, _program(cache / "programs", tool, go))


# ---- Go


def _compiler() -> str:
    if not shutil.which("go"):
        raise BuildError("There is no Go on this machine: the plane cannot be built.")
    version, *target = _run("go", "env", "GOVERSION", "GOOS", "GOARCH", cwd=recipe.HERE).split()
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers < recipe.OLDEST_GO:
        raise BuildError(f"The plane needs Go {'.'.join(map(str, recipe.OLDEST_GO))} or newer; here is {version}.")
    return " ".join((version, *target))


def _program(folder: Path, program: recipe.Program, go: str) -> Path:
    path = folder / f"{program.name}-{program.digest(go)}"
    if path.exists():
        return path
    print(f"{program.name} …", flush=True)
    began = time.monotonic()
    with _beside(path) as part:
        command = ("go", "build", "-ldflags", program.linker_flags, "-o", str(part), program.package)
        _run(*command, cwd=recipe.MODULES / program.wrapper)
    print(f"{program.name}: {time.monotonic() - began:.0f} s, {path.stat().st_size // _MIB} MiB", flush=True)
    return path


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **_FLAGS}, capture_output=True, text=True, check=False)
    if done.returncode:
        end = "\n".join(done.stderr.splitlines()[-20:])
        raise BuildError(f"In {cwd}, `{' '.join(command)}` failed:\n{end}")
    return done.stdout


# ---- manifests


def _manifest(folder: Path, manifest: recipe.Manifest, programs: dict[str, Path]) -> Path:
    path = folder / f"{manifest.name}-{manifest.digest()}"
    if path.exists():
        return path
    wrapper = recipe.MODULES / manifest.wrapper
    module = json.loads(_run("go", "mod", "download", "-json", manifest.module, cwd=wrapper))["Dir"]
    # An absolute path: kustomize takes one that begins with a host's name for a repository.
    text = _run(*_kustomize(), str(Path(module) / manifest.folder), cwd=wrapper)
    objects = [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]
    with _beside(path) as part:
        part.write_text(json.dumps([_CHANGES.get(one["kind"], _as_it_is)(one) for one in objects]), encoding="utf-8")
    return path


def _kustomize() -> tuple[str, ...]:
    if shutil.which("kubectl"):
        return ("kubectl", "kustomize")
    return ("go", "run", "-C", str(recipe.MODULES / "cluster-api"), "k8s.io/kubernetes/cmd/kubectl", "kustomize")


def _with_defaults(value: Any) -> Any:
    """Put the default in the place of each variable, as clusterctl does."""
    if isinstance(value, dict):
        return {name: _with_defaults(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_defaults(one) for one in value]
    return _VARIABLE.sub(lambda found: found[1] or "", value) if isinstance(value, str) else value


def _without_prose(value: Any) -> Any:
    """Take the descriptions out of a type's schema: nobody reads them here, and the API server takes long over them."""
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if not (name == "description" and isinstance(one, str))}
        return {name: one if name in {"default", "enum"} else _without_prose(one) for name, one in kept.items()}
    return [_without_prose(one) for one in value] if isinstance(value, list) else value


def _as_it_is(value: Any) -> Any:
    return value


_CHANGES = {"Deployment": _with_defaults, "CustomResourceDefinition": _without_prose}


# ---- the cache


def _assemble(target: Path, programs: dict[str, Path], manifests: dict[str, Path], go: str) -> None:
    """Put a set together beside its place, and move it there whole."""
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    for name in ("bin", "manifests"):
        (part / name).mkdir(parents=True)
    for name, path in programs.items():
        (part / "bin" / name).symlink_to(Path("../../../programs") / path.name)
    for name, path in manifests.items():
        shutil.copyfile(path, part / "manifests" / f"{name}.json")
    pins = {manifest.module: recipe.pinned(manifest.wrapper, manifest.module) for manifest in recipe.MANIFESTS}
    (part / "set.json").write_text(json.dumps({"go": go, "releases": pins}, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A path to write to, which takes its name only once it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        yield part
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _point(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    part = link.with_name(f".{link.name}.part")
    part.unlink(missing_ok=True)
    part.symlink_to(os.path.relpath(target, link.parent))
    part.replace(link)


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """One build at a time."""
    with (cache / "build.lock").open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another build runs; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(prog="make plane", description="Build the plane's programs.")
    parser.add_argument("--no-tools", action="store_true", help="leave out what only bench/ needs")
    given = parser.parse_args()
    try:
        build(cache_directory(), tools=not given.no_tools)
    except BuildError as error:
        print(f"plane: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
