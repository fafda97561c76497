# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from derive.build.service import evaluate
from derive.canonical import escape
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Derivation, Platform, closure
from derive.derivations.scope import load_scope
from derive.errors import InputErrors
from support.kernels import DERIVATIONS, KERNEL, KERNEL_FILES
from support.projects import project

Changes = Mapping[str, str | bytes | None]


def evaluator(changes: Changes | None = None) -> Evaluator:
    return Evaluator(load_scope(project({**KERNEL_FILES, **(changes or {})})))


def cache(changes: Changes | None = None, platform: Platform = "linux/amd64") -> Derivation:
    return evaluator(changes).derivation("cache", platform)


def parts(target: Derivation, part: str) -> dict[str, Derivation]:
    return {one.name: one for one in closure(target) if one.builder == "kernel" and one.arguments["part"] == part}


def refused(run: Callable[[], object]) -> list[tuple[str, str]]:
    with pytest.raises(InputErrors) as caught:
        run()
    return [(problem.where, problem.message) for problem in caught.value.problems()]


def moved(changes: Changes, target: Callable[[Changes], Derivation] = cache) -> set[str]:
    """Return the names of the steps that a change makes anew."""
    before = set(closure(target({})))
    return {one.name for one in closure(target(changes)) if one not in before}


def test_a_cache_is_the_index_and_what_a_host_loads_of_each_unit() -> None:
    target = cache(platform="linux/arm64")
    names = [
        f"scale/scale/{shape}/{tile}/sm_121a" for shape in ("narrow", "wide") for tile in ("few", "many-blackwell")
    ]
    assert (target.builder, sorted(target.inputs)) == ("compose", sorted(["index", *names]))
    assert sorted(parts(target, "device")) == sorted(names)
    assert sorted(parts(target, "host")) == sorted(f"{name}@linux/arm64" for name in names)
    (index,) = parts(target, "index").values()
    assert (index.host, [reference.derivation.name for reference in index.inputs.values()]) == ("linux/arm64", names)


def test_machine_code_is_one_derivation_for_all_hosts_and_its_host_s_part_is_not() -> None:
    amd64, arm64 = cache(), cache(platform="linux/arm64")
    assert set(parts(arm64, "device").values()) < set(parts(amd64, "device").values())
    assert not set(parts(arm64, "host").values()) & set(parts(amd64, "host").values())
    assert {one.host for one in parts(amd64, "device").values()} == {"any"}
    assert {one.host for one in parts(amd64, "host").values()} == {"linux/amd64"}
    assert {one.build for one in (*parts(arm64, "device").values(), *parts(arm64, "host").values())} == {"linux/amd64"}


def test_a_unit_s_machine_code_is_its_unit_its_code_and_its_root() -> None:
    found = parts(cache(), "device")["scale/scale/wide/few/sm_90a"]
    assert sorted(found.inputs) == ["root"]
    assert found.inputs["root"].derivation.name == "root"
    assert found.arguments["source"] == escape(b"def scale(columns, threads): ...\n")
    assert (found.arguments["part"], found.arguments["python"]) == ("device", "3.13")
    assert found.timeout_s == 600
    text = DERIVATIONS.replace('root = "root"', 'root = "root"\ntimeout = 9')
    assert parts(cache({"derivations/k.toml": text}), "device")[found.name].timeout_s == 9
    assert moved({"derivations/k.toml": text}) == set()


def edited(old: str, new: str) -> Changes:
    assert old in KERNEL
    return {"kernels/scale/kernel.toml": KERNEL.replace(old, new)}


def test_another_tile_is_compiled_anew_alone() -> None:
    names = moved(edited("{ threads = 256 }", "{ threads = 512 }"))
    units = {f"scale/scale/{shape}/many/sm_90a" for shape in ("wide", "narrow")}
    assert names == units | {f"{unit}@linux/amd64" for unit in units} | {"cache", "cache index"}


def test_other_rows_are_another_index_and_no_other_machine_code() -> None:
    text = KERNEL.replace("rows = [1, 64]", "rows = [1, 63]").replace("rows = [65]", "rows = [64]")
    assert moved({"kernels/scale/kernel.toml": text}) == {"cache", "cache index"}


