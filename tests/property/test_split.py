# SPDX-License-Identifier: Apache-2.0
"""However packages are spread over layers: the layers together are the tree, no file stands twice, and packages that
come or go move nothing but their own layers.
"""

from __future__ import annotations

import gzip
import tarfile
from io import BytesIO
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.canonical import Digest, Json, sha256
from derive.derivations import steps
from derive.derivations.layers import Layer, package_layers, wheel_layers
from derive.derivations.model import Derivation, FlatOutput
from derive.images.declarations import SplitDecl
from derive.images.encoding import Encoding
from derive.images.modes import ModeTable
from derive.images.split import shared_output, shared_place
from derive.lock.documents import WheelEntry
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, Entry, Listing, Symlink
from derive.trees.partition import leaves
from support.layers import Given, blob, raw_name
from support.layers import tree as stored
from support.realised import Realised

Contents: TypeAlias = dict[bytes, Given]
Packages: TypeAlias = dict[str, Contents]

MODES = ModeTable().to_document()
ENCODING: Json = Encoding(level=1).to_document()

NAMES = [f"p{number}" for number in range(8)]
SHARED_PATHS = [b"n/init.py", b"n/LICENSE"]
"""What any package may have, and alike."""


def paths(name: str) -> list[bytes]:
    """Return the paths that only this package may have: below a folder of all, in one of its own, at the top."""
    return [f"{top}{name}{end}".encode() for top, end in (("n/", ".py"), ("n/", "/x.so"), ("", ".so"), ("l/", ".so.1"))]


@st.composite
def packages(draw: st.DrawFn, least: int = 1) -> Packages:
    found: Packages = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=least, unique=True)):
        own = draw(st.lists(st.sampled_from(paths(name)), min_size=1, unique=True))
        alike = draw(st.lists(st.sampled_from(SHARED_PATHS), unique=True))
        contents: Contents = {path: path + b" of " + name.encode() for path in own}
        contents |= dict.fromkeys(alike, b"the same")
        if draw(st.booleans()):
            contents[b"links/" + name.encode()] = Symlink(b"../" + own[0])
        if draw(st.booleans()):
            contents[b"empty" + draw(st.sampled_from([b"", b"/" + name.encode()]))] = DIRECTORY
        found[name] = contents
    return found


SPLITS = st.builds(
    SplitDecl,
    own=st.lists(st.sampled_from(NAMES), unique=True).map(tuple),
    shared=st.integers(1, 4),
    native=st.sampled_from([(), ("*.so",), ("*.so", "*.so.*"), ("links/*",), ("*",)]),
)


class Made:
    """A union of packages as wheels, and its layers."""

    def __init__(self, given: Packages, split: SplitDecl, realised: Realised | None = None) -> None:
        self.realised = realised or Realised(MemoryStore())
        store = self.realised.store
        trees = {name: store.add_listing(stored(store, contents)) for name, contents in given.items()}
        parts = [(name, "", steps.work_tree(name, tree)) for name, tree in sorted(trees.items())]
        self.tree: Derivation = steps.composed("programs", parts, {})
        self.whole = store.listing(self.realised.tree(self.tree))
        entries = [
            WheelEntry(name=name, version="1", file=f"{name}.whl", size=1, sha256=sha256(b""), licence="")
            for name in trees
        ]
        self.layers = {one.name: self._layer(one) for one in wheel_layers("w", split, self.tree, entries)}

    def _layer(self, one: Layer) -> Digest:
        made = steps.layer(
            one.name, one.trees, MODES, ENCODING, wheels=one.wheels, elsewhere=one.elsewhere, select=one.select
        )
        output = self.realised(made)["out"]
        assert isinstance(output, FlatOutput)
        return output.digest

    def held(self) -> dict[str, Listing]:
        """Return what each layer holds, read back from its bytes, contents by what the union has there."""
        return {name: self._read(digest) for name, digest in self.layers.items()}

    def _read(self, digest: Digest) -> Listing:
        data = gzip.decompress(blob(self.realised.store, digest))
        found: dict[bytes, Entry] = {}
        with tarfile.open(fileobj=BytesIO(data), mode="r:") as tar:
            for member in tar.getmembers():
                path = raw_name(member)
                entry = self.whole[path]
                assert (member.isdir(), member.issym()) == (entry == DIRECTORY, isinstance(entry, Symlink))
                if member.isreg():
                    file = tar.extractfile(member)
                    assert file is not None
                    assert sha256(file.read()) == getattr(entry, "sha256", None)
                found[path] = entry
        return Listing.of(found)


