# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.kernels.declarations import parse_kernel
from support.golden import check_golden
from support.kernels import KERNEL

FILE = "kernels/act_quant/kernel.toml"

WRONG = """\
summary = ""
architectures = ["sm_90a", "sm90"]
cache = 1
colour = "red"

[programs.Quantise]
doc = "a name with a capital"
pass-configs = { "tl.fast" = 1.5 }
shapes = {}
tiles.rows-1 = { rows = [85, 3] }

[programs.dequantise]
doc = "wrong in its form"
function = "class"
shapes.bf16 = { doc = "x", arguments = { columns = [1] }, tensor-parallel = [0] }
tiles.rows-1 = { rows = [1, 2, 3], architectures = ["sm_90a", "sm_90a"] }

[programs.quantise]
doc = "right in its form, and wrong in what it says"
shapes.bf16-5120 = { doc = "x", arguments = { columns = 5120, threads = 1, "a b" = true } }
shapes.Wide_ = { doc = "x" }
tiles.rows-1 = { rows = [1, 64], arguments = { threads = 64 } }
tiles.rows-64 = { rows = [64, 80] }
tiles.rows-90 = { rows = [90], architectures = ["sm_80"] }
tiles.rows-99 = { rows = [99], architectures = ["sm_90a"] }

[programs.7days]
doc = "no function can be called so"
shapes.x = { doc = "x" }
tiles.x = { rows = [2] }
"""


def problems(text: str) -> list[tuple[str, str]]:
    kernel, found = parse_kernel(text.encode(), FILE)
    assert kernel is None
    return [(problem.where, problem.message) for problem in found]


def edited(old: str, new: str) -> str:
    assert old in KERNEL
    return KERNEL.replace(old, new)


def test_everything_that_is_wrong_is_said_at_once_with_its_key() -> None:
    _, found = parse_kernel(WRONG.encode(), FILE)
    lines = []
    for problem in found:
        lines += [f"{problem.where}: {problem.message}", *(f"    {line}" for line in problem.detail)]
    check_golden("errors/a-kernel-that-is-wrong.txt", "\n".join(lines) + "\n")


def test_a_file_that_is_no_toml_is_said_to_be_none() -> None:
    ((where, message),) = problems("[")
    assert where == FILE
    assert message.startswith("not valid TOML")


def test_a_sound_kernel_is_read() -> None:
    kernel, found = parse_kernel(KERNEL.encode(), FILE)
    assert (kernel is not None, found) == (True, [])
    assert kernel is not None
    assert kernel.cache
    assert list(kernel.programs["scale"].tiles) == ["few", "many", "many-blackwell"]
    assert (kernel.programs["scale"].tiles["many"].first, kernel.programs["scale"].tiles["many"].last) == (65, None)


def test_a_hole_between_tiles_and_an_overlap_are_told_with_the_architectures_that_have_them() -> None:
    assert problems(edited("rows = [1, 64]", "rows = [2, 70]")) == [
        (f"{FILE}: programs.scale.tiles", "no tile is for 1 row on sm_90a, sm_121a"),
        (f"{FILE}: programs.scale.tiles.many.rows", "65 rows and more overlap with the tile few on sm_90a"),
        (f"{FILE}: programs.scale.tiles.many-blackwell.rows", "65 rows and more overlap with the tile few on sm_121a"),
    ]


def test_a_hole_on_one_architecture_alone_is_told() -> None:
    text = edited("arguments = { threads = 64 }", 'arguments = { threads = 64 }\narchitectures = ["sm_90a"]')
    assert problems(text) == [(f"{FILE}: programs.scale.tiles", "no tile is for 1 to 64 rows on sm_121a")]


def test_rows_may_have_an_upper_bound() -> None:
    assert parse_kernel(edited("rows = [65]", "rows = [65, 96]").encode(), FILE)[1] == []


def test_a_program_need_not_be_for_every_architecture() -> None:
    """A probe of a format that one architecture alone has: its tiles say so."""
    text = edited("[programs.scale.tiles.few]", '[programs.scale.tiles.few]\narchitectures = ["sm_90a"]')
    assert parse_kernel(text.split("\n[programs.scale.tiles.many]")[0].encode(), FILE)[1] == []


def test_an_argument_of_shape_and_tile_is_one_too_many() -> None:
    text = edited("{ columns = 64 }", "{ columns = 64, threads = 1 }")
    assert problems(text) == [
        (f"{FILE}: programs.scale.tiles.{tile}.arguments.threads", "an argument of the shape narrow too")
        for tile in ("few", "many", "many-blackwell")
    ]