@pytest.mark.parametrize(
    "changes",
    [
        edited("rows times a factor", "other words"),
        edited('doc = "a wide layer"', 'doc = "other words"'),
        edited("tensor-parallel = [3, 4]", "tensor-parallel = [4]"),
        {"kernels/scale/tests/test_scale.py": "assert 1\n", "kernels/shared/init.py": "VERSION = 2\n"},
    ],
)
def test_what_no_compiler_reads_compiles_nothing_anew(changes: Changes) -> None:
    assert moved(changes) == set()


def test_the_code_of_a_kernel_is_in_each_of_its_units() -> None:
    names = moved({"kernels/scale/kernel.py": "def scale(columns, threads): return 1\n"})
    assert names == {one.name for one in closure(cache()) if one.builder == "kernel"} | {"cache"}


def test_sources_are_the_kernels_wanted_and_what_they_share() -> None:
    other = {"kernels/other/kernel.toml": KERNEL, "kernels/other/kernel.py": "x = 1\n"}

    def files(text: str) -> list[str]:
        target = evaluator({**other, "derivations/k.toml": text}).derivation("sources", "linux/arm64")
        assert (target.build, target.host, target.inputs) == ("any", "any", {})
        found = target.arguments["files"]
        assert isinstance(found, Mapping)
        return sorted(found)

    shared = ["shared/init.py"]
    scale = ["scale/kernel.py", "scale/kernel.toml"]
    assert files(DERIVATIONS) == ["other/kernel.py", "other/kernel.toml", *scale, *shared]
    assert files(f'{DERIVATIONS}kernels = ["scale"]\n') == [*scale, *shared]


def test_a_kernel_that_is_not_for_caches_is_in_one_that_names_it() -> None:
    probe = {"kernels/probe/kernel.py": "x = 1\n", "kernels/probe/kernel.toml": f"cache = false\n{KERNEL}"}
    assert moved(probe) == set()
    named = DERIVATIONS.replace('root = "root"', 'root = "root"\nkernels = ["probe"]')
    assert {one.split("/")[0] for one in parts(cache({**probe, "derivations/k.toml": named}), "device")} == {"probe"}


def test_units_are_found_by_kernel_and_architecture_with_the_steps_of_the_cache() -> None:
    found = evaluator().kernel_units(["scale"], ["sm_121a"])
    assert {unit.gpu for unit, _ in found} == {"sm_121a"}
    assert {step for _, step in found} == set(parts(cache(platform="linux/arm64"), "device").values())
    assert len(evaluator().kernel_units(["scale"])) == 8


def test_units_that_nothing_has_are_refused() -> None:
    assert refused(lambda: evaluator().kernel_units(["scales"])) == [("kernels", "no kernel is named 'scales'")]
    assert refused(lambda: evaluator().kernel_units(["scale"], ["sm_80"])) == [
        ("kernels", "no kernel is for this architecture")
    ]


def test_a_unit_is_a_name_and_with_a_platform_it_is_what_a_host_loads() -> None:
    name = "scale/scale/wide/few/sm_121a"
    sound = project(KERNEL_FILES)
    device, host = evaluate(sound, name, None), evaluate(sound, f"{name}@linux/arm64", None)
    assert (device.name, host.name) == (name, f"{name}@linux/arm64")
    assert {device, host} <= set(closure(cache(platform="linux/arm64")))
    assert refused(lambda: evaluate(sound, "scale/scale/wide/many/sm_121a", None)) == [
        ("kernels/scale/kernel.toml", "no unit is named 'scale/scale/wide/many/sm_121a'")
    ]
    assert refused(lambda: evaluate(sound, "scales/x", None)) == [("kernels", "no kernel is named 'scales'")]


def test_kernels_without_a_root_that_they_are_compiled_in_are_refused() -> None:
    other = DERIVATIONS.replace("[cache", "[other").replace('"3.13"', '"3.12"').replace("[sources]", "[more-sources]")
    run = evaluator({"derivations/l.toml": other})
    assert refused(lambda: run.kernel_units(["scale"])) == [("derivations/", "kernels are compiled in several roots")]
    run = evaluator({"derivations/k.toml": None})
    assert refused(lambda: run.kernel_units(["scale"])) == [
        ("derivations/", "what kernels are compiled in is not said")
    ]


