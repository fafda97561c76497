# SPDX-License-Identifier: Apache-2.0
"""A medium image of real packages and wheels, whose layers are split: what an operator pulls after a change."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest, decode
from derive.images.split import shared_output, shared_place
from derive.lock.read import parse_lock
from derive.store.local import LocalStore
from derive.trees.listing import File, Symlink
from derive.trees.materialise import remove_folder
from support.cli import CHECKOUT
from support.derived import Derived
from support.small import run_here, small_project
from support.variants import copy_checkout, copy_store, edit

WHEELS = ("attrs", "cffi", "jinja2", "markupsafe", "pycparser")

IMAGE = """\
platforms = ["linux/amd64"]
default-platform = "linux/amd64"

[[layers]]
name = "system"
from = ["userland"]
[layers.split]
own = ["perl-base", "bash"]
shared = 3

[[layers]]
name = "wheels"
from = ["medium-wheels"]
[layers.split]
own = ["markupsafe", "jinja2", "cffi"]
shared = 4
native = ["*.so"]

[encoding]
name = "gzip-members/2"
level = 1
"""

DERIVATIONS = """\
[medium-wheels]
builder = "wheels"
set = "engine"
python = "3.13"
root = "toolchain"
without = { %s }
patches = { }
"""

PATCH = """\
Description: say what it does

