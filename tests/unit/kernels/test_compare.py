# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from derive.canonical import Digest, Json, encode, sha256
from derive.kernels.compare import Built, Side, compare, comparison_body, comparison_lines, unbuilt_words
from derive.kernels.facts import Facts, Launch, Resources
from derive.why.render import render

UNIT: dict[str, Json] = {
    "kernel": "scale",
    "tile": "few",
    "gpu": "sm_90a",
    "rows": [1, 64],
    "arguments": {"columns": 512, "threads": 64},
    "pass-configs": {"tl.disable_warp_specialized": True},
    "compile-flags": [],
}


def built(
    registers: int = 32,
    matrix: Mapping[str, int] = MappingProxyType({}),
    others: Mapping[str, int] = MappingProxyType({}),
    cuda: bytes = b"a\nb\n",
) -> Built:
    resources = Resources(
        registers=registers,
        static_shared_memory_bytes=16,
        spill_store_bytes=0,
        spill_load_bytes=0,
        stack_bytes=0,
        instructions=sum(others.values()) + sum(matrix.values()),
        matrix_instructions=matrix,
        sass_sha256=sha256(encode([registers, cuda.decode(), dict(others), dict(matrix)])).hex,
        compiler={"nvcc": "13.0.88"},
    )
    launch = Launch(keys={}, binary_key="", entry="", block=None, dynamic_shared_memory_bytes=None)
    return Built(
        output=f"nar:{resources.sass_sha256}",
        facts=Facts(resources=resources, launch=launch),
        cuda=cuda,
        instructions={**others, **matrix},
    )


def side(
    made: Built | None,
    source: bytes = b"x = 1\n",
    root: str = "0" * 64,
    unit: Mapping[str, Json] = MappingProxyType({}),
) -> Side:
    document: dict[str, Json] = {**UNIT, **unit}
    digest: Digest = sha256(encode([source.decode(), root, document]))
    return Side(name="scale/scale/wide", derivation=digest, root=root, unit=document, source=source, built=made)


def text(first: Side, second: Side, *, everything: bool = False) -> str:
    return render(comparison_lines(compare(first, second), everything=everything), colour=False)


def test_two_equal_compiles_are_the_same_and_nothing_moved() -> None:
    found = compare(side(built(others={"FFMA": 3})), side(built(others={"FFMA": 3})))
    assert found.same
    assert text(side(built(others={"FFMA": 3})), side(built(others={"FFMA": 3}))).endswith("nothing moved")


def test_arguments_that_moved_are_told_by_their_key_paths() -> None:
    first = side(built())
    second = side(
        built(), unit={"arguments": {"columns": 512, "stages": 2}, "rows": [65, None], "compile-flags": ["-O1"]}
    )
    words = text(first, second)
    assert "rows: 1 64 -> 65 no bound" in words
    assert "arguments.threads: 64, removed" in words
    assert "arguments.stages: 2, added" in words
    assert "compile-flags: none -> -O1" in words
    assert "columns" not in words
    assert not compare(first, second).same


def test_another_value_of_a_switch_is_told() -> None:
    words = text(side(None), side(None, unit={"pass-configs": {"tl.disable_warp_specialized": False}}))
    assert 'pass-configs."tl.disable_warp_specialized": true -> false' in words


def test_code_that_moved_is_a_difference_even_where_the_machine_code_is_the_same() -> None:
    found = compare(side(built()), side(built(), source=b"x = 2\n"))
    assert not found.same
    words = render(comparison_lines(found), colour=False)
    assert "-x = 1" in words
    assert "+x = 2" in words
    assert "machine code: the same" in words
    assert "resources" not in words


def test_another_root_is_a_difference() -> None:
    words = text(side(built()), side(built(), root="f" * 64))
    assert "compiled in: 000000000000 -> ffffffffffff" in words


def test_matrix_instructions_come_first_and_the_others_by_how_far_they_moved() -> None:
    first = built(matrix={"HMMA.16816.F32.BF16": 32}, others={"FFMA": 10, "NOP": 5, "EXIT": 1})
    second = built(40, {"HMMA.16816.F32.BF16": 16, "QMMA": 4}, {"FFMA": 12, "NOP": 25, "EXIT": 1})
    found = compare(side(first), side(second))
    assert [(one.what, one.before, one.after) for one in found.matrix] == [
        ("HMMA.16816.F32.BF16", 32, 16),
        ("QMMA", 0, 4),
    ]
    assert [one.what for one in found.instructions] == ["NOP", "FFMA"]
    words = render(comparison_lines(found), colour=False)
    assert words.index("registers") < words.index("QMMA") < words.index("NOP")
    assert "registers        32 ->   40  +8" in words


def test_long_differences_are_cut_unless_everything_is_asked_for() -> None:
    many = built(others={f"I{n}": 1 for n in range(50)}, cuda=b"".join(b"line %d\n" % n for n in range(500)))
    cut, whole = text(side(built()), side(many)), text(side(built()), side(many), everything=True)
    assert "more lines" in cut
    assert len(cut.splitlines()) < 100
    assert "more lines" not in whole
    assert "line 499" in whole
    assert whole.count("0 -> 1  +1") == 50


def test_one_that_is_not_built_is_compared_by_what_is_written_and_named() -> None:
    found = compare(side(built()), side(None))
    assert found.same is False or found.before.derivation == found.after.derivation
    assert "hint: derive kernels build scale/scale/wide" in unbuilt_words(found)
    assert unbuilt_words(compare(side(built()), side(built()))) == ""
    moved = compare(side(None), side(None, source=b"y\n"))
    assert not moved.same
    assert "machine code" not in render(comparison_lines(moved), colour=False)


def test_an_unbuilt_derivation_is_the_same_as_itself() -> None:
    assert compare(side(None), side(None)).same


def test_control_characters_of_sources_reach_no_terminal() -> None:
    assert "\x1b" not in text(side(built()), side(built(), source=b"\x1b[2J\n"))


def test_the_record_has_numbers_with_their_units_and_null_for_what_is_not_built() -> None:
    body = comparison_body(compare(side(built(others={"FFMA": 1})), side(built(40, others={"FFMA": 2}))))
    assert {"what": "shared memory", "before_bytes": 16, "after_bytes": 16} in body["resources"]  # type: ignore[operator]
    assert {"what": "registers", "before": 32, "after": 40} in body["resources"]  # type: ignore[operator]
    assert body["instructions"] == [{"what": "FFMA", "before": 1, "after": 2}]
    assert body["source_same"] is True
    bare = comparison_body(compare(side(None), side(built())))
    assert bare["cuda_same"] is None
    assert json.loads(json.dumps(bare))["before"]["output"] is None


def test_a_text_that_is_no_utf_8_is_shown_escaped() -> None:
    assert "\\xff" in text(replace(side(built()), source=b"\xff\n"), side(built()))
