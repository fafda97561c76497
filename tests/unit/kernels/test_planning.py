# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.build.plan import Action, Plan, Step
from derive.canonical import Digest
from derive.kernels.building import Work
from derive.kernels.declarations import parse_kernel
from derive.kernels.planning import Beside, CheckPlan, equal_key, plan_lines
from derive.kernels.selecting import Target
from derive.kernels.steps import device_step, host_step
from derive.kernels.units import units_of
from support.kernels import KERNEL
from support.steps import step

ROOT = step("root", "debian-root")


def plan(*, done: int, again: bool = True, disk: int = 0) -> CheckPlan:
    kernel, _ = parse_kernel(KERNEL.encode(), "kernel.toml")
    assert kernel is not None
    targets = []
    for unit in units_of("scale", kernel)[:2]:
        device = device_step(unit, b"", ROOT, "linux/amd64")
        targets.append(Target(unit=unit, device=device, hosts=(host_step(device, ROOT, "x86_64", "linux/amd64"),)))
    steps = [one for target in targets for one in target.steps]
    actions = {
        one.id: Step(derivation=one, action=Action.REUSE if index < done else Action.BUILD, reason="")
        for index, one in enumerate(steps)
    }
    return CheckPlan(
        work=Work(targets=tuple(targets), plan=Plan(target=ROOT, steps=()), steps=actions),
        again=tuple(steps) if again else (),
        equal=0 if again else 4,
        tests=(Beside(shown="kernel-tests", derivation=ROOT, expected_ns=None),),
        caches=(Beside(shown="cache linux/amd64", derivation=ROOT, expected_ns=2_000_000_000),),
        jobs=2,
        expected_ns=65_000_000_000,
        guessed=again,
        disk_bytes=disk,
        free_bytes=10**9,
    )


def test_a_plan_says_how_many_compiles_how_long_and_how_much_room() -> None:
    assert list(plan_lines(plan(done=2, disk=10**8))) == [
        "check: 2 units of 1 kernel, for sm_121a, sm_90a",
        "  to compile        1 unit, 1 host part",
        "  to compile again  2 units, 2 host parts; 0 found equal before",
        "  besides           cache linux/amd64 (2.00 s), kernel-tests (never run here)",
        "  expected          65.0 s with 2 jobs, some guessed at 20.0 s a unit",
        "  disk              up to 100 MB of 1.0 GB free",
    ]


def test_a_plan_of_what_is_known_says_whence_and_that_the_disk_is_too_small() -> None:
    rows = list(plan_lines(plan(done=4, again=False, disk=10**10)))
    assert rows[2] == "  to compile again  0 units, 0 host parts; 4 found equal before"
    assert rows[4].endswith("from past runs")
    assert rows[5].endswith("TOO LITTLE")


def test_what_was_found_equal_is_remembered_by_the_step_and_the_programs() -> None:
    assert equal_key(Digest("0" * 64)) == equal_key(Digest("0" * 64))
    assert equal_key(Digest("0" * 64)) != equal_key(Digest("1" * 64))
