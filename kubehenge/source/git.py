"""Git as a source of declarations: the names that the rest of Kubehenge uses (the parts are in the modules named git_*)."""

from kubehenge.source.git_credentials import Credentials, CredentialsError, HttpsToken, SshKey
from kubehenge.source.git_edits import (
    BranchMoved,
    NothingToCommit,
    Push,
    Pushed,
    PushRefused,
    Signer,
    commit_files,
    init_own_repository,
    push_commit,
    write_commit,
)
from kubehenge.source.git_errors import GitError, GitReason
from kubehenge.source.git_history import CommitInfo, Person, Signature
from kubehenge.source.git_process import MINIMUM_GIT, GitLimits, installed_git
from kubehenge.source.git_repo import Failed, GitMirror, Gone, Moved, Polled, Unchanged
from kubehenge.source.git_tree import ChangeKind, Changes, EmptyTree, FileChange, NotRead, SubPathVanished, Tree, TreeFile, Unread
from kubehenge.source.git_url import SourceSpec, SourceUrl, SourceUrlError, Transport, parse_source_url, parse_sub_path

__all__ = [
    "MINIMUM_GIT",
    "BranchMoved",
    "ChangeKind",
    "Changes",
    "CommitInfo",
    "Credentials",
    "CredentialsError",
    "EmptyTree",
    "Failed",
    "FileChange",
    "GitError",
    "GitLimits",
    "GitMirror",
    "GitReason",
    "Gone",
    "HttpsToken",
    "Moved",
    "NotRead",
    "NothingToCommit",
    "Person",
    "Polled",
    "Push",
    "PushRefused",
    "Pushed",
    "Signature",
    "Signer",
    "SourceSpec",
    "SourceUrl",
    "SourceUrlError",
    "SshKey",
    "SubPathVanished",
    "Transport",
    "Tree",
    "TreeFile",
    "Unchanged",
    "Unread",
    "commit_files",
    "init_own_repository",
    "installed_git",
    "parse_source_url",
    "parse_sub_path",
    "push_commit",
    "write_commit",
]