--- a/markupsafe/_native.py
+++ b/markupsafe/_native.py
@@ -1,3 +1,4 @@
+# Pure Python, for where there is no compiled module.
 def _escape_inner(s: str, /) -> str:
     return (
         s.replace("&", "&amp;")
"""


@dataclass(slots=True)
class Medium:
    """The project in a folder, with a store of its own."""

    root: Path
    store: Path

    def here(self, *arguments: str) -> str:
        """Run a command in this process, and return its answer."""
        ran = run_here(*arguments, "--project", str(self.root), env={"DERIVE_STORE": str(self.store)})
        assert ran.code in (0, 1), ran.err
        return ran.out.strip()

    def image(self, *arguments: str) -> str:
        """Derive the image."""
        return self.here("image", "medium", *arguments).rpartition("\n")[2]

    def diff(self, before: str, after: str) -> Any:
        """Return what moved between two images."""
        document = decode(self.here("diff", before, after, "--json").encode())
        assert isinstance(document, dict)
        return document["body"]

    def wheels(self, *names: str) -> None:
        """Say which wheels are in the image."""
        lock, _ = parse_lock((CHECKOUT / "lock/engine.lock.json").read_bytes(), "lock/engine.lock.json")
        assert lock is not None
        others = sorted({entry.name for entry in lock.entries} - set(names))
        text = DERIVATIONS % ", ".join(f'{name} = "not in this image"' for name in others)
        (self.root / "derivations/medium.toml").write_text(text)


@pytest.fixture(scope="module")
def medium(derived: Derived, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Medium]:
    """Yield the project, and a store in which what it shares with ``probe`` is made."""
    place = tmp_path_factory.mktemp("medium")
    made = Medium(copy_checkout(place / "check out"), copy_store(derived.store, place / "store"))
    made.wheels(*WHEELS)
    (made.root / "images/medium.toml").write_text(IMAGE)
    yield made
    remove_folder(made.store)


@pytest.fixture(scope="module")
def first(medium: Medium) -> str:
    """The image as it is declared first."""
    return medium.image()


def moved(body: Any) -> dict[str, str]:
    """Return the layers that differ, by name, and how."""
    rows = [row for row in body["layers"] if row["before"] != row["after"]]
    kinds = {(True, False): "added", (False, True): "removed", (False, False): "changed"}
    return {row["name"]: kinds[row["before"] is None, row["after"] is None] for row in rows}


def held(medium: Medium, image: str) -> list[dict[bytes, tuple[str, str]]]:
    """Return what each layer of an image holds, folders apart: kind, and contents or target."""
    with LocalStore(medium.store) as store:
        manifest = json.loads(b"".join(store.read_blob(Digest.parse(image))))
        files = [store.blob_path(Digest.parse(layer["digest"])) for layer in manifest["layers"]]
    found = []
    for file in files:
        with tarfile.open(file) as tar:
            found.append({member.name.encode(): _fact(tar, member) for member in tar if not member.isdir()})
    return found


def _fact(tar: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[str, str]:
    if member.issym():
        return "link", member.linkname
    file = tar.extractfile(member)
    assert file is not None
    return f"file {member.mode & 0o100:o}", hashlib.sha256(file.read()).hexdigest()


@pytest.fixture(scope="module")
def layers(medium: Medium, first: str) -> dict[str, dict[bytes, tuple[str, str]]]:
    """What the layers of the first image hold, by their names."""
    names = [row["name"] for row in medium.diff(first, first)["layers"]]
    return dict(zip(names, held(medium, first), strict=True))


def union(medium: Medium) -> dict[bytes, tuple[str, str]]:
    """Return what the image should hold, as :func:`held` says it."""
    found: dict[bytes, tuple[str, str]] = {}
    digests = [medium.here("build", name) for name in ("userland", "medium-wheels")]
    with LocalStore(medium.store) as store:
        for digest in digests:
            for path, entry in store.listing(Digest.parse(digest)).items():
                if isinstance(entry, File):
                    found[path] = f"file {0o100 if entry.executable else 0:o}", entry.sha256.hex
                elif isinstance(entry, Symlink):
                    found[path] = "link", entry.target.decode()
    return found


def test_each_file_is_in_one_layer_and_the_layers_together_are_the_image(
    medium: Medium, layers: dict[str, dict[bytes, tuple[str, str]]]
) -> None:
    paths = Counter(path for layer in layers.values() for path in layer)
    assert [path for path, count in paths.items() if count > 1] == []
    assert {path: fact for layer in layers.values() for path, fact in layer.items()} == union(medium)


def test_native_libraries_are_apart_from_python_and_layers_without_files_are_left_out(
    layers: dict[str, dict[bytes, tuple[str, str]]],
) -> None:
    wheels = [name.removeprefix("wheels/") for name in layers if name.startswith("wheels/") and "shared" not in name]
    assert wheels == ["cffi native", "markupsafe native", "cffi", "jinja2", "markupsafe"]
    assert {path.rpartition(b".")[2] for path in layers["wheels/cffi native"]} == {b"so"}
    assert not any(path.endswith(b".so") for path in layers["wheels/cffi"])
    assert b"usr/bin/bash" in layers["system/bash"]
    assert b"var/lib/dpkg/info/bash.list" in layers["system/bash"]
    assert b"var/lib/dpkg/status" in layers["system/base"]


def test_one_patched_python_file_is_one_layer_to_pull(medium: Medium, first: str) -> None:
    folder = medium.root / "patches/markupsafe"
    folder.mkdir()
    (folder / "series").write_text("# licence: BSD-3-Clause\n0001-say.patch\n")
    (folder / "0001-say.patch").write_text(PATCH)
    edit(medium.root / "derivations/medium.toml", "patches = { }", 'patches = { markupsafe = "markupsafe" }')
    try:
        second = medium.image()
    finally:
        edit(medium.root / "derivations/medium.toml", 'patches = { markupsafe = "markupsafe" }', "patches = { }")
        shutil.rmtree(folder)
    body = medium.diff(first, second)
    assert moved(body) == {"wheels/markupsafe": "changed"}
    (layer,) = body["pull"]["layers"]
    assert body["pull"]["bytes"] == layer["size_bytes"] + body["pull"]["documents_bytes"]
    assert body["pull"]["shared_layers"] == len(body["layers"]) - 1
    said = medium.here("diff", first, second)
    assert f"to pull: 1 of {len(body['layers'])} layers, " in said
    assert "layers the same: --all lists them" in said


def test_a_package_that_is_added_is_one_layer_to_pull_and_removing_it_gives_the_first_image_back(
    medium: Medium, first: str
) -> None:
    medium.wheels(*WHEELS, "idna")
    second = medium.image()
    medium.wheels(*WHEELS)
    shared = f"wheels/{shared_output(shared_place('idna', 4))}"
    assert moved(medium.diff(first, second)).keys() == {shared}
    assert medium.image() == first


def test_a_package_of_the_system_that_goes_is_its_layer_and_the_base(medium: Medium, first: str) -> None:
    """With its files go the lines that dpkg's status has of it."""
    lock = medium.root / "lock/trixie.lock.json"
    before = lock.read_text()
    document = json.loads(before)
    files = document["closures"]["runtime"]["amd64"]
    gone = next(file for file in files if file.startswith("ethtool_"))
    files.remove(gone)
    used = {file for closure in document["closures"].values() for names in closure.values() for file in names}
    document["entries"] = [one for one in document["entries"] if one.get("file") != gone or gone in used]
    lock.write_text(json.dumps(document, indent=1) + "\n")
    try:
        second = medium.image()
    finally:
        lock.write_text(before)
    shared = f"system/{shared_output(shared_place('ethtool', 3))}"
    assert moved(medium.diff(first, second)) == {shared: "changed", "system/base": "changed"}


SMALL = """\
platforms = ["linux/amd64", "linux/arm64"]
default-platform = "linux/amd64"

[[layers]]
name = "notes"
from = ["notes"]
split = { own = ["notes"] }

[[layers]]
name = "hello"
from = ["hello"]
"""


def test_a_split_image_is_overlaid_exported_kept_and_verified_as_any_other(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "note").write_text("laid over\n")
    with small_project(tmp_path) as small:
        small.write("images/small.toml", SMALL)
        image = small.here("image", "--output", str(tmp_path / "out")).answer
        project = Medium(small.root, small.store)
        layers = held(project, image)
        assert [b"usr/share/notes/readme" in layer for layer in layers] == [True, False, False]
        overlaid = small.here("dev", "--overlay", f"{tree}:/opt").answer
        note = "file 0", hashlib.sha256(b"laid over\n").hexdigest()
        assert held(project, overlaid) == [*layers, {b"opt/note": note}]
        index = json.loads((tmp_path / "out/index.json").read_bytes())
        assert index["manifests"][0]["digest"] == image
        assert small.here("image", "--check").answer == image
        assert small.here("store", "gc").code == 0
        assert held(project, image) == layers
        assert small.here("store", "verify").answer.startswith("sound")
        assert small.here("image").answer == image