def test_a_host_that_the_cache_does_not_name_is_refused() -> None:
    text = DERIVATIONS.replace('"linux/arm64" = ["sm_121a"]\n', "")
    assert refused(lambda: cache({"derivations/k.toml": text}, "linux/arm64")) == [
        ("derivations/k.toml: cache.gpus", "cache is needed for linux/arm64, for which it names no GPU architectures")
    ]


def test_names_in_declarations_that_nothing_has_are_all_told() -> None:
    text = (
        DERIVATIONS.replace('root = "root"', 'root = "rot"\nkernels = ["scale", "scales", "scale"]')
        .replace('"sm_90a"', '"sm_89"')
        .replace('exclude = ["*/tests/*"]', 'kernels = ["scael"]')
    )
    assert refused(lambda: evaluator({"derivations/k.toml": text})) == [
        ('derivations/k.toml: cache.gpus."linux/amd64"[0]', "no kernel of this cache is for this architecture"),
        ("derivations/k.toml: cache.kernels[1]", "no kernel under kernels/ is named 'scales'"),
        ("derivations/k.toml: cache.kernels[2]", "scale a second time"),
        ("derivations/k.toml: cache.root", "no derivation is named 'rot'"),
        ("derivations/k.toml: sources.kernels[0]", "no kernel under kernels/ is named 'scael'"),
    ]


def test_a_host_or_an_architecture_that_is_none_is_refused_with_its_key() -> None:
    text = DERIVATIONS.replace('"linux/arm64" = ["sm_121a"]', '"linux/riscv64" = ["gb10"]')
    places = [where for where, _ in refused(lambda: evaluator({"derivations/k.toml": text}))]
    assert places == [f'derivations/k.toml: cache.gpus."linux/riscv64"{rest}' for rest in ("", "[0]")]


def test_a_wrong_kernel_is_no_second_problem_of_the_cache_that_names_it() -> None:
    text = DERIVATIONS.replace('root = "root"', 'root = "root"\nkernels = ["scale"]')
    changes = {"derivations/k.toml": text, "kernels/scale/kernel.toml": KERNEL.replace('"times two"', "1")}
    assert [where for where, _ in refused(lambda: evaluator(changes))] == [
        "kernels/scale/kernel.toml: programs.scale.doc"
    ]


def test_a_cache_without_any_kernel_is_refused() -> None:
    nothing = {path: None for path in KERNEL_FILES if path.startswith("kernels/")}
    assert refused(lambda: evaluator(nothing)) == [("derivations/k.toml: cache", "no kernel is for a cache")]


WHEEL = """\
[wheel]
builder = "script"
root = "root"
script = "build.sh"

[installed]
builder = "install-wheel"
from = "wheel"
root = "root"
python = "3.13"
"""


def test_an_unpacked_wheel_is_installed_compiled_to_byte_code_and_recorded() -> None:
    changes = {"derivations/e.toml": WHEEL, "derivations/e/build.sh": "true\n"}
    target = evaluator(changes).derivation("installed", "linux/arm64")
    assert (target.name, target.builder, sorted(target.inputs)) == ("installed", "record", ["bytecode", "installed"])
    laid = target.inputs["installed"].derivation
    assert laid.inputs["wheel"].derivation.name == "wheel"
    assert target.inputs["bytecode"].derivation.inputs["source"].derivation == laid
    assert refused(lambda: evaluator({"derivations/e.toml": WHEEL.split("\n\n")[1]})) == [
        ("derivations/e.toml: installed.from", "no derivation is named 'wheel'")
    ]


def test_a_wheel_that_is_left_out_is_in_no_step_and_must_be_in_the_lock() -> None:
    files = project({}).files["derivations/d.toml"].decode()
    without = files.replace('set = "w"\n', 'set = "w"\nwithout = { NAME = "why" }\n')
    names = sorted(evaluator().derivation("programs", "linux/amd64").inputs)
    left = evaluator({"derivations/d.toml": without.replace("NAME", names[0])}).derivation("programs", "linux/amd64")
    assert sorted(left.inputs) == names[1:]
    assert refused(lambda: evaluator({"derivations/d.toml": without.replace("NAME", "zz")})) == [
        ("derivations/d.toml: programs.without.zz", "no wheel in the lock is named 'zz'")
    ]
