"""Addresses, branches and sub-paths that Kubehenge accepts for a source (ACCEPTANCE 4.5)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from git_upstream import ENV
from hypothesis import given, settings
from hypothesis import strategies as st

from kubehenge.source.git import Credentials, CredentialsError, HttpsToken, SourceSpec, SourceUrlError, SshKey, Transport, parse_source_url
from kubehenge.source.git_url import check_branch, check_revision, parse_sub_path, repository_key


@pytest.mark.parametrize(
    ("text", "transport", "host", "port", "path", "canonical"),
    [
        ("https://git.example.org/team/clusters.git", "https", "git.example.org", None, "/team/clusters.git", None),
        ("https://GIT.example.org:8443/team/c/", "https", "git.example.org", 8443, "/team/c/", "https://git.example.org:8443/team/c"),
        ("https://[2001:db8::1]:443/c", "https", "2001:db8::1", 443, "/c", None),
        ("https://192.0.2.7/a%20b.git", "https", "192.0.2.7", None, "/a%20b.git", None),
        ("ssh://git@git.example.org/team/c.git", "ssh", "git.example.org", None, "/team/c.git", None),
        ("ssh://git.example.org:2222/c", "ssh", "git.example.org", 2222, "/c", None),
        ("git@git.example.org:team/c.git", "ssh", "git.example.org", None, "team/c.git", None),
        ("git.example.org:/srv/c.git", "ssh", "git.example.org", None, "/srv/c.git", None),
        ("git@[2001:db8::1]:c.git", "ssh", "2001:db8::1", None, "c.git", None),
        ("/srv/git/c.git", "file", "", None, "/srv/git/c.git", None),
        ("/srv/my repositories/c.git/", "file", "", None, "/srv/my repositories/c.git", "/srv/my repositories/c.git"),
    ],
)
def test_addresses_over_https_ssh_and_local_paths_are_accepted(text, transport, host, port, path, canonical):
    url = parse_source_url(text)
    assert (url.transport, url.host, url.port, url.path, url.text) == (Transport(transport), host, port, path, canonical or text)


REFUSED = {
    "": "empty",
    "-oProxyCommand=x": "dash",
    "--upload-pack=touch /tmp/x": "dash",
    "ssh://-oProxyCommand=x/c": "host",
    "-x@host:c": "dash",
    "git@-host:c": "host",
    "git@host:-c": "dash",
    "ssh://-x@host/c": "user",
    "ext::sh -c touch% /tmp/x": "space",
    "ext::touch": "protocol",
    "fd::7": "protocol",
    "transport::https://host/c": "protocol",
    "file:///srv/git/c.git": "absolute path",
    "http://host/c": "http://",
    "git://host/c": "protocol",
    "ftp://host/c": "protocol",
    "rsync://host/c": "protocol",
    "svn+ssh://host/c": "protocol",
    "https://host": "no repository",
    "https://host/": "no repository",
    "https:///c": "host",
    "https://host/c?x=1": "?",
    "https://host/c#main": "?",
    "https://host:0/c": "port",
    "https://host:99999/c": "port",
    "https://host:x/c": "port",
    "https://ho_st!/c": "host",
    "https://[::zz]/c": "host",
    "https://host/a/../b": "..",
    "https://host/a/%2e%2e/b": "..",
    "https://host/c%0aHost: x": "space",
    "https://host/c%0ahost=evil": "control",
    "https://host/c%00": "control",
    "https://host/c\nx": "control",
    "https://host/c\x1b[31m": "control",
    "https://host\\@evil/c": "backslash",
    "https://host/c d": "space",
    "C:\\repos\\c": "backslash",
    "relative/path": "not an address",
    "./c": "not an address",
    "~/c": "not an address",
    "/srv/../etc": "..",
    "//host/share": "two slashes",
    "https://" + "a" * 3000 + "/c": "characters",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_other_addresses_are_refused_with_the_reason(text):
    with pytest.raises(SourceUrlError) as caught:
        parse_source_url(text)
    assert REFUSED[text] in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hunter2canary@host/c",
        "https://hunter2canary@host/c",
        "ssh://git:hunter2canary@host/c",
        "git:hunter2canary@host:c",
        "git:hunter2canary@host/c",
        "https://a:hunter2canary@host:99999/c",
        "https://a:hunter2canary@/c",
        "https://a:hunter2canary@ho!st/c",
        "me@b:hunter2canary@host:c",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(text):
    with pytest.raises(SourceUrlError) as caught:
        parse_source_url(text)
    assert "hunter2canary" not in str(caught.value)


@given(st.text(max_size=60) | st.from_regex(r"(https|ssh|git@|ext:|-)[\x00-\x7f]{0,40}", fullmatch=True))
def test_any_text_is_an_address_of_three_kinds_or_refused(text):
    try:
        url = parse_source_url(text)
    except SourceUrlError:
        return
    assert not url.text.startswith("-")
    assert not url.host.startswith("-")
    assert url.text.isprintable()
    assert "::" not in url.text.partition("[")[0]
    assert parse_source_url(url.text) == parse_source_url(parse_source_url(url.text).text)


NAMES = st.text(alphabet=st.sampled_from("ab/.-~^:?*[\\@{ \x01\x7fé"), min_size=1, max_size=8) | st.sampled_from(
    ["main", "HEAD", "@", "a.lock", "a/b.lock/c", "feature/x", "refs", "a@{b", "..", "a//b", "-x", "x-"]
)


@settings(max_examples=150, deadline=None)
@given(NAMES)
def test_a_branch_is_accepted_exactly_when_git_accepts_it(name):
    theirs = (
        subprocess.run(["git", "check-ref-format", "--branch", name], env=ENV, capture_output=True, check=False, cwd="/").returncode == 0
    )
    try:
        check_branch(name)
        ours = True
    except SourceUrlError:
        ours = False
    # git expands @{-1} and lets "@" pass as a shorthand of HEAD; neither names a branch.
    assert ours == (theirs and name not in {"@", "HEAD"} and not name.startswith("refs/"))


@pytest.mark.parametrize(
    ("text", "plain"), [("", ""), ("clusters", "clusters"), ("clusters/prod/", "clusters/prod"), (".kube/x", ".kube/x"), ("a b", "a b")]
)
def test_sub_paths_are_brought_into_one_form(text, plain):
    assert parse_sub_path(text) == plain


@pytest.mark.parametrize(
    "text", ["/", "/etc", "..", "a/../b", "./a", "a//b", "-a", ":(top)a", "a\nb", "a\\b", ".git/hooks", "a/.GIT", "a" * 2000]
)
def test_sub_paths_that_lead_elsewhere_are_refused(text):
    with pytest.raises(SourceUrlError):
        parse_sub_path(text)


@pytest.mark.parametrize(
    "bad", [{"id": "../x"}, {"id": "-x"}, {"id": "A"}, {"id": ""}, {"branch": "--upload-pack=x"}, {"path": "../x"}, {"path": "a/"}]
)
def test_a_source_cannot_be_built_with_values_that_were_not_judged(bad):
    good = {"id": "team", "url": parse_source_url("https://host/c"), "branch": "main", "path": ""}
    with pytest.raises(SourceUrlError):
        SourceSpec(**(good | bad))


def test_credentials_fit_their_transport(tmp_path: Path):
    key = Credentials(login=SshKey(key_file=tmp_path / "k", known_hosts_file=tmp_path / "h"))
    token = Credentials(login=HttpsToken(token_file=tmp_path / "t"))
    with pytest.raises(SourceUrlError, match="ssh address"):
        SourceSpec(id="a", url=parse_source_url("https://host/c"), credentials=key)
    with pytest.raises(SourceUrlError, match="https address"):
        SourceSpec(id="a", url=parse_source_url("git@host:c"), credentials=token)


@pytest.mark.parametrize("name", ["with space", "per%cent", 'quo"te', "dol$lar"])
def test_a_key_path_that_ssh_would_read_differently_is_refused(name):
    with pytest.raises(CredentialsError):
        SshKey(key_file=Path("/etc") / name, known_hosts_file=Path("/etc/known"))


@pytest.mark.parametrize("text", ["main", "HEAD", "--all", "abc123", "A" * 40, "a" * 41, "a" * 40 + "\n"])
def test_only_full_ids_name_a_revision(text):
    with pytest.raises(SourceUrlError):
        check_revision(text)


def test_the_https_and_ssh_address_of_one_repository_have_one_key():
    keys = {
        repository_key(url)
        for url in (
            "https://Git.example.org/Team/C.git",
            "https://git.example.org:8443/team/c",
            "ssh://git@git.example.org:2222/team/c.git",
            "git@git.example.org:team/c.git",
            "http://git.example.org/team/c",
        )
    }
    assert keys == {"git.example.org/team/c"}
    assert repository_key("https://git.example.org/team/d") not in keys
    assert repository_key("/srv/team/c") is None
    assert repository_key("http://x y/") is None
