# SPDX-License-Identifier: Apache-2.0
"""What a deploy says that failed."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from derive.canonical import Digest
from derive.deploy.model import Served, Step
from derive.deploy.refused import Refused, failure_of
from derive.deploy.undo import Back
from derive.errors import DeriveError, Interrupted, Problem, Unavailable

_DIGEST = Digest("3f" * 32)
_SERVED = Served(
    release="r6",
    release_digest=_DIGEST,
    recipe="probe",
    shape="triangle",
    image=_DIGEST,
    shape_bundle=_DIGEST,
    launch_bundle=_DIGEST,
)
_ERROR = Unavailable("no answer", where="spark2")


def _last(error: DeriveError) -> str:
    return error.problems()[-1].message


def test_a_refusal_is_no_and_says_everything() -> None:
    problems = [Problem(where="b", message="two"), Problem(where="a", message="one")]
    error = Refused(problems)
    assert error.exit_code == 1
    assert error.problems() == tuple(problems)


def test_before_anything_moved_an_error_is_what_it_is() -> None:
    assert failure_of(_ERROR, Step.FACTS, None, None, went=False) is _ERROR


def test_a_failure_names_its_step_its_logs_and_what_runs_again() -> None:
    error = failure_of(_ERROR, Step.START, Back(to=_SERVED), PurePosixPath("/logs/1"), went=True)
    assert error.exit_code == 1
    first = error.problems()[0]
    assert (first.where, first.message) == ("spark2", "start: no answer")
    assert first.detail == ("logs      /logs/1",)
    assert _last(error) == f"the deploy ended at start: r6 ({_DIGEST.short}) runs again"


@pytest.mark.parametrize(
    ("to", "others", "text"),
    [
        (None, (("spark1", "ds41f"), ("spark2", "ds41f")), "ds41f on spark1, spark2 runs again"),
        (None, (("spark1", "a"), ("spark2", "b")), "a on spark1 and b on spark2 run again"),
        (_SERVED, (("spark1", "ds41f"),), f"r6 ({_DIGEST.short}) and ds41f on spark1 run again"),
    ],
)
def test_what_was_put_back_and_runs_is_named_with_its_nodes(
    to: Served | None, others: tuple[tuple[str, str], ...], text: str
) -> None:
    back = Back(to=to, others=others)
    assert _last(failure_of(_ERROR, Step.START, back, None, went=True)) == f"the deploy ended at start: {text}"


def test_before_the_step_stop_what_ran_was_not_touched() -> None:
    error = failure_of(_ERROR, Step.DISTRIBUTE, Back(to=_SERVED), None, went=True)
    assert _last(error) == "the deploy ended at distribute: what ran was not touched"


@pytest.mark.parametrize(("errors", "code"), [({}, 130), ({"spark3": _ERROR}, 1)])
def test_an_interrupt_ends_with_130_where_all_is_as_it_was(errors: dict[str, DeriveError], code: int) -> None:
    back = Back(to=_SERVED, errors=errors)
    assert failure_of(Interrupted("interrupted"), Step.READY, back, None, went=True).exit_code == code


def test_what_could_not_be_undone_is_said_with_what_each_node_was_left_with_and_one_next_command() -> None:
    left = {"spark2": "nothing runs", "spark3": "what runs there is not known: no answer"}
    back = Back(to=_SERVED, errors={"spark3": _ERROR}, left=left)
    error = failure_of(_ERROR, Step.READY, back, None, went=True, following="once spark3 can be reached: derive ...")
    assert [one.where for one in error.problems()] == ["spark2", "spark3", ""]
    last = error.problems()[-1]
    assert last.message == "the deploy ended at ready, and not all is as it was before"
    assert last.detail == ("spark2  nothing runs", "spark3  what runs there is not known: no answer")
    assert [one.hint for one in error.problems()][1:] == [None, "once spark3 can be reached: derive ..."]


def test_where_another_deploy_has_the_nodes_nothing_is_undone_and_that_is_said() -> None:
    error = failure_of(_ERROR, Step.READY, None, None, went=True)
    assert any("another deploy has the nodes now" in one.message for one in error.problems())
    before = failure_of(_ERROR, Step.STAGE, None, None, went=True)
    assert _last(before) == "the deploy ended at stage: what ran was not touched"
