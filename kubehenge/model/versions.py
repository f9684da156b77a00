"""Kubernetes versions in each distribution's form, and which step from one to another is allowed (reference: kubehenge-upgrading)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from kubehenge.model.distribution import FACTS, Distribution

_NUMBER = r"(0|[1-9]\d{0,8})"
_VERSION = re.compile(rf"v{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:\+(rke2r|k3s){_NUMBER})?", re.ASCII)
_OF_SUFFIX = {None: Distribution.KUBEADM, "rke2r": Distribution.RKE2, "k3s": Distribution.K3S}


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A released version; `release` is the distribution's own number behind `+rke2r` or `+k3s`, 0 for kubeadm."""

    distribution: Distribution
    major: int
    minor: int
    patch: int
    release: int = 0

    def __str__(self) -> str:
        suffix = FACTS[self.distribution].version_suffix
        return f"v{self.major}.{self.minor}.{self.patch}" + (f"{suffix}{self.release}" if suffix else "")

    @property
    def order(self) -> tuple[int, int, int, int]:
        """What versions of one distribution are compared by: numbers, not text."""
        return (self.major, self.minor, self.patch, self.release)

    @property
    def minor_version(self) -> tuple[int, int]:
        """Major and minor number, such as (1, 36)."""
        return (self.major, self.minor)


class UpgradeAnswer(StrEnum):
    """Whether a cluster may go from one version to another."""

    ALLOWED = "allowed"
    NOTHING_TO_DO = "nothing to do"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeJudgement:
    """The answer, and its reason as a sentence for people."""

    answer: UpgradeAnswer
    reason: str


def find_version(text: str) -> Version | None:
    """Read a version in the form of any distribution; None for any other text, pre-releases included."""
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    major, minor, patch, suffix, release = found.groups()
    return Version(distribution=_OF_SUFFIX[suffix], major=int(major), minor=int(minor), patch=int(patch), release=int(release or 0))


def describe_form(distribution: Distribution) -> str:
    """Say how a distribution's versions are written: `k3s versions end in +k3s and a number, such as v1.36.5+k3s1`."""
    facts = FACTS[distribution]
    if not facts.version_suffix:
        return f"{facts.title} versions have nothing behind the patch number, such as {facts.example_version}"
    return f"{facts.title} versions end in {facts.version_suffix} and a number, such as {facts.example_version}"


def judge_upgrade(running: Version, asked: Version) -> UpgradeJudgement:
    """
    Tell whether a cluster may be set from one version to another.

    Allowed: a newer release of the same or of the next minor version. Refused: another distribution's form, back, a minor
    version skipped, another major version. kubeadm's template is looked for by the plan, not here.
    """
    if running.distribution is not asked.distribution:
        return _refused(f"{asked} is {FACTS[asked.distribution].title}'s form; {describe_form(running.distribution)}.")
    if asked.order == running.order:
        return UpgradeJudgement(answer=UpgradeAnswer.NOTHING_TO_DO, reason=f"{asked} runs already.")
    if asked.order < running.order:
        return _refused(f"{asked} is older than {running}, which runs. Kubernetes never goes back; ask for {running} or newer.")
    if asked.major != running.major:
        return _refused(f"{asked} has another major version than {running}. Kubehenge upgrades within one major version.")
    if asked.minor > running.minor + 1:
        following = f"v{running.major}.{running.minor + 1}"
        return _refused(f"{asked} skips a minor version: {running} runs, so {following} comes first. Ask for a release of {following}.")
    step = "the next minor version" if asked.minor > running.minor else f"a newer release of v{running.major}.{running.minor}"
    return UpgradeJudgement(answer=UpgradeAnswer.ALLOWED, reason=f"{asked} is {step}.")


def _refused(reason: str) -> UpgradeJudgement:
    return UpgradeJudgement(answer=UpgradeAnswer.REFUSED, reason=reason)
