"""The errors that Kubehenge raises; each says what happened, to what, and what to do next, and holds no secret."""

from __future__ import annotations


class KubehengeError(Exception):
    """Any error that Kubehenge raises on purpose."""


class UsageError(KubehengeError):
    """The caller asked for what cannot be, such as a cluster that does not exist."""


class SettingsError(KubehengeError):
    """A process setting is missing or wrong; the text names it and says how to mend it."""


class DeclarationError(KubehengeError):
    """A declaration is wrong; it stays so until the revision changes."""


class TransientError(KubehengeError):
    """A call outward failed in a way that may pass: back off and try again."""


class UncertainError(TransientError):
    """A call outward was sent and its answer is lost: the world must be looked at before it is sent again."""


class RefusedError(KubehengeError):
    """A call outward was refused (forbidden, conflict, invalid); it stays so until something changes."""


class StaleError(KubehengeError):
    """What a plan was made on is no longer so; nothing was written (MODEL 13)."""


class LeaseLostError(KubehengeError):
    """Another process holds the right to act; write nothing more."""


class InvariantError(KubehengeError):
    """Our own mistake: the pass fails, the loop goes on."""
