# SPDX-License-Identifier: Apache-2.0
"""Releases of the small project with their capsules, made with everything at hand and audited with nothing of it.

Edge: the file system, processes, loopback sockets.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir, closing
from dataclasses import dataclass, replace
from pathlib import Path

from derive.canonical import Digest, Json
from derive.lock.documents import DebEntry, render_lock
from support.archives import Tar, deb, folder
from support.cli import Ran, derive, environment
from support.engine import BuiltEngine
from support.releasing import released_project
from support.servers import Reply
from support.small import Small, base_lock, deb_entry, run_here

SCRIPT = "derivations/small/build.sh"

RANDOM = """\
head -c 16 /dev/urandom > "$DERIVE_OUT/usr/share/hello/number"
cd /build
head -c 16 /dev/urandom > x
busybox tar -cf inner.tar x
mkdir n
mv inner.tar n
busybox tar -cf "$DERIVE_OUT/usr/share/hello/third-party.tar" n
"""
"""Writes a random number, and an archive within an archive whose size is always the same."""

_ONE = ("linux/amd64",)


@dataclass(frozen=True, slots=True)
class Lost:
    """What is left of some releases: a layout of their capsules, and their digests; store, mirror and project are gone.

    ``ground`` is a store that holds nothing but the engine; ``empty`` a folder that is no project.
    """

    capsule: Path
    releases: Mapping[str, str]
    images: Mapping[str, Mapping[str, str]]
    ground: Path
    empty: Path

    def audit(self, *arguments: str, capsule: Path | None = None, env: Mapping[str, str] | None = None) -> Ran:
        """Audit from a capsule, with no mirror and no project."""
        return derive(
            *("audit", *arguments, "--capsule", str(capsule or self.capsule)),
            env={**self.environment, **(env or {})},
            cwd=self.empty,
            timeout_s=180,
        )

    def look(self, *arguments: str, capsule: Path | None = None, cwd: Path | None = None) -> Ran:
        """Audit without building anything, in this process: from a capsule, or in a folder with what that holds."""
        named = () if cwd is not None else ("--capsule", str(capsule or self.capsule))
        with chdir(cwd or self.empty):
            return run_here("audit", *arguments, "--shallow", *named, env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which nothing is served, and the store holds the engine alone."""
        nowhere = "http://127.0.0.1:9"
        return {
            **{f"DERIVE_MIRROR_{kind}": nowhere for kind in ("DEBIAN", "PYTHON", "GIT", "OCI", "HF")},
            "DERIVE_STORE": str(self.ground),
            "XDG_CONFIG_HOME": str(self.empty),
            "XDG_DATA_HOME": str(self.empty.parent / "data"),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start an audit that is to be stopped."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "derive", "audit", *arguments, "--capsule", str(self.capsule)],
            env=environment(self.environment),
            cwd=self.empty,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def lean_copy(store: Path, target: Path, *trees: Digest) -> Path:
    """Copy a store with all that it knows and every blob; of its unpacked trees, which are many links, these alone."""
    target.mkdir()
    for part in store.iterdir():
        if part.name in {"blobs", "listings"}:
            shutil.copytree(part, target / part.name, copy_function=os.link if part.name == "blobs" else shutil.copy2)
        elif part.is_dir():
            (target / part.name).mkdir()  # what another process stages in there is nobody's to copy
        elif not part.name.startswith("derive.sqlite"):
            shutil.copy2(part, target / part.name)
    for tree in trees:
        path = f"trees/{tree.hex}"
        shutil.copytree(store / path, target / path, symlinks=True, copy_function=os.link)
    whole, copy = (sqlite3.connect(folder / "derive.sqlite") for folder in (store, target))
    with closing(whole), closing(copy):
        whole.backup(copy)
    return target


def release_and_lose(place: Path, engine: BuiltEngine) -> Lost:
    """Make three releases, for a lock bump, a changed patch and a changed recipe, and one that gives random bytes.

    The first is of both platforms, and the others of one.
    The store in which they are made, which ``lost-store`` is afterwards, has the engine too.
    """
    capsule, ground = place / "capsule", lean_copy(engine.store, place / "ground", engine.tree)
    releases: dict[str, str] = {}
    images: dict[str, Mapping[str, str]] = {}
    with released_project(place) as small:
        lean_copy(engine.store, small.store, engine.tree)
        for name, platforms, change in (
            ("first", ("linux/amd64", "linux/arm64"), bump_lock),
            ("second", _ONE, lambda one: one.edit("patches/hello/0001-greet.patch", "+hello, world", "+hello, all")),
            ("third", _ONE, lambda one: one.edit("recipes/serve.toml", "64MiB", "128MiB")),
            ("dice", _ONE, lambda one: one.write(SCRIPT, (one.root / SCRIPT).read_text() + RANDOM)),
        ):
            change(small)
            chosen = [word for platform in platforms for word in ("--platform", platform)]
            releases[name] = small.here("release", name, "--recipe", "serve", *chosen).answer
            images[name] = body(small, name)
            pack(small, name, capsule)
    empty = place / "empty"
    empty.mkdir()
    for path in (small.root, small.store):
        path.rename(place / f"lost-{path.name}")
    return Lost(capsule, releases, images, ground, empty)


def pack(small: Small, name: str, capsule: Path) -> None:
    """Put a release's capsule beside those that are there, without what the engine is made of: ``ground`` has that."""
    add = ["--add"] if capsule.exists() else []
    ran = small.here("capsule", "create", name, "--output", str(capsule), "--without-engine", *add)
    assert ran.code == 0, ran.err


def body(small: Small, name: str) -> Mapping[str, str]:
    """Return a release's images by platform."""
    document = json.loads((small.root / f"records/releases/{name}/release.json").read_bytes())
    return {platform: one["digest"] for platform, one in document["images"].items()}


def bump_lock(small: Small) -> None:
    """Lock another version of the package ``notes``, and serve that."""
    debs: list[DebEntry] = []
    closures: dict[str, tuple[str, ...]] = {}
    for architecture in ("amd64", "arm64"):
        file = f"notes_1.1-1_{architecture}.deb"
        readme = Tar(name=b"./usr/share/notes/readme", data=b"newer notes\n")
        script = Tar(name=b"./postinst", data=b"#!/bin/sh\n", mode=0o755)
        folders = [folder(name) for name in (b"./", b"./usr/", b"./usr/share/", b"./usr/share/notes/")]
        data = deb(*folders, readme, package="notes", version="1.1-1", architecture=architecture, control=[script])
        small.serve(file, Reply(body=data))
        old = deb_entry(f"notes_1.0-1_{architecture}.deb")
        hashed = Digest(hashlib.sha256(data).hexdigest())
        locator = old.locator.replace("1.0-1", "1.1-1")
        debs.append(replace(old, version="1.1-1", file=file, locator=locator, size=len(data), sha256=hashed))
        closures[architecture] = (file,)
    lock = base_lock()
    kept = tuple(one for one in lock.debs if one.name != "notes")
    bumped = replace(lock, debs=(*kept, *debs), closures={**lock.closures, "run": closures})
    small.write("lock/base.lock.json", render_lock(bumped))


def verdict_of(ran: Ran) -> Mapping[str, Json]:
    """Return the body of an audit's record that was printed."""
    document = json.loads(ran.out)
    assert document["kind"] == "audit"
    found = document["body"]
    assert isinstance(found, dict)
    return found
