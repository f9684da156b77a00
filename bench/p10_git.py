"""
P10: bringing a repository of 1,000 files and 300 commits, and a later commit, against git's own clone and fetch.

Start: nothing but the address (first), or the mirror and clone of the commit before (later). End: all objects are here and, for the
lines that say so, every changed file's content is in this process; no declaration is judged. Both sides use the same git, transport and
repository; git's clone writes a work tree, which Kubehenge needs none of, so the first ratio depends on how fast the disk makes files
(TMPDIR=/dev/shm shows it without a disk). The work of the serving side is part of a local transport.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from side_by_side import Row, compare

from kubehenge.source.git import GitMirror, Moved, SourceSpec, Tree, parse_source_url

FILES, COMMITS = 1_000, 300
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


class Bench:
    def __init__(self, folder: Path) -> None:
        self.state, self.clone, self.upstream = folder / "state", folder / "clone", folder / "clusters.git"
        self.changes, self.pushed = 0, ""
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.upstream))
        git(self.upstream, "config", "uploadpack.allowFilter", "true")
        self._import(COMMITS)
        git(self.upstream, "gc", "--quiet")
        self.mirror = GitMirror(self.state, SourceSpec(id="bench", url=parse_source_url(str(self.upstream))))

    def forget_both(self) -> None:
        for folder in (self.state, self.clone):
            shutil.rmtree(folder, ignore_errors=True)

    def clone_by_git(self, address: str) -> None:
        git(self.upstream, "clone", "--quiet", address, str(self.clone))

    def push_one(self) -> None:
        """One more commit, that changes one file."""
        self._import(1)

    def fetch(self) -> None:
        """Only the fetch: what `git fetch` does."""
        self.mirror.fetch(self.pushed)

    def read_first(self) -> None:
        """From nothing to the contents of all files."""
        moved = self.mirror.poll(None)
        assert isinstance(moved, Moved)
        tree = self.mirror.tree(moved.new)
        assert isinstance(tree, Tree)
        assert len(self.mirror.read_blobs(file.blob for file in tree.files)) == FILES

    def read_later(self) -> None:
        """From a commit that was read to the contents of what the next one changed: look, fetch, relate, compare, read."""
        old = self.mirror.tracked()
        moved = self.mirror.poll(old)
        assert isinstance(moved, Moved)
        assert old is not None
        changes = self.mirror.changed(old, moved.new)
        assert len(self.mirror.read_blobs(change.new_blob for change in changes.files if change.new_blob)) == 1

    def fetch_by_git(self) -> None:
        git(self.clone, "fetch", "--quiet")

    def look(self) -> None:
        self.mirror.poll(self.mirror.tracked())

    def look_by_git(self) -> None:
        git(self.clone, "ls-remote", "--heads", str(self.upstream), "refs/heads/main")

    def _import(self, commits: int) -> None:
        stream = []
        for _ in range(commits):
            number, self.changes = self.changes, self.changes + 1
            stream.append(
                b"commit refs/heads/main\ncommitter Ada <ada@example.org> %d +0000\ndata 7\nChange\n\n" % (1_700_000_000 + number * 60)
            )
            if number > 0 and len(stream) == 1:
                stream.append(b"from refs/heads/main^0\n")
            for file in range(FILES) if number == 0 else [number * 7919 % FILES]:
                body = declaration(file, number)
                stream.append(b"M 100644 inline clusters/team-%02d/c%04d.yaml\ndata %d\n" % (file % 20, file, len(body)) + body + b"\n")
        git(self.upstream, "fast-import", "--quiet", stdin=b"".join(stream))
        self.pushed = git(self.upstream, "rev-parse", "main")


def declaration(file: int, number: int) -> bytes:
    head = f"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: c{file:04d}\n  namespace: clusters\nspec:\n"
    notes = "".join(f"  # {line} {(file * 2654435761 + line * 40503) % 4294967296:08x}\n" for line in range(40))
    return (head + notes + f"  replicas: {number}\n").encode()


def git(folder: Path, *args: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *args], cwd=folder, env=ENV, input=stdin, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_known_args()[0].runs
    with tempfile.TemporaryDirectory() as folder:
        measure(Bench(Path(folder)), runs)


def measure(bench: Bench, runs: int) -> list[Row]:
    url, path = f"file://{bench.upstream}", str(bench.upstream)
    rows = [
        compare(
            "P10 first fetch, against git clone", bench.fetch, lambda: bench.clone_by_git(url), runs, before=bench.forget_both, target=0.5
        ),
        compare(
            "P10 first poll and all files read, against git clone",
            bench.read_first,
            lambda: bench.clone_by_git(url),
            runs,
            before=bench.forget_both,
        ),
        compare(
            "P10 first fetch, against git clone by hard links",
            bench.fetch,
            lambda: bench.clone_by_git(path),
            runs,
            before=bench.forget_both,
        ),
    ]
    bench.forget_both()
    bench.read_first()
    bench.clone_by_git(url)
    rows += [
        compare(
            "P10 later fetch of one commit, against git fetch",
            bench.fetch,
            bench.fetch_by_git,
            max(runs, 25),
            before=bench.push_one,
            target=1.2,
        ),
        compare(
            "P10 later poll and changed files read, against git fetch",
            bench.read_later,
            bench.fetch_by_git,
            max(runs, 25),
            before=bench.push_one,
        ),
        compare("P10 idle poll, against git ls-remote", bench.look, bench.look_by_git, max(runs, 25)),
    ]
    return rows


if __name__ == "__main__":
    sys.exit(main())
