"""Real repositories for tests: what a team has on its code host, and the clone that one of them pushes from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def git(folder: Path, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(["git", *args], cwd=folder, env=ENV | dict(env or {}), input=stdin, capture_output=True, check=False, timeout=110)
    assert done.returncode == 0, f"git {args}: {done.stderr.decode()}"
    return done.stdout.decode().strip()


class Upstream:
    """A bare repository and one work clone of it."""

    def __init__(self, folder: Path, *, branch: str = "main", object_format: str = "sha1") -> None:
        self.bare = folder / "team" / "clusters.git"
        self.bare.mkdir(parents=True)
        git(self.bare, "init", "--quiet", "--bare", f"--initial-branch={branch}", f"--object-format={object_format}")
        self.branch = branch
        self.clone = folder / "clone"
        git(folder, "init", "--quiet", f"--initial-branch={branch}", f"--object-format={object_format}", str(self.clone))
        git(self.clone, "remote", "add", "origin", str(self.bare))

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        for name, content in files.items():
            path = self.clone / name
            if content is None:
                git(self.clone, "rm", "-r", "--quiet", "--", name)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: Mapping[str, str | bytes | None] | None = None, message: str = "Change", *, options: Sequence[str] = ()) -> str:
        self.write(files or {})
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "--quiet", "--allow-empty", "-m", message, *options)
        return git(self.clone, "rev-parse", "HEAD")

    def push(self, files: Mapping[str, str | bytes | None] | None = None, message: str = "Change", *, force: bool = False) -> str:
        revision = self.commit(files, message)
        git(self.clone, "push", "--quiet", *(["--force"] if force else []), "origin", f"HEAD:refs/heads/{self.branch}")
        return revision

    def push_tree(self, entries: Sequence[tuple[str, str, bytes | str]], message: str = "Tree") -> str:
        """
        Push a commit whose tree has exactly these (mode, path, content or object id): what a work tree cannot hold, such as colliding or odd names.

        The paths may hold slashes; bytes are content, text is an object id.
        """
        index = {"GIT_INDEX_FILE": str(self.clone / "odd.index")}
        lines = []
        for mode, path, content in entries:
            blob = (
                content
                if isinstance(content, str)
                else git(self.bare, "-c", "core.compression=0", "hash-object", "-w", "--stdin", stdin=content)
            )
            lines.append(f"{mode} {blob}\t".encode() + path.encode("utf-8", "surrogateescape") + b"\0")
        git(self.bare, "update-index", "-z", "--index-info", stdin=b"".join(lines), env=index)
        tree = git(self.bare, "write-tree", env=index)
        Path(index["GIT_INDEX_FILE"]).unlink()
        head = self.head()
        commit = git(self.bare, "commit-tree", tree, *(["-p", head] if head else []), "-m", message)
        git(self.bare, "update-ref", f"refs/heads/{self.branch}", commit)
        return commit

    def head(self) -> str | None:
        return git(self.bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{self.branch}") or None


def import_history(bare: Path, *, files: int, commits: int, lines: int = 30) -> None:
    """Fill an empty bare repository with `files` files under clusters/, and `commits` commits that each change one of them."""
    stream = [b"reset refs/heads/main\n"]
    for number in range(commits):
        stream.append(
            b"commit refs/heads/main\ncommitter Ada <ada@example.org> %d +0000\ndata 7\nChange\n\n" % (1_700_000_000 + number * 60)
        )
        for file in range(files) if number == 0 else [number * 7919 % files]:
            body = _declaration(file, number, lines)
            stream.append(b"M 100644 inline clusters/team-%02d/c%05d.yaml\ndata %d\n" % (file % 20, file, len(body)) + body + b"\n")
    git(bare, "fast-import", "--quiet", stdin=b"".join(stream))
    git(bare, "gc", "--quiet")


def _declaration(file: int, number: int, lines: int) -> bytes:
    head = f"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: c{file:05d}\n  namespace: clusters\nspec:\n"
    notes = "".join(f"  # {line} {(file * 2654435761 + line * 40503) % 4294967296:08x}\n" for line in range(lines))
    return (head + notes + f"  replicas: {number}\n").encode()
