"""What the plane's programs and manifests are made from: wrapper modules with exact pins, packages and flags."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).parent
MODULES = HERE / "modules"
CRDS = HERE / "crds"
OLDEST_GO = (1, 26)
_FORMAT = "1"  # another one when what is done with the same things changes
_KUBERNETES, _CLUSTER_API = "k8s.io/kubernetes", "sigs.k8s.io/cluster-api"


@lru_cache
def pinned(wrapper: str, module: str) -> str:
    """The version of a module that a wrapper requires, with its v."""
    text = (MODULES / wrapper / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^(?:require\s+|\s+){re.escape(module)} (v\S+)", text, re.MULTILINE)
    assert found, f"{wrapper}/go.mod does not require {module}"
    return found[1]


def _stamp(wrapper: str, module: str, variable: str, *, parts: bool = False) -> tuple[str, ...]:
    """Linker flags with the version, without which some programs do not start."""
    version = pinned(wrapper, module)
    values = {"gitVersion": version}
    if parts:
        major, minor, _ = version.removeprefix("v").split(".")
        values |= {"gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return tuple(f"-X {variable}.{name}={value}" for name, value in values.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program: its main package, as its wrapper module finds it. One that starts with ./ is ours, and stands in the wrapper."""

    name: str
    wrapper: str
    package: str
    flags: tuple[str, ...] = ()

    @property
    def linker_flags(self) -> str:
        return " ".join(("-s", "-w", *self.flags))

    def digest(self, go: str) -> str:
        """Of all that it is made from; `go` is the compiler's version and target."""
        sources = sorted((MODULES / self.wrapper / self.package).glob("*.go")) if self.package.startswith("./") else []
        return _digest(go, self.name, self.package, self.linker_flags, *_pins(self.wrapper), *map(_read, sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A release's manifest: a folder for kustomize in a module that a wrapper requires."""

    name: str
    wrapper: str
    module: str
    folder: str

    def digest(self) -> str:
        return _digest(self.name, self.module, self.folder, *_pins(self.wrapper))


_KUBE_STAMP = _stamp("cluster-api", _KUBERNETES, "k8s.io/component-base/version", parts=True)
_CAPI_STAMP = _stamp("cluster-api", _CLUSTER_API, f"{_CLUSTER_API}/version")
_CAPMOX = "github.com/ionos-cloud/cluster-api-provider-proxmox"
_IPAM = "sigs.k8s.io/cluster-api-ipam-provider-in-cluster"
_K3S = "github.com/k3s-io/cluster-api-k3s"
_HELM = "sigs.k8s.io/cluster-api-addon-provider-helm"

PROGRAMS = (
    Program(name="etcd", wrapper="cluster-api", package="go.etcd.io/etcd/server/v3"),
    Program(name="kube-apiserver", wrapper="cluster-api", package=f"{_KUBERNETES}/cmd/kube-apiserver", flags=_KUBE_STAMP),
    Program(name="kube-controller-manager", wrapper="cluster-api", package=f"{_KUBERNETES}/cmd/kube-controller-manager", flags=_KUBE_STAMP),
    Program(name="capi-core", wrapper="cluster-api", package=f"{_CLUSTER_API}/core", flags=_CAPI_STAMP),
    Program(name="capi-bootstrap", wrapper="cluster-api", package=f"{_CLUSTER_API}/bootstrap/kubeadm", flags=_CAPI_STAMP),
    Program(name="capi-controlplane", wrapper="cluster-api", package=f"{_CLUSTER_API}/controlplane/kubeadm", flags=_CAPI_STAMP),
    Program(name="guestsim", wrapper="cluster-api", package="./guestsim"),
    Program(name="capmox", wrapper="capmox", package=f"{_CAPMOX}/cmd"),
    Program(name="ipam", wrapper="ipam", package=_IPAM),
    Program(name="k3s-bootstrap", wrapper="k3s", package=f"{_K3S}/bootstrap"),
    Program(name="k3s-controlplane", wrapper="k3s", package=f"{_K3S}/controlplane"),
    Program(name="helm", wrapper="helm", package=_HELM),
)
# For bench/ alone.
TOOLS = (Program(name="tofu", wrapper="opentofu", package="github.com/opentofu/opentofu/cmd/tofu"),)

MANIFESTS = (
    Manifest(name="capi-core", wrapper="cluster-api", module=_CLUSTER_API, folder="core/config/default"),
    Manifest(name="capi-bootstrap", wrapper="cluster-api", module=_CLUSTER_API, folder="bootstrap/kubeadm/config/default"),
    Manifest(name="capi-controlplane", wrapper="cluster-api", module=_CLUSTER_API, folder="controlplane/kubeadm/config/default"),
    Manifest(name="capmox", wrapper="capmox", module=_CAPMOX, folder="config/default"),
    Manifest(name="ipam", wrapper="ipam", module=_IPAM, folder="config/default"),
    Manifest(name="k3s-bootstrap", wrapper="k3s", module=_K3S, folder="bootstrap/config/default"),
    Manifest(name="k3s-controlplane", wrapper="k3s", module=_K3S, folder="controlplane/config/default"),
    Manifest(name="helm", wrapper="helm", module=_HELM, folder="config/default"),
)
# Written down, as their module cannot be built from the proxy: the types alone.
WRITTEN = ("rke2",)


def digest_of_recipe() -> str:
    """Of everything but the compiler: what a set is looked up by where there is no Go."""
    return _digest(*(program.digest("") for program in PROGRAMS), *digests_of_manifests())


def digest_of_set(go: str) -> str:
    return _digest(*(program.digest(go) for program in PROGRAMS), *digests_of_manifests())


def digests_of_manifests() -> list[str]:
    return [*(manifest.digest() for manifest in MANIFESTS), *(_digest(name, _read(CRDS / f"{name}.json")) for name in WRITTEN)]


def _pins(wrapper: str) -> tuple[str, str]:
    return _read(MODULES / wrapper / "go.mod"), _read(MODULES / wrapper / "go.sum")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _digest(*parts: str) -> str:
    whole = hashlib.sha256(_FORMAT.encode())
    for part in parts:
        whole.update(f"{len(part)}:{part}".encode())
    return whole.hexdigest()[:16]