def shared_layer(name: str, split: SplitDecl) -> str:
    return f"w/{shared_output(shared_place(name, split.shared))}"


def solid(listing: Listing) -> set[bytes]:
    return {path for path, entry in leaves(listing) if entry != DIRECTORY}


@settings(max_examples=40)
@given(given_packages=packages(), split=SPLITS)
def test_the_layers_are_the_tree_and_no_file_stands_twice(given_packages: Packages, split: SplitDecl) -> None:
    made = Made(given_packages, split)
    held = made.held()
    union: dict[bytes, Entry] = {}
    for one in held.values():
        union |= one
    assert Listing.of(union) == made.whole
    files = [path for one in held.values() for path in solid(one)]
    assert sorted(files) == sorted(solid(made.whole))


@settings(max_examples=40)
@given(given_packages=packages(least=2), split=SPLITS, data=st.data())
def test_a_package_that_comes_or_goes_moves_its_own_layers_alone(
    given_packages: Packages, split: SplitDecl, data: st.DataObject
) -> None:
    """What two packages have alike moves, when one of them goes, from where it was for both."""
    name = data.draw(st.sampled_from(sorted(given_packages)))
    alone = {path: one for path, one in given_packages[name].items() if path not in SHARED_PATHS}
    everything = {**given_packages, name: alone}
    realised = Realised(MemoryStore())
    before = Made({key: one for key, one in everything.items() if key != name}, split, realised)
    after = Made(everything, split, realised)
    own = {f"w/{name}", f"w/{name} native"} if name in split.own else set()
    both = before.layers.keys() | after.layers.keys()
    moved = {key for key in both if before.layers.get(key) != after.layers.get(key)}
    own = {f"w/{name}", f"w/{name} native"} if name in split.own else {shared_layer(name, split)}
    assert moved <= own | ({"w/common"} if len(everything) == 2 else set()), "one wheel alone has nothing in common"


@settings(max_examples=20)
@given(given_packages=packages(), split=SPLITS)
def test_the_order_in_which_packages_are_given_moves_nothing(given_packages: Packages, split: SplitDecl) -> None:
    realised = Realised(MemoryStore())
    other = split.model_copy(update={"own": split.own[::-1], "native": split.native[::-1]})
    turned = dict(reversed(list(given_packages.items())))
    assert Made(given_packages, split, realised).layers == Made(turned, other, realised).layers


def dpkg(given: Packages) -> Contents:
    """Return a root of packages as dpkg's lists tell it, one of which merges folders."""
    root: Contents = {b"bin": Symlink(b"usr/bin"), b"var/lib/dpkg/status": b"\n".join(map(str.encode, given))}
    for name, contents in given.items():
        root |= {b"usr/bin/" + path: one for path, one in contents.items()}
        listed = b"".join(b"/bin/" + path + b"\n" for path in sorted(contents))
        root[f"var/lib/dpkg/info/{name}.list".encode()] = b"/.\n/bin\n" + listed
    return root


@settings(max_examples=40)
@given(given_packages=packages(), split=SPLITS, data=st.data())
def test_a_root_s_layers_are_the_root_and_a_changed_package_moves_its_own_and_the_base(
    given_packages: Packages, split: SplitDecl, data: st.DataObject
) -> None:
    realised = Realised(MemoryStore())
    store = realised.store
    name = data.draw(st.sampled_from(sorted(given_packages)))
    changed = {**given_packages, name: {**given_packages[name], paths(name)[0]: b"changed"}}
    plain = split.model_copy(update={"native": ()})
    found = []
    for one in (given_packages, changed):
        root = store.add_listing(stored(store, dpkg(one)))
        parts = {f"{key}:all": steps.reference(steps.work_tree("root", root)) for key in one}
        layers = list(package_layers("w", plain, steps.step("root", "compose", _root_arguments(one), parts)))
        found.append({layer.name: realised.tree(layer.trees[0].derivation, layer.trees[0].output) for layer in layers})  # type: ignore[union-attr]
        listings = [store.listing(tree) for tree in found[-1].values()]
        union: dict[bytes, Entry] = {}
        for listing in listings:
            union |= listing
        assert Listing.of(union) == store.listing(root)
        assert sum(len(list(leaves(listing))) for listing in listings) == len(list(leaves(store.listing(root))))
    before, after = found
    moved = {key for key in before if before[key] != after[key]}
    assert moved <= {f"w/{name}" if name in split.own else shared_layer(name, split), "w/base"}


def _root_arguments(given: Packages) -> dict[str, Json]:
    return {"parts": [{"name": f"{key}:all", "at": ""} for key in given], "wins": {}}
