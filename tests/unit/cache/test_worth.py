# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.build.knowledge import Vouch
from derive.build.plan import Action, Plan, Step
from derive.cache.worth import PATIENT_NS, limit_ns, too_large, too_slow
from derive.canonical import Digest, sha256
from derive.derivations.model import BuiltInput, Derivation, FixedInput, Input, resolve

MB = 1_000_000
SECOND = 1_000_000_000


def step(name: str, *inputs: Derivation) -> Derivation:
    roles: dict[str, Input] = {
        f"in{at}": FixedInput(one) if one.fixed is not None else BuiltInput(one) for at, one in enumerate(inputs)
    }
    return Derivation(
        name=name, builder="script", version=1, build="any", host="any", arguments={"n": name}, inputs=roles
    )


SOURCE = Derivation(
    name="source",
    builder="fetch-url",
    version=1,
    build="any",
    host="any",
    arguments={"sha256": sha256(b"s").hex, "size": 200 * MB},
)
TOOL = step("tool", SOURCE)
PROGRAM = step("program", TOOL)
DURATIONS = {"tool": 100 * SECOND, "program": 20 * SECOND}


def plan(size: int) -> Plan:
    vouch = Vouch(
        resolved=resolve(step("x"), {}).id, outputs={}, caches=("c",), signers=("ann",), need=1, size_bytes=size
    )
    one = Step(derivation=PROGRAM, action=Action.SUBSTITUTE, reason="", vouch=vouch)
    return Plan(target=PROGRAM, steps=(one,))


def test_a_transfer_may_take_some_times_as_long_as_building_all_that_is_below() -> None:
    # 120 s of building, and 200 MB to fetch at 20 MB/s.
    assert limit_ns(PROGRAM, DURATIONS, lambda _: False) == 3 * 130 * SECOND


def test_what_is_here_need_not_be_built() -> None:
    assert limit_ns(PROGRAM, DURATIONS, lambda one: one == TOOL) == 3 * 20 * SECOND


def test_a_short_transfer_is_always_made() -> None:
    assert limit_ns(PROGRAM, {"program": 1}, lambda one: one == TOOL) == PATIENT_NS


def test_where_nobody_knows_what_building_takes_there_is_no_limit() -> None:
    assert limit_ns(PROGRAM, {"tool": SECOND}, lambda _: False) is None


def test_an_output_that_takes_longer_to_move_than_to_build_is_built() -> None:
    slow, quick = 1.0 * MB, 100.0 * MB
    big = plan(500 * MB)
    assert too_slow(big, lambda _: slow, DURATIONS, lambda _: False) == {big.steps[0].vouch.resolved}  # type: ignore[union-attr]
    assert too_slow(big, lambda _: quick, DURATIONS, lambda _: False) == frozenset()
    assert too_slow(big, lambda _: None, DURATIONS, lambda _: False) == frozenset()
    assert too_slow(plan(300 * MB), lambda _: slow, DURATIONS, lambda _: False) == frozenset()


def test_of_what_does_not_fit_the_largest_is_built_and_the_rest_is_taken() -> None:
    def taken(name: str, size: int) -> Step:
        vouch = Vouch(
            resolved=sha256(name.encode()), outputs={}, caches=("c",), signers=("a",), need=1, size_bytes=size
        )
        return Step(derivation=step(name), action=Action.SUBSTITUTE, reason="", vouch=vouch)

    fetch = Step(derivation=SOURCE, action=Action.FETCH, reason="")
    together = Plan(target=PROGRAM, steps=(fetch, taken("small", 10 * MB), taken("large", 2**43)))

    def large(free: int) -> frozenset[Digest]:
        return too_large(together, free)

    assert large(2**43 + 210 * MB) == frozenset()
    assert large(2**43 + 210 * MB - 1) == {sha256(b"large")}
    assert large(210 * MB) == {sha256(b"large")}
    assert large(210 * MB - 1) == {sha256(b"large"), sha256(b"small")}
