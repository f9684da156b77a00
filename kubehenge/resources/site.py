"""What the site itself needs: a pure function of all clusters in all states, and of its own documents (MODEL 6)."""

from __future__ import annotations

from collections.abc import Iterable

from kubehenge.model.canon import Body
from kubehenge.model.resource import DesiredResource, ResourceRef
from kubehenge.resources.class_objects import ALIAS, CLASS, TEMPLATE
from kubehenge.resources.credentials import namespace_ref
from kubehenge.resources.providers import SCALE, VENDOR_PATCH

SETTING = ResourceRef(kind="site.setting", name="site")
RULES = ResourceRef(kind="site.rules", name="rules")

SHARED = frozenset({SETTING.kind, RULES.kind, namespace_ref("").kind, CLASS, TEMPLATE, ALIAS, SCALE, VENDOR_PATCH})
"""The kinds of what belongs to no cluster."""


def expand_site(
    namespaces: Iterable[str],
    *,
    setting: Body | None = None,
    rules: Body | None = None,
    classes: Iterable[DesiredResource] = (),
    providers: Iterable[DesiredResource] = (),
) -> tuple[DesiredResource, ...]:
    """
    Return the shared things: the namespace of each cluster that is not gone, the stored settings that Git asks for, classes and providers.

    `setting` and `rules` are the bodies of the `Site` and `ApprovalRules` documents in force, None where there is none.
    """
    wanted = [
        DesiredResource(ref=namespace_ref(name), body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in sorted(set(namespaces))
    ]
    wanted += [DesiredResource(ref=ref, body=body) for ref, body in ((SETTING, setting), (RULES, rules)) if body is not None]
    return (*wanted, *classes, *providers)
