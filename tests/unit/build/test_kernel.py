# SPDX-License-Identifier: Apache-2.0
"""The parts of the builder ``kernel`` that need no compiler."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.build.builders.kernel import build
from derive.build.context import Context
from derive.build.fetching import StoreFetch
from derive.canonical import Json, escape, sha256
from derive.derivations.model import Output, Platform, ResolvedDerivation, TreeOutput
from derive.errors import BuildFailed
from derive.sandbox.probe import find_sandbox
from derive.store.local import LocalStore
from derive.store.protocol import read_all
from derive.trees.listing import Directory, File, Listing
from derive.trees.pack import NewFile, add_members

LAUNCH = {"version": "0.1.15", "keys": {"x86_64": "a", "aarch64": "b"}, "binary-key": "c", "entry": "main_kernel"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path) as opened:
        yield opened


def run(store: LocalStore, arguments: dict[str, Json], host: Platform = "any", **inputs: Output) -> Listing:
    request = ResolvedDerivation(
        builder="kernel",
        version=1,
        build="any",
        host=host,
        arguments=arguments,
        inputs={role.replace("_", "."): output for role, output in inputs.items()},
    )
    context = Context(
        name="it",
        labels=(),
        store=store,
        fetch=StoreFetch(offline=True),
        sandbox=find_sandbox,
        log=lambda _: None,
        log_bytes=lambda _: None,
        jobs=1,
        scratch=store.staging.new_path(),
        cancel=threading.Event(),
        timeout_s=None,
    )
    output = build(request, context)["out"]
    assert isinstance(output, TreeOutput)
    return store.listing(output.digest)


def compiled(store: LocalStore, **files: bytes) -> TreeOutput:
    found = {"kernel.cubin": b"cubin", "launch.json": json.dumps(LAUNCH).encode(), "resources.json": b'{"registers":9}'}
    found |= {name.replace("_", "."): data for name, data in files.items()}
    members = [(name.encode(), NewFile(executable=False, chunks=[data])) for name, data in found.items() if data]
    return TreeOutput(store.add_listing(add_members(store, members)))


def unit(tile: str) -> Json:
    return {"kernel": "k", "program": "p", "shape": "s", "tile": tile, "gpu": "sm_90a", "rows": [1, None]}


def text(store: LocalStore, listing: Listing, path: bytes) -> str:
    file = listing[path]
    assert isinstance(file, File)
    return read_all(store, file).decode()


def test_sources_are_written_where_they_lay(store: LocalStore) -> None:
    files: Json = {"k/kernel.py": "x = '%25'%0A", "shared/ü.py": escape("é\n".encode())}
    listing = run(store, {"part": "source", "files": files})
    assert [path for path, _ in listing.files()] == [b"k/kernel.py", "shared/ü.py".encode()]
    assert text(store, listing, b"k/kernel.py") == "x = '%'\n"
    assert text(store, listing, "shared/ü.py".encode()) == "é\n"
    assert len(run(store, {"part": "source", "files": {}})) == 1


def test_an_index_says_what_each_compiled_unit_says_of_itself(store: LocalStore) -> None:
    arguments: dict[str, Json] = {"part": "index", "units": [unit("many"), unit("few")]}
    one, two = compiled(store), compiled(store, kernel_cubin=b"other")
    listing = run(store, arguments, "linux/arm64", device_0=one, device_1=two)
    document = json.loads(text(store, listing, b"ds41-kernels.json"))
    few, many = document["units"]
    assert (few["unit"], few["cubin-sha256"]) == ("k/p/s/few/sm_90a", sha256(b"other").hex)
    assert (many["unit"], many["cubin-sha256"]) == ("k/p/s/many/sm_90a", sha256(b"cubin").hex)
    assert (few["keys"], few["resources"]) == (LAUNCH["keys"], {"registers": 9})


def test_an_index_lies_beside_the_folders_that_tilelang_makes(store: LocalStore) -> None:
    machines: dict[Platform, bytes] = {"linux/amd64": b"x86_64", "linux/arm64": b"aarch64"}
    for host, machine in machines.items():
        arguments: dict[str, Json] = {"part": "index", "units": [unit("few")]}
        listing = run(store, arguments, host, device_0=compiled(store))
        top = b"0.1.15/linux-" + machine
        folders = [path for path, entry in listing.items() if isinstance(entry, Directory)]
        assert folders == [b"", b"0.1.15", top, top + b"/.staging", top + b"/kernels"]


def test_what_is_no_compiled_unit_is_refused_by_name(store: LocalStore) -> None:
    arguments: dict[str, Json] = {"part": "index", "units": [unit("few")]}
    with pytest.raises(BuildFailed, match=r"no kernel\.cubin, launch\.json") as caught:
        run(store, arguments, "linux/amd64", device_0=compiled(store, kernel_cubin=b"", launch_json=b""))
    assert "k/p/s/few/sm_90a" in caught.value.message
    with pytest.raises(BuildFailed, match="no object"):
        run(store, arguments, "linux/amd64", device_0=compiled(store, resources_json=b"[]"))


def test_a_part_that_is_none_is_refused(store: LocalStore) -> None:
    with pytest.raises(BuildFailed, match="no part"):
        run(store, {"part": "other"})
