"""The peers: OpenTofu or Terraform planning built-in resources, and kubectl building with kustomize."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

NAMED = "Terraform on two such cores, not of this run: a nothing-to-do plan of 100 / 1,000 / 3,000 resources takes 0.14 / 1.6 / 8.0 s."


def find_tofu() -> str | None:
    """The program that plans: KUBEHENGE_BENCH_TOFU, or `tofu` or `terraform` of the path."""
    return os.environ.get("KUBEHENGE_BENCH_TOFU") or shutil.which("tofu") or shutil.which("terraform")


class Tofu:
    """
    A configuration of built-in resources and the state that its apply leaves, to plan on.

    The state is written rather than applied: applying 3,000 takes minutes. With `changed` one resource differs from it.
    """

    def __init__(self, program: str, folder: Path, resources: int, *, changed: bool = False) -> None:
        self._program, self._folder, self._expected = program, folder, 2 if changed else 0
        folder.mkdir()
        value = 'count.index == 7 ? "changed" : "cluster-${count.index}"' if changed else '"cluster-${count.index}"'
        (folder / "main.tf").write_text(f'resource "terraform_data" "cluster" {{\n  count = {resources}\n  input = {value}\n}}\n')
        self._run("init", "-input=false")
        (folder / "terraform.tfstate").write_text(json.dumps(_state(resources)))
        self.plan()

    def plan(self) -> None:
        """Plan as people do, with what there is read anew; that it plans what is there to do is checked."""
        code = self._run("plan", "-input=false", "-detailed-exitcode")
        if code != self._expected:
            raise RuntimeError(f"{self._program} plan ended with {code} instead of {self._expected}")

    @property
    def name(self) -> str:
        return Path(self._program).name

    def _run(self, *arguments: str) -> int:
        env = {"PATH": os.environ["PATH"], "HOME": str(self._folder), "CHECKPOINT_DISABLE": "1"}
        done = subprocess.run([self._program, *arguments], cwd=self._folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode not in {0, 2}:
            raise RuntimeError(done.stderr)
        return done.returncode


def _state(resources: int) -> Mapping[str, object]:
    instances = []
    for number in range(resources):
        value = {"value": f"cluster-{number}", "type": "string"}
        attributes = {"id": str(uuid.UUID(int=number)), "input": value, "output": value, "triggers_replace": None}
        instances.append({"index_key": number, "schema_version": 0, "attributes": attributes, "sensitive_attributes": []})
    resource = {
        "mode": "managed",
        "type": "terraform_data",
        "name": "cluster",
        "provider": 'provider["terraform.io/builtin/terraform"]',
        "instances": instances,
    }
    return {
        "version": 4,
        "terraform_version": "1.0.0",
        "serial": 1,
        "lineage": str(uuid.UUID(int=0)),
        "outputs": {},
        "resources": [resource],
    }


class Kustomize:
    """A folder of files with a kustomization that lists them all."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self._folder = folder
        for path, text in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        listed = "".join(f"- {path}\n" for path in files)
        (folder / "kustomization.yaml").write_text(
            f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{listed}"
        )

    def build(self) -> None:
        """What `kubectl apply -k` does before it speaks to a cluster."""
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        subprocess.run(["kubectl", "kustomize", "."], cwd=self._folder, env=env, stdout=subprocess.DEVNULL, check=True)
