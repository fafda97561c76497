# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import encode, sha256
from derive.errors import Corrupt
from derive.images.documents import DocumentError
from derive.store.closure import Closure, read_closure, step_of
from derive.store.closure_gather import gather
from derive.store.local import LocalStore
from derive.store.reach import Level
from support.closures import fill


@pytest.fixture(scope="module")
def closure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closure]:
    with LocalStore(tmp_path_factory.mktemp("closure") / "store") as store:
        yield gather(store, [fill(store).image], Level.AUDIT).closure


def test_a_manifest_reads_back(closure: Closure) -> None:
    assert read_closure(closure.encoded()) == closure


def test_it_is_a_tagged_canonical_document(closure: Closure) -> None:
    document = json.loads(closure.encoded())
    assert document["derive"] == "closure/1"
    assert encode(document) == closure.encoded()


def test_the_order_in_which_things_come_decides_no_byte(closure: Closure) -> None:
    turned = Closure.of(
        closure.level,
        closure.targets,
        reversed(closure.steps),
        reversed(closure.trees),
        reversed(closure.blobs),
        reversed(closure.histories),
    )
    assert turned.encoded() == closure.encoded()


def test_no_path_or_user_of_the_machine_stands_in_it(closure: Closure, tmp_path: Path) -> None:
    text = closure.encoded().decode()
    assert str(tmp_path.parent) not in text
    assert str(Path.home()) not in text


Change = Callable[[dict[str, Any]], object]


def first(document: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = document[kind][0]
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(derive="closure/2"),
        lambda d: d.update(more=1),
        lambda d: d.pop("trees"),
        lambda d: d.update(level="everything"),
        lambda d: d.update(level=None),
        lambda d: d.update(targets=[]),
        lambda d: d["targets"].append(d["targets"][0]),
        lambda d: d.update(targets=["x"]),
        lambda d: d["derivations"].reverse(),
        lambda d: d["derivations"].append(first(d, "derivations")),
        lambda d: first(d, "derivations").update(derivation=sha256(b"").hex),
        lambda d: first(d, "derivations").update(name="two\nlines"),
        lambda d: first(d, "derivations").update(name="\x1b[31m"),
        lambda d: first(d, "derivations").update(name=""),
        lambda d: first(d, "derivations").update(name="x" * 5000),
        lambda d: first(d, "derivations").update(resolved="x"),
        lambda d: first(d, "derivations").update(document=[]),
        lambda d: d["trees"].append(first(d, "trees")),
        lambda d: first(d, "trees").update(tree="../../etc/passwd"),
        lambda d: first(d, "trees")["listing"].update(size=-1),
        lambda d: first(d, "trees")["listing"].update(size=True),
        lambda d: first(d, "blobs").update(sha256="../x"),
        lambda d: first(d, "blobs").update(size="1"),
        lambda d: d["blobs"].append(first(d, "blobs")),
        lambda d: first(d, "histories").update(engine=1),
        lambda d: first(d, "histories")["log"].update(derivation="../x"),
        lambda d: d["histories"].append(first(d, "histories")),
    ],
)
def test_what_is_no_manifest_is_refused(closure: Closure, change: Change) -> None:
    document = json.loads(closure.encoded())
    change(document)
    with pytest.raises(Corrupt, match="manifest of the closure"):
        read_closure(encode(document))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"derive":"closure/1"}'])
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        read_closure(data)


def test_one_closure_is_written_in_one_way(closure: Closure) -> None:
    with pytest.raises(Corrupt, match="not written"):
        read_closure(closure.encoded() + b"\n")


DOCUMENT: dict[str, Any] = {
    "derive": "derivation/1",
    "builder": "script/1",
    "build": "any",
    "host": "any",
    "arguments": {},
    "inputs": {"a": {"fixed": f"flat:{sha256(b'')}"}, "b": {"derivation": sha256(b"").hex, "output": "out"}},
}


def test_a_step_has_the_id_of_its_document() -> None:
    assert step_of("name", None, DOCUMENT).id == sha256(encode(DOCUMENT))


@pytest.mark.parametrize(
    "change",
    [
        {"derive": "resolved/1"},
        {"builder": "script"},
        {"builder": 1},
        {"build": None},
        {"arguments": []},
        {"inputs": []},
        {"inputs": {"a": {}}},
        {"inputs": {"a": {"fixed": "sha256:x"}}},
        {"inputs": {"a": {"fixed": f"flat:{sha256(b'')}", "more": 1}}},
        {"inputs": {"a": {"derivation": "x", "output": "out"}}},
        {"inputs": {"a": {"derivation": sha256(b"").hex}}},
        {"inputs": {"a": {"derivation": sha256(b"").hex, "output": 1}}},
        {"builder": "fetch-deb/1"},
        {"builder": "fetch-deb/1", "arguments": {"sha256": "x"}},
        {"more": 1},
    ],
)
def test_what_is_no_derivation_is_no_step(change: dict[str, Any]) -> None:
    with pytest.raises((DocumentError, ValueError)):
        step_of("name", None, {**DOCUMENT, **change})
