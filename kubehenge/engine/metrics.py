"""What the loops count for Prometheus; served by the page at /metrics when both run in one process."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

PASSES = Counter("kubehenge_passes_total", "Passes of a loop, by how they ended.", ["loop", "outcome"])
PASS_SECONDS = Histogram(
    "kubehenge_pass_seconds", "How long a pass took.", ["loop"], buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
)
PLANS_APPROVED = Counter("kubehenge_plans_approved_by_rule_total", "Plans that rules approved by themselves.")
ACTIONS = Counter("kubehenge_actions_total", "Actions carried out, by kind, verb and outcome.", ["kind", "verb", "outcome"])
RUNS = Counter("kubehenge_runs_total", "Runs ended, by outcome.", ["outcome"])
