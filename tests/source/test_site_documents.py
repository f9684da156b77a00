"""`Site` and `ApprovalRules`: what they set, their defaults, and what is refused."""

from __future__ import annotations

import pytest

from kubehenge.model.document import Verdict
from kubehenge.model.resource import ChangeClass
from kubehenge.model.site import ApprovalRules, Privilege, SiteSettings, VmIdBlock, VmIdRange
from kubehenge.model.window import Weekday
from kubehenge.source.judge import declare
from tests.source.clusters import GONE, changed, findings, judge

SITE = {
    "apiVersion": "kubehenge.dev/v1alpha1",
    "kind": "Site",
    "metadata": {"name": "default"},
    "spec": {
        "workloadPool": "henge/kubehenge",
        "clusterGroup": "clusters",
        "storages": ["shared-storage"],
        "bridges": ["vmbr0", "vmbr1"],
        "templatePool": "templates",
        "identityProviders": [{"issuerURL": "https://id.example.org/realms/corp", "clientID": "kubernetes"}],
        "schedule": {"pollSeconds": 60, "observeSeconds": 45},
        "concurrentClusters": 3,
        "vmIdBlock": {"first": 20_000_000, "perCluster": 500},
        "ownerVmIds": {"first": 8_000_000, "last": 8_999_999},
        "timeZone": "Europe/Berlin",
    },
}
RULES = {
    "apiVersion": "kubehenge.dev/v1alpha1",
    "kind": "ApprovalRules",
    "metadata": {"name": "default"},
    "spec": {
        "fourEyes": True,
        "rules": [
            {
                "name": "production",
                "classes": ["rollout", "delete"],
                "needs": {
                    "approvers": 2,
                    "privilege": "Sys.Modify",
                    "role": "platform-admins",
                    "typedName": True,
                    "windows": [{"weekdays": ["Sat"], "start": "22:00"}],
                },
                "match": {"namespaces": ["prod"], "labels": {"tier": "gold"}},
            },
            {"name": "the rest", "classes": ["create"]},
        ],
    },
}


def test_a_site_sets_every_field():
    judged = judge(SITE)
    assert judged.problems == ()
    site = judged.declaration
    assert (site.name, site.workload_pool, site.cluster_group, site.template_pool) == (
        "default",
        "henge/kubehenge",
        "clusters",
        "templates",
    )
    assert (site.storages, site.bridges, site.time_zone) == (("shared-storage",), ("vmbr0", "vmbr1"), "Europe/Berlin")
    assert (site.poll_seconds, site.observe_seconds, site.concurrent_clusters) == (60, 45, 3)
    assert (site.vm_ids, site.owner_vm_ids) == (VmIdBlock(first=20_000_000, per_cluster=500), VmIdRange(first=8_000_000, last=8_999_999))
    assert [provider.issuer_url for provider in site.identity_providers] == ["https://id.example.org/realms/corp"]
    assert declare(judged.body) == site


def test_a_site_that_sets_nothing_has_the_defaults():
    assert judge(changed(SITE, spec={})).declaration == SiteSettings()


def test_rules_set_every_field():
    judged = judge(RULES)
    assert judged.problems == ()
    rules = judged.declaration
    production, rest = rules.rules
    assert rules.four_eyes
    assert production.classes == {ChangeClass.ROLLOUT, ChangeClass.DELETE}
    assert (production.needs.approvers, production.needs.privilege, production.needs.role) == (2, Privilege.SYS_MODIFY, "platform-admins")
    assert production.needs.typed_name
    assert [window.weekdays for window in production.needs.windows] == [{Weekday.SAT}]
    assert (production.match.namespaces, production.match.labels) == (("prod",), (("tier", "gold"),))
    assert (rest.needs.approvers, rest.match.namespaces) == (0, ())
    assert declare(judged.body) == rules


def test_rules_that_set_nothing_leave_the_defaults():
    assert judge(changed(RULES, spec={})).declaration == ApprovalRules()


REFUSED = [
    (changed(SITE, metadata__name=GONE), "metadata.name", "required"),
    (changed(SITE, metadata__namespace="clusters"), "metadata.namespace", "unknown"),
    (changed(SITE, spec__workloadPool="a/b/c"), "spec.workloadPool", "form"),
    (changed(SITE, spec__workloadPool="a b"), "spec.workloadPool", "form"),
    (changed(SITE, spec__storages="shared-storage"), "spec.storages", "type"),
    (changed(SITE, spec__storage=["x1"]), "spec.storage", "unknown"),
    (changed(SITE, spec__identityProviders___0__issuerURL="http://x.example"), "spec.identityProviders[0].issuerURL", "form"),
    (changed(SITE, spec__identityProviders=[SITE["spec"]["identityProviders"][0]] * 2), "spec.identityProviders[1].issuerURL", "duplicate"),
    (changed(SITE, spec__schedule__pollSeconds=1), "spec.schedule.pollSeconds", "minimum"),
    (changed(SITE, spec__concurrentClusters=0), "spec.concurrentClusters", "minimum"),
    (changed(SITE, spec__vmIdBlock__first=1_000_000_000), "spec.vmIdBlock.first", "range"),
    (changed(SITE, spec__ownerVmIds__last=7_000_000), "spec.ownerVmIds.last", "range"),
    (changed(SITE, spec__ownerVmIds__last=20_000_000), "spec.ownerVmIds.last", "overlap"),
    (changed(SITE, spec__timeZone="CEST"), "spec.timeZone", "unknown"),
    (changed(SITE, spec=None), "spec", "type"),
    (changed(RULES, spec__rules___0__classes=[]), "spec.rules[0].classes", "length"),
    (changed(RULES, spec__rules___0__classes=["upgrade"]), "spec.rules[0].classes[0]", "not allowed"),
    (changed(RULES, spec__rules___0__needs__approvers=-1), "spec.rules[0].needs.approvers", "range"),
    (changed(RULES, spec__rules___0__needs__approvers=True), "spec.rules[0].needs.approvers", "type"),
    (changed(RULES, spec__rules___0__needs__privilege="VM.Audit"), "spec.rules[0].needs.privilege", "not allowed"),
    (changed(RULES, spec__rules___0__needs__windows=[{"start": "25:00"}]), "spec.rules[0].needs.windows[0].start", "form"),
    (changed(RULES, spec__rules___1__name="production"), "spec.rules[1].name", "duplicate"),
    (changed(RULES, spec__rules___1__match={"clusters": ["x"]}), "spec.rules[1].match.clusters", "unknown"),
    (changed(RULES, spec__fourEyes="yes"), "spec.fourEyes", "type"),
]


@pytest.mark.parametrize(("document", "field", "kind"), REFUSED, ids=[f"{field} {kind}" for _, field, kind in REFUSED])
def test_refused_for_this_field_and_kind(document, field, kind):
    assert judge(document).verdict is Verdict.REFUSED
    assert findings(document) == [(field, kind)]
