# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import CanonicalError, Json, encode, sha256
from derive.derivations.model import (
    PLATFORMS,
    BuiltInput,
    Derivation,
    FixedInput,
    FlatOutput,
    Input,
    Output,
    TreeOutput,
    closure,
    parse_output,
    resolve,
)
from derive.trees.listing import EMPTY
from derive.trees.nar import nar_digest

HEX = sha256(b"").hex


def step(name: str, inputs: Mapping[str, Input] | None = None, **arguments: Json) -> Derivation:
    return Derivation(
        name=name, builder="script", version=1, build="any", host="any", arguments=arguments, inputs=inputs or {}
    )


def fetch(name: str = "f", sha: str = HEX, **arguments: Json) -> Derivation:
    return Derivation(
        name=name,
        builder="fetch-wheel",
        version=1,
        build="any",
        host="any",
        arguments={"sha256": sha, "file": f"{name}.whl", **arguments},
    )


SOURCE = step("source", text="s")
FETCH = fetch()
STEP = step("step", {"source": BuiltInput(SOURCE), "wheel": FixedInput(FETCH)}, text="make")


def test_the_id_is_the_hash_of_this_document() -> None:
    document = (
        '{"arguments":{"text":"make"},"build":"any","builder":"script/1","derive":"derivation/1","host":"any",'
        f'"inputs":{{"source":{{"derivation":"{SOURCE.id.hex}","output":"out"}},"wheel":{{"fixed":"flat:sha256:{HEX}"}}}}}}'
    )
    assert STEP.encoded() == document.encode()
    assert STEP.id.hex == hashlib.sha256(document.encode()).hexdigest()


def test_the_resolved_id_is_the_hash_of_this_document() -> None:
    resolved = resolve(STEP, {"source": TreeOutput(sha256(b"t")), "wheel": FlatOutput(sha256(b""))})
    document = (
        '{"arguments":{"text":"make"},"build":"any","builder":"script/1","derive":"resolved/1","host":"any",'
        f'"inputs":{{"source":"nar:{sha256(b"t")}","wheel":"flat:sha256:{HEX}"}}}}'
    )
    assert resolved.id.hex == hashlib.sha256(document.encode()).hexdigest()


def test_the_page_of_the_format_gives_these_examples() -> None:
    page = (Path(__file__).parents[3] / "docs" / "formats" / "derivation.md").read_text()
    examples = re.findall(r"```json\n([^`]*)\n```\s*```text\nsha256:(.*?)\n```", page)
    told = [(text.replace("\n ", ""), digest) for text, digest in examples]
    version = {"name": "hello", "version": "2.10-3", "architecture": "amd64"}
    place = "pool/main/h/hello/hello_2.10-3_amd64.deb"
    deb = replace(
        fetch(sha=sha256(b"hello").hex),
        builder="fetch-deb",
        arguments={**version, "suite": "trixie", "locator": place, "size": 5, "sha256": sha256(b"hello").hex},
    )
    unpacked = replace(
        step("unpacked", {"archive": FixedInput(deb)}, kind="deb", strip=0, expected=version), builder="unpack"
    )
    parts: list[Json] = [{"name": "hello", "at": ""}]
    composed = replace(step("composed", {"hello": BuiltInput(unpacked)}, parts=parts, wins={}), builder="compose")
    empty = TreeOutput(nar_digest(EMPTY, lambda _, __: []))
    assert told == [
        (deb.encoded().decode(), deb.id.hex),
        (unpacked.encoded().decode(), unpacked.id.hex),
        resolved_example(unpacked, {"archive": FlatOutput(sha256(b"hello"))}),
        (composed.encoded().decode(), composed.id.hex),
        resolved_example(composed, {"hello": empty}),
    ]


def resolved_example(derivation: Derivation, inputs: dict[str, Output]) -> tuple[str, str]:
    written = {role: str(output) for role, output in inputs.items()}
    document = {**derivation.document(), "derive": "resolved/1", "inputs": written}
    return encode(document).decode(), resolve(derivation, inputs).id.hex


@pytest.mark.parametrize(
    "other",
    [
        replace(STEP, builder="patch"),
        replace(STEP, version=2),
        replace(STEP, build="linux/amd64"),
        replace(STEP, host="linux/arm64"),
        replace(STEP, arguments={"text": "make all"}),
        replace(STEP, arguments={}),
        replace(STEP, inputs={"source": BuiltInput(SOURCE)}),
        replace(STEP, inputs={"source": BuiltInput(SOURCE, "dev"), "wheel": FixedInput(FETCH)}),
        replace(STEP, inputs={"root": BuiltInput(SOURCE), "wheel": FixedInput(FETCH)}),
        replace(STEP, inputs={"source": BuiltInput(step("source", text="t")), "wheel": FixedInput(FETCH)}),
        replace(STEP, inputs={"source": BuiltInput(SOURCE), "wheel": FixedInput(fetch(sha=sha256(b"1").hex))}),
        replace(STEP, inputs={"source": BuiltInput(SOURCE), "wheel": BuiltInput(FETCH)}),
    ],
)
def test_everything_that_decides_bytes_moves_the_id(other: Derivation) -> None:
    assert other.id != STEP.id
    assert other != STEP


