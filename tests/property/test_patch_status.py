# SPDX-License-Identifier: Apache-2.0
"""What is said of a patch, over generated files: true whatever was absorbed of it, and never at odds with applying."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from derive.errors import InputErrors
from derive.patches.absorbed import Place
from derive.patches.apply import apply_patch, apply_series
from derive.patches.make import hunks_between
from derive.patches.model import FileOperation, FileState, Modify
from derive.patches.status import Absorbed, Applies, Named, Partly, Shadowed, judge

Texts = list[int]


def contents(lines: Texts) -> bytes:
    return b"".join(b"line %d\n" % line for line in lines)


@st.composite
def edited(draw: st.DrawFn, before: Texts, first: int) -> Texts:
    """Some lines taken out, and new ones, numbered from ``first``, put in: no line stands twice."""
    after = list(before)
    for number in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(after)))
        after[at : at + draw(st.integers(0, 2))] = [first + number * 10 + n for n in range(draw(st.integers(0, 2)))]
    return after


@st.composite
def patches(draw: st.DrawFn) -> tuple[Texts, Modify]:
    before = list(range(draw(st.integers(1, 60))))
    after = draw(edited(before, 1000))
    hunks = hunks_between(contents(before), contents(after))
    assume(hunks and before)
    return before, Modify(path=b"f", hunks=hunks)


def state(data: bytes) -> dict[bytes, FileState]:
    return {b"f": FileState(contents=data)}


def result(before: bytes, *patch: FileOperation) -> bytes:
    made = apply_patch(patch, state(before).get).changes[b"f"]
    assert made is not None
    return made.contents


@given(case=patches())
def test_a_patch_is_in_the_source_that_it_made(case: tuple[Texts, Modify]) -> None:
    before, patch = case
    (judged,) = judge([Named(name="p", operations=(patch,))], state(result(contents(before), patch)).get)
    assert judged.verdict == Absorbed(in_source=True)


@given(case=patches(), data=st.data())
def test_exactly_the_hunks_that_a_source_took_are_found_there(case: tuple[Texts, Modify], data: st.DataObject) -> None:
    before, patch = case
    taken = data.draw(st.sets(st.integers(1, len(patch.hunks)), min_size=1))
    some = tuple(hunk for number, hunk in enumerate(patch.hunks, 1) if number in taken)
    source = result(contents(before), Modify(path=b"f", hunks=some))
    (judged,) = judge([Named(name="p", operations=(patch,))], state(source).get)
    if len(taken) == len(patch.hunks):
        assert judged.verdict == Absorbed(in_source=True)
        return
    assert isinstance(judged.verdict, Partly)
    assert {place.hunk for place in judged.verdict.absorbed} == taken
    assert all(isinstance(place, Place) for place in judged.verdict.open)


@given(case=patches(), data=st.data())
def test_a_patch_that_is_put_back_in_steps_is_undone_whatever_else_changed(
    case: tuple[Texts, Modify], data: st.DataObject
) -> None:
    """One patch, another that adds lines at the end, and one that puts back what the first did."""
    before, patch = case
    tail = [5000, 5001, 5002, 5003][: data.draw(st.integers(0, 4))]
    texts = [contents(before), result(contents(before), patch)]
    texts += [texts[-1] + contents(tail)] if tail else []
    texts.append(contents(before) + contents(tail))
    steps = [(Modify(path=b"f", hunks=hunks_between(a, b)),) for a, b in pairwise(texts)]
    found = judge([Named(name=str(at), operations=one) for at, one in enumerate(steps)], state(texts[0]).get)
    assert found[0].verdict == Shadowed(by=(str(len(steps) - 1),), undone=True)
    assert all(isinstance(one.verdict, Applies) for one in found[1:])


@given(data=st.data(), size=st.integers(0, 30), count=st.integers(1, 5))
def test_a_series_applies_when_every_patch_is_said_to(data: st.DataObject, size: int, count: int) -> None:
    """Patches made against other versions of a file, in any order: the verdicts agree with what applying does."""
    versions = [list(range(size))]
    for number in range(count):
        versions.append(data.draw(edited(versions[-1], 1000 * (number + 1))))
    made = [hunks_between(contents(a), contents(b)) for a, b in pairwise(versions)]
    series = [(Modify(path=b"f", hunks=hunks),) for hunks in data.draw(st.permutations([one for one in made if one]))]
    source = state(contents(data.draw(st.sampled_from(versions))))
    judged = judge([Named(name=str(at), operations=one) for at, one in enumerate(series)], source.get)
    try:
        apply_series(series, source.get)
    except InputErrors:
        applies = False
    else:
        applies = True
    assert applies == all(isinstance(one.verdict, Applies | Shadowed) for one in judged)
    assert not any(isinstance(one.verdict, Shadowed) and one.name in one.verdict.by for one in judged)
