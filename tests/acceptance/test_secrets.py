"""No secret in the database, in logs, plans, pages, exports, error texts, process arguments or Git (ACCEPTANCE 1.13, 4.4; MODEL 8)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.acceptance.corner import tokens_held
from tests.acceptance.files import UPGRADE, cluster
from tests.acceptance.running import Site

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(600)]

PLANTED = 200
SECRET_FILES = {"site.key"}
"""The key of the HMACs that stand for secrets; it is a file of its own, for its owner only."""


def canary(number: int) -> str:
    return f"C4n4ry-{number:03}-{number * 7919 % 100_000:05}-{number * 104_729 % 1_000_000:06}"


ENCRYPTED = """\
apiVersion: v1
kind: Secret
metadata: {{name: sealed-{number}, namespace: clusters}}
stringData: {{password: "ENC[AES256_GCM,data:{secret},iv:x,tag:y,type:str]"}}
sops: {{mac: "ENC[AES256_GCM,data:{secret}]"}}
"""
PLAIN = """\
apiVersion: v1
kind: Secret
metadata: {{name: plain-{number}, namespace: clusters}}
stringData: {{password: {secret}}}
"""
INVALID = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: Invalid_{number}, namespace: clusters}}
spec: {{password: {secret}, topology: {{version: 1, credentials: {{token: [{secret}]}}}}}}
"""
BROKEN = """\
kind: Cluster
password: {secret}
\tbroken: {secret}
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
users: [{{name: admin-{number}, user: {{token: {secret}}}}}]
"""
FORMS = (ENCRYPTED, PLAIN, INVALID, BROKEN, KUBECONFIG)


def planted_in_git() -> dict[str, str]:
    return {f"canaries/{number}.yaml": FORMS[number % len(FORMS)].format(number=number, secret=canary(number)) for number in range(PLANTED)}


@pytest.fixture(scope="module")
def site(sites: Callable[..., Site]) -> Site:
    site = sites()
    site.start()
    site.clone.push({"steady.yaml": cluster("steady", 600), **planted_in_git()})
    site.wait_until_up("clusters/steady")
    return site


def secrets_of(site: Site) -> dict[str, str]:
    """Every secret that Kubehenge is given or makes, by what it is."""
    found = {path.name: path.read_text().strip() for path in secret_files(site)}
    for line in kubeconfig(site).read_text().splitlines():
        if "token: " in line:
            found["token of the management cluster"] = line.split("token: ")[1].strip()
    for number, (token, secret) in enumerate(sorted(tokens_held(site, "steady"))):
        found[f"token {number} of {token.partition('!')[0]}"] = secret
    return found


def settings_of(site: Site) -> dict[str, str]:
    lines = site.lab.places.settings.read_text().splitlines()
    return {name: value.strip("\"'") for name, _, value in (line.partition("=") for line in lines) if not name.startswith("#")}


def kubeconfig(site: Site) -> Path:
    return Path(settings_of(site)["KUBEHENGE_KUBECONFIG"])


def secret_files(site: Site) -> list[Path]:
    named = [Path(value) for name, value in settings_of(site).items() if name.endswith("SECRET_FILE")]
    return [*named, Path(site.description["git"]["token_file"])]


def forms_of(secret: str) -> set[bytes]:
    return {secret.encode(), base64.b64encode(secret.encode()), quote(secret).encode()}


def everything(site: Site) -> Iterator[tuple[str, bytes]]:
    """All that Kubehenge shows, says or keeps."""
    for path in sorted(site.state.rglob("*")):
        # A mirror holds what the repository holds, as Git keeps it.
        if path.is_file() and path.name not in SECRET_FILES and "objects" not in path.parts:
            yield f"state/{path.name}", path.read_bytes()
    yield "log", site.log.read_bytes()
    for pid in site.kubehenge.pids() if site.kubehenge else ():
        yield f"arguments of {pid}", Path(f"/proc/{pid}/cmdline").read_bytes()
    for arguments in COMMANDS:
        ended = site.kh(*arguments)
        yield " ".join(arguments), ended.said.encode()
    browser, seen, left = (
        site.administrator,
        set(),
        ["/clusters", "/plans?state=all", "/runs", "/sources", "/ledger", "/approvals", "/api/v1/plans?state=all"],
    )
    while left and len(seen) < 80:
        path = left.pop(0)
        if path in seen:
            continue
        seen.add(path)
        answer = browser.get(path)
        yield f"page {path}", answer.content + json.dumps(dict(answer.headers)).encode()
        if "html" in answer.headers.get("Content-Type", ""):
            page = browser.open(path)
            left += [
                one for a in page.root.iter("a") if (one := a.get("href", "")).startswith(("/plans/", "/runs/", "/clusters/", "/sources/"))
            ]


ECHOED = {"proxmox": ("engine-token", "capmox-token"), "kube": ("engine-token", "capmox-token", "token of the management cluster")}
COMMANDS = (
    ["plans", "--all", "-o", "json"],
    ["plan", "-o", "json"],
    ["plan", "-o", "markdown"],
    ["get", "documents", "-o", "yaml"],
    ["get", "resources", "-o", "json"],
    ["get", "ledger", "-o", "json"],
    ["get", "sources", "-o", "json"],
    ["history", "clusters/steady", "-o", "json"],
    ["settings", "--process"],
    ["doctor"],
    ["sql", "SELECT * FROM v_plan"],
)


def require_without(site: Site, secrets: Mapping[str, str]) -> None:
    found = {
        (where, what)
        for where, text in everything(site)
        for what, secret in secrets.items()
        if any(form in text for form in forms_of(secret))
    }
    assert not found


def test_acceptance_4_4_no_secret_is_shown_said_or_kept_while_all_goes_well_and_while_it_fails(site: Site) -> None:
    secrets = secrets_of(site)
    assert len(secrets) >= 5
    canaries = {f"canary {number}": canary(number) for number in range(PLANTED)}
    passwords = {f"password of {who}": person["password"] for who, person in site.description["sign_ins"].items()}
    for target, path in (("proxmox", "/api2/json/(cluster|pools|access/(users|acl))"), ("kube", "/api")):
        # What a server was sent, or is set up with beside it, may stand in what it answers.
        for what in ECHOED[target]:
            site.fault(target, "status", method="GET", path=path, status=500, reason=f"bad request: {secrets[what]}", times=1)
    site.clone.push({"steady.yaml": cluster("steady", 600, version=UPGRADE)})
    site.wait_for_plan("clusters/steady")
    site.wait(lambda: not site.control("GET", "/faults")["faults"], "not every fault has struck")
    assert site.anonymous.post("/sign-in", data={"username": canary(1), "password": canary(2), "realm": "pve"}).status_code >= 400
    require_without(site, {**secrets, **canaries, **passwords})
