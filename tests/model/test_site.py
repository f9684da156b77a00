"""Approval rules: the defaults of MODEL 15, and which rule decides."""

from __future__ import annotations

import pytest

from kubehenge.model.resource import ChangeClass
from kubehenge.model.site import DEFAULT_RULES, ApprovalNeeds, ApprovalRule, ApprovalRules, ClusterMatch, Privilege, SiteSettings


def needs(change_class, rules=None, namespace="clusters", labels=()):
    return (rules or ApprovalRules()).rule_for(change_class, namespace=namespace, labels=labels).needs


@pytest.mark.parametrize("change_class", ["create", "change", "repair", "duty", "credential"])
def test_the_rules_approve_what_loses_nothing(change_class):
    assert needs(ChangeClass(change_class)) == ApprovalNeeds()


@pytest.mark.parametrize("change_class", ["rollout", "shrink", "adopt"])
def test_one_person_approves_what_replaces_or_removes_nodes(change_class):
    assert needs(ChangeClass(change_class)) == ApprovalNeeds(approvers=1)


def test_a_deletion_takes_one_person_and_the_typed_name():
    assert needs(ChangeClass.DELETE) == ApprovalNeeds(approvers=1, typed_name=True)


def test_trust_takes_one_person_with_sys_modify():
    assert needs(ChangeClass.TRUST) == ApprovalNeeds(approvers=1, privilege=Privilege.SYS_MODIFY)


def test_the_defaults_name_every_class_once():
    assert sorted(cls for rule in DEFAULT_RULES for cls in rule.classes) == sorted(ChangeClass)


def test_four_eyes_is_off_unless_set():
    assert not ApprovalRules().four_eyes


def test_the_first_rule_that_fits_decides_and_the_default_where_none_does():
    two = ApprovalNeeds(approvers=2)
    rules = ApprovalRules(
        rules=(
            ApprovalRule(name="prod", classes=frozenset({ChangeClass.ROLLOUT}), needs=two, match=ClusterMatch(namespaces=("prod",))),
            ApprovalRule(name="gold", classes=frozenset({ChangeClass.ROLLOUT}), match=ClusterMatch(labels=(("tier", "gold"),))),
        )
    )
    assert needs(ChangeClass.ROLLOUT, rules, "prod", (("tier", "gold"),)) == two
    assert needs(ChangeClass.ROLLOUT, rules, "lab", (("a", "b"), ("tier", "gold"))) == ApprovalNeeds()
    assert needs(ChangeClass.ROLLOUT, rules, "lab") == ApprovalNeeds(approvers=1)
    assert needs(ChangeClass.SHRINK, rules, "prod") == ApprovalNeeds(approvers=1)


def test_volume_owners_and_machines_take_their_vmids_apart():
    settings = SiteSettings()
    assert settings.owner_vm_ids.first < settings.owner_vm_ids.last < settings.vm_ids.first
