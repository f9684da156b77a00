"""The declared fleet that the measurements share: Cluster files by number, and the Git repository that they are pushed to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

CONTROL_PLANES, WORKERS = 3, 3
MACHINES = CONTROL_PLANES + WORKERS
NAMESPACE = "clusters"

_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}

_CLUSTER = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: {name}
  namespace: {namespace}
  labels:
    tier: production
spec:
  topology:
    classRef:
      name: kubehenge-rke2
      namespace: kubehenge-system
    version: {version}
    controlPlane:
      replicas: {control_planes}
    workers:
      machineDeployments:
        - class: worker
          name: md-0
          replicas: {workers}
    variables:
      - name: controlPlaneEndpoint
        value: 10.{a}.{b}.10
      - name: network
        value:
          bridge: vmbr0
          addresses: [10.{a}.{b}.11-10.{a}.{b}.60]
          prefix: 24
          gateway: 10.{a}.{b}.1
          dnsServers: [10.{a}.{b}.1]
      - name: storage
        value: shared-storage
"""
VERSIONS = ("v1.36.5+rke2r1", "v1.36.6+rke2r1")


def name_of(number: int) -> str:
    """The name of a cluster."""
    return f"c{number:05d}"


def path_of(number: int) -> str:
    """The file of a cluster, twenty folders in all."""
    return f"clusters/team-{number % 20:02d}/{name_of(number)}.yaml"


def declaration(number: int, *, workers: int = WORKERS) -> str:
    """A Cluster file; 24 nets of 256 are free for each number of thousands."""
    return _CLUSTER.format(
        name=name_of(number),
        namespace=NAMESPACE,
        version=VERSIONS[0],
        control_planes=CONTROL_PLANES,
        workers=workers,
        a=number // 256,
        b=number % 256,
    )


def files(clusters: int) -> dict[str, str]:
    """All files of a fleet, by path."""
    return {path_of(number): declaration(number) for number in range(clusters)}


class Repository:
    """A bare repository to which commits are imported, so that no work tree of thousands of files is ever written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._git("init", "--quiet", "--bare", "--initial-branch=main", str(folder), cwd=folder.parent)
        self._git("config", "uploadpack.allowFilter", "true")
        self.commits = 0

    def push(self, contents: Mapping[str, str]) -> str:
        """Commit these files on top of what is there; returns the commit."""
        self._git("fast-import", "--quiet", stdin=b"".join(self._stream(contents)))
        self.commits += 1
        return self._git("rev-parse", "main")

    def _stream(self, contents: Mapping[str, str]) -> Iterable[bytes]:
        yield b"commit refs/heads/main\ncommitter Ada <ada@example.org> %d +0000\ndata 7\nChange\n\n" % (1_700_000_000 + self.commits * 60)
        if self.commits:
            yield b"from refs/heads/main^0\n"
        for path, text in contents.items():
            body = text.encode()
            yield b"M 100644 inline %s\ndata %d\n" % (path.encode(), len(body)) + body + b"\n"

    def _git(self, *arguments: str, cwd: Path | None = None, stdin: bytes = b"") -> str:
        done = subprocess.run(["git", *arguments], cwd=cwd or self.path, env=_ENV, input=stdin, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode().strip()