@pytest.mark.parametrize(
    "other",
    [
        replace(STEP, name="another name"),
        replace(STEP, labels=("a patch",)),
        replace(STEP, timeout_s=60),
        replace(STEP, inputs=dict(reversed(list(STEP.inputs.items())))),
    ],
)
def test_names_limits_and_order_do_not(other: Derivation) -> None:
    assert other.id == STEP.id
    assert other == STEP
    assert hash(other) == hash(STEP)


def test_dependents_see_of_a_fetch_its_hash_alone() -> None:
    moved = fetch("renamed", project="other", size=9)
    assert moved.id != FETCH.id
    assert replace(STEP, inputs={"source": BuiltInput(SOURCE), "wheel": FixedInput(moved)}).id == STEP.id


def test_a_renamed_input_does_not_move_the_ids_above_it() -> None:
    renamed = replace(SOURCE, name="other")
    assert replace(STEP, inputs={"source": BuiltInput(renamed), "wheel": FixedInput(FETCH)}).id == STEP.id


def test_a_resolved_derivation_forgets_which_derivations_gave_its_inputs() -> None:
    other = replace(STEP, inputs={"source": BuiltInput(step("x", text="other way")), "wheel": FixedInput(FETCH)})
    inputs: dict[str, Output] = {"source": TreeOutput(sha256(b"t")), "wheel": FlatOutput(sha256(b""))}
    assert other.id != STEP.id
    assert resolve(other, inputs).id == resolve(STEP, inputs).id


@pytest.mark.parametrize(
    "inputs",
    [
        {"source": TreeOutput(sha256(b"u")), "wheel": FlatOutput(sha256(b""))},
        {"source": FlatOutput(sha256(b"t")), "wheel": FlatOutput(sha256(b""))},
        {"source": TreeOutput(sha256(b"t")), "wheel": TreeOutput(sha256(b""))},
    ],
)
def test_every_input_digest_and_its_kind_move_the_resolved_id(inputs: dict[str, Output]) -> None:
    base = resolve(STEP, {"source": TreeOutput(sha256(b"t")), "wheel": FlatOutput(sha256(b""))})
    assert resolve(STEP, inputs).id != base.id


def test_resolving_needs_every_input_and_takes_no_other() -> None:
    inputs: dict[str, Output] = {"source": TreeOutput(sha256(b"t")), "wheel": FlatOutput(sha256(b""))}
    assert resolve(STEP, {**inputs, "more": TreeOutput(sha256(b"u"))}).id == resolve(STEP, inputs).id
    with pytest.raises(KeyError):
        resolve(STEP, {"source": TreeOutput(sha256(b"t"))})


def test_an_input_is_asked_for_by_its_kind() -> None:
    resolved = resolve(STEP, {"source": TreeOutput(sha256(b"t")), "wheel": FlatOutput(sha256(b"f"))})
    assert resolved.tree("source") == sha256(b"t")
    assert resolved.file("wheel") == sha256(b"f")
    with pytest.raises(TypeError, match="wheel is no tree"):
        resolved.tree("wheel")
    with pytest.raises(TypeError, match="source is no single file"):
        resolved.file("source")
    with pytest.raises(KeyError):
        resolved.tree("absent")


def test_only_a_fetch_says_beforehand_what_it_gives() -> None:
    assert FETCH.fixed == FlatOutput(sha256(b""))
    assert STEP.fixed is None


def test_arguments_that_no_document_can_hold_are_refused_when_the_derivation_is_made() -> None:
    with pytest.raises(CanonicalError, match=r"arguments\.ratio"):
        step("x", ratio=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("output", [TreeOutput(sha256(b"a")), FlatOutput(sha256(b"a"))])
def test_an_output_is_read_back_from_its_text(output: Output) -> None:
    assert parse_output(str(output)) == output


def test_an_output_is_written_with_its_kind() -> None:
    assert str(TreeOutput(sha256(b""))) == f"nar:sha256:{HEX}"
    assert str(FlatOutput(sha256(b""))) == f"flat:sha256:{HEX}"


@pytest.mark.parametrize("text", ["", f"sha256:{HEX}", f"tree:sha256:{HEX}", f"nar:{HEX}", f"nar:sha256:{HEX[1:]}"])
def test_anything_else_is_no_output(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_output(text)


def test_the_platforms_are_these() -> None:
    assert PLATFORMS == ("any", "linux/amd64", "linux/arm64")


def test_a_closure_has_each_step_once_inputs_first_in_a_stable_order() -> None:
    top = step("top", {"b": BuiltInput(STEP), "a": BuiltInput(SOURCE), "c": FixedInput(FETCH)})
    order = closure(top)
    assert [derivation.name for derivation in order] == ["source", "f", "step", "top"]
    assert closure(top) == order


def test_a_closure_of_a_long_chain_is_found_without_recursion() -> None:
    top = step("0")
    for index in range(1, 5000):
        top = step(f"{index}", {"below": BuiltInput(top)})
    assert [derivation.name for derivation in closure(top)] == [f"{index}" for index in range(5000)]


def test_a_closure_of_many_paths_is_walked_once() -> None:
    top = step("0")
    for index in range(1, 60):  # 2**59 paths
        top = step(f"{index}", {"one": BuiltInput(top), "two": BuiltInput(top)}, index=index)
    assert len(closure(top)) == 60
