# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest

from derive.build.check import Difference, check_closure, compare
from derive.build.context import Context
from derive.build.execute import Executor, store_knowledge
from derive.build.plan import make_plan
from derive.canonical import Digest
from derive.derivations.model import BuiltInput, Derivation, FlatOutput, Output, ResolvedDerivation, TreeOutput
from derive.errors import BuildFailed, Missing
from derive.store.local import LocalStore
from derive.trees.listing import DIRECTORY, Symlink
from derive.trees.pack import Member, NewFile, add_members
from support.archives import put

Make = Callable[[LocalStore, int], Mapping[str, Output]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def text(data: bytes, *, executable: bool = False) -> NewFile:
    return NewFile(executable=executable, chunks=[data])


def tree(store: LocalStore, members: Mapping[bytes, Member]) -> TreeOutput:
    return TreeOutput(store.add_listing(add_members(store, members.items())))


def flat(store: LocalStore, data: bytes) -> FlatOutput:
    return FlatOutput(put(store, data))


def step(name: str, *inputs: Derivation) -> Derivation:
    roles = {str(index): BuiltInput(one) for index, one in enumerate(inputs)}
    return Derivation(
        name=name, builder="compose", version=1, build="any", host="any", arguments={"n": name}, inputs=roles
    )


class Steps:
    """An executor whose builder does as a test says; it is given the number of the run."""

    def __init__(self, store: LocalStore) -> None:
        self.make: dict[str, Make] = {}
        self.watched: dict[str, int] = {}
        self.ran: list[str] = []
        runs = count(1)

        def build(_: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
            self.ran.append(context.name)
            make = self.make.get(context.name)
            return {"out": flat(store, context.name.encode())} if make is None else make(store, next(runs))

        class Nothing:
            def __call__(self, request: ResolvedDerivation, store: LocalStore) -> Digest:
                raise AssertionError

            def upstream(
                self, request: ResolvedDerivation, store: LocalStore, places: Sequence[str]
            ) -> Mapping[str, Output]:
                raise AssertionError

            def stop(self) -> None:
                """Nothing runs."""

        self.executor = Executor(
            store=store,
            builders={"compose": build},
            fetch=Nothing(),
            sandbox=lambda: pytest.fail("no sandbox here"),
            jobs=2,
            inner_jobs=1,
        )

    def build(self, target: Derivation) -> None:
        self.executor.run(make_plan(target, store_knowledge(self.executor.store)))
        self.ran.clear()
        self.executor._cancel.clear()

    def check(self, target: Derivation, *but: Derivation) -> tuple[int, list[Difference]]:
        return check_closure(target, self.executor, self._watch, but=[one.id for one in but])

    def _watch(self, derivation: Derivation, differences: int) -> None:
        self.watched[derivation.name] = differences


@pytest.fixture
def steps(store: LocalStore) -> Steps:
    return Steps(store)


def test_every_step_of_the_closure_is_built_again_and_found_alike(steps: Steps) -> None:
    target = step("top", step("one"), step("two"))
    steps.build(target)
    assert steps.check(target) == (3, [])
    assert sorted(steps.ran) == ["one", "top", "two"]
    assert steps.watched == {"one": 0, "two": 0, "top": 0}


def test_what_is_excepted_is_not_built_again(steps: Steps) -> None:
    one, two = step("one"), step("two")
    target = step("top", one, two)
    steps.build(target)
    assert steps.check(target, one, two) == (1, [])
    assert steps.ran == ["top"]


def test_a_step_that_comes_out_otherwise_is_named_with_path_and_byte(steps: Steps) -> None:
    def make(store: LocalStore, run: int) -> Mapping[str, Output]:
        return {"out": tree(store, {b"a": text(b"same"), b"d/x\xff": text(b"run %d" % run)})}

    steps.make["one"] = make
    target = step("top", step("one"))
    steps.build(target)
    checked, (difference,) = steps.check(target)
    assert checked == 2
    assert (difference.derivation, difference.output, difference.path) == ("one", "out", "d/x%FF")
    assert (difference.what, difference.offset) == ("contents", 4)
    assert difference.first != difference.second
    assert steps.watched == {"one": 1, "top": 0}


def test_dependents_are_checked_over_the_first_outputs_and_these_stay(steps: Steps, store: LocalStore) -> None:
    steps.make["one"] = lambda store, run: {"out": flat(store, b"run %d" % run)}
    one = step("one")
    target = step("top", one)
    steps.build(target)
    before = store_knowledge(store).resolved_ids([one.id, target.id])
    steps.check(target)
    assert store_knowledge(store).resolved_ids([one.id, target.id]) == before
    (row,) = store.database.realisations([before[one.id]]).values()
    assert row.outputs == {"out": str(flat(store, b"run 1"))}


def test_the_second_build_has_a_log_of_its_own(steps: Steps, store: LocalStore) -> None:
    target = step("top")
    steps.build(target)
    store.log_path(f"{target.id.hex}.log").write_text("the first")
    steps.check(target)
    assert store.log_path(f"{target.id.hex}.log").read_text() == "the first"
    assert store.log_path(f"{target.id.hex}.check.log").exists()


def test_a_closure_that_is_not_whole_is_refused(steps: Steps) -> None:
    with pytest.raises(Missing, match="is not in the store"):
        steps.check(step("top", step("one")))


def test_a_step_that_fails_the_second_time_is_that_failure(steps: Steps) -> None:
    def make(store: LocalStore, run: int) -> Mapping[str, Output]:
        if run > 1:
            raise BuildFailed("only once")
        return {"out": flat(store, b"x")}

    steps.make["top"] = make
    steps.build(step("top"))
    with pytest.raises(BuildFailed, match="only once"):
        steps.check(step("top"))


@pytest.mark.parametrize(
    ("first", "second", "path", "what", "offset"),
    [
        ({b"a": text(b"12345")}, {b"a": text(b"12x45")}, "a", "contents", 2),
        ({b"a": text(b"1234")}, {b"a": text(b"12345")}, "a", "contents", 4),
        ({b"a": text(b"x")}, {b"a": text(b"x", executable=True)}, "a", "executable", None),
        ({b"a": text(b"x")}, {b"a": text(b"x"), b"b": DIRECTORY}, "b", "added", None),
        ({b"a": Symlink(b"x")}, {b"a": Symlink(b"y")}, "a", "target", None),
        ({b"a": Symlink(b"x")}, {b"a": text(b"x")}, "a", "type", None),
    ],
    ids=["a byte", "a length", "a bit", "a path", "a link", "a type"],
)
def test_the_first_path_that_differs_is_found(
    store: LocalStore,
    first: Mapping[bytes, Member],
    second: Mapping[bytes, Member],
    path: str,
    what: str,
    offset: int | None,
) -> None:
    (found,) = compare(store, "x", {"out": tree(store, first)}, {"out": tree(store, second)})
    assert (found.path, found.offset) == (path, offset)
    assert what in found.what


def test_a_one_file_output_that_differs_is_found_with_its_byte(store: LocalStore) -> None:
    (found,) = compare(store, "x", {"out": flat(store, b"abc")}, {"out": flat(store, b"abd")})
    assert (found.path, found.what, found.offset) == ("", "contents", 2)


def test_an_output_that_only_one_build_gave_and_one_of_another_kind_are_differences(store: LocalStore) -> None:
    one, other = flat(store, b"a"), tree(store, {})
    (missing,) = compare(store, "x", {"a": one, "b": one}, {"a": one})
    assert (missing.output, missing.what) == ("b", "only one of the two builds gave this output")
    (kind,) = compare(store, "x", {"a": one}, {"a": other})
    assert kind.what == "one is a tree, the other a file"


def test_a_difference_is_a_record_s_part(store: LocalStore) -> None:
    (found,) = compare(store, "x", {"out": flat(store, b"a")}, {"out": flat(store, b"b")})
    assert found.document() == {
        "derivation": "x",
        "output": "out",
        "path": "",
        "what": "contents",
        "offset_bytes": 0,
        "first": str(found.first),
        "second": str(found.second),
    }
