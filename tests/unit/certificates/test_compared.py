# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.build.knowledge import Known
from derive.canonical import sha256
from derive.certificates.compared import Got, first_of, rows_of
from derive.derivations.model import BuiltInput, Derivation, TreeOutput


def step(name: str, *needs: Derivation) -> Derivation:
    return Derivation(
        name=name,
        builder="script",
        version=1,
        build="linux/amd64",
        host="linux/amd64",
        arguments={"name": name},
        inputs={f"in.{one.name}": BuiltInput(one, "out") for one in needs},
    )


BELOW = step("below")
MIDDLE = step("middle", BELOW)
ABOVE = step("above", MIDDLE)
ORDER = [BELOW, MIDDLE, ABOVE]


def got(middle: str = "middle") -> Got:
    """What a builder got, one step of whom gave something."""
    texts = {BELOW.id: ("", "below"), MIDDLE.id: ("below", middle), ABOVE.id: (middle, f"over {middle}")}
    return {
        key: Known(
            resolved=sha256(f"{key} {inputs}".encode()),
            outputs={"out": TreeOutput(sha256(text.encode()))},
            duration_ns=1,
        )
        for key, (inputs, text) in texts.items()
    }


def test_builders_that_got_the_same_differ_in_nothing() -> None:
    rows = list(rows_of("linux/amd64", ORDER, [got(), got(), got()]))
    assert [row.name for row in rows] == ["below", "middle", "above"]
    assert not any(row.differs for row in rows)
    assert first_of(rows) is None


def test_the_first_that_differs_is_the_step_whose_inputs_were_equal() -> None:
    rows = list(rows_of("linux/amd64", ORDER, [got(), got(), got("other")]))
    assert [(row.name, row.differs, row.is_first) for row in rows] == [
        ("below", False, True),
        ("middle", True, True),
        ("above", True, False),
    ]
    first = first_of(rows)
    assert first is not None
    assert first.name == "middle"
    assert first.document(("a", "b", "c"))["first"] is True


def test_a_step_that_one_builder_has_not_differs() -> None:
    partly = {key: one for key, one in got().items() if key != ABOVE.id}
    first = first_of(list(rows_of("linux/amd64", ORDER, [got(), partly])))
    assert first is not None
    assert (first.name, first.got[1]) == ("above", None)
