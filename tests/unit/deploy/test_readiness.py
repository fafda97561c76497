# SPDX-License-Identifier: Apache-2.0
"""A service has started when it answers while everything runs; it has failed when something ended, or nothing moves."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from derive.deploy.readiness import (
    Answer,
    ContainerIs,
    Event,
    Failed,
    GuardIs,
    Line,
    Lost,
    Progress,
    Ready,
    Tick,
    Waiting,
)
from derive.deploy.readiness_lines import Stage, said
from support.deploying import target
from support.golden import GOLDEN

PROBE = target()
MODEL = target("ds41f", "tp3-triangle")
NODES = tuple(launch.node for launch in PROBE.bundle.launches)
HEAD, SECOND, THIRD = NODES
S = 1_000_000_000

JOINED = "(Worker pid=7) INFO 11-30 17:00:01 [parallel_state.py:2350] rank 1 in world size 3 is assigned as DP rank 0"
SHARD = "\rLoading safetensors checkpoint shards:  {}% Completed | 1/3 [00:01<00:02,  1.00s/it]"
LOADED = "INFO 11-30 17:00:02 [default_loader.py:502] Loading weights took 12.34 seconds"
WARM = "INFO 11-30 17:00:03 [core.py:403] init engine (profile, create kv cache, warmup model) took 11.22 s"
UP = "INFO:     Application startup complete."


def up(second: int = 0) -> list[Event]:
    return [ContainerIs(node=node, running=True, at_ns=second * S) for node in NODES]


def lines(text: str, second: int, nodes: Iterable[str] = NODES) -> list[Event]:
    return [Line(node=node, text=text, at_ns=second * S) for node in nodes]


def answer(second: int, *, good: bool = True, detail: str = "3 tokens") -> Answer:
    return Answer(good=good, detail=detail, at_ns=second * S)


def tick(second: int) -> list[Event]:
    return [Tick(at_ns=second * S)]


def begun() -> Progress:
    """Return the start of a model all of whose containers run."""
    progress = Progress(MODEL, started_ns=0)
    progress.feed(up())
    return progress


def test_stages_are_passed_in_order_and_an_answer_makes_it_ready() -> None:
    progress = Progress(MODEL, started_ns=0)
    stages = []
    for events in (
        tick(0),
        up(1),
        lines(JOINED, 2),
        lines(LOADED, 3),
        lines(WARM, 4, [HEAD]),
        lines(UP, 5, [HEAD]),
    ):
        verdict = progress.feed(events)
        assert isinstance(verdict, Waiting)
        stages.append(verdict.stage)
    assert stages == ["containers", "ranks", "weights", "kernels", "server", "answer"]
    assert progress.feed([answer(6)]) == Ready(took_ns=6 * S, detail="3 tokens")


def test_no_answer_is_asked_for_before_everything_runs() -> None:
    progress = Progress(MODEL, started_ns=0)
    progress.feed(up()[:2])
    assert not progress.wants_answer
    assert isinstance(progress.feed([answer(1)]), Waiting)
    progress.feed(up(2)[2:])
    assert progress.wants_answer


def test_an_answer_is_enough_where_a_log_has_other_words() -> None:
    assert isinstance(begun().feed([*lines("something else", 1), answer(2)]), Ready)


def test_a_health_check_that_is_no_answer_is_not_enough() -> None:
    found = begun().feed([answer(1, good=False, detail="503 of /v1/completions")])
    assert isinstance(found, Waiting)


def test_a_plain_service_waits_for_its_answer_alone() -> None:
    progress = Progress(PROBE, started_ns=0)
    assert progress.feed(up()) == Waiting(stage="answer", detail="no answer yet")
    assert isinstance(progress.feed([answer(1)]), Ready)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exit_code": 1}, "exit code 1"),
        ({"exit_code": 137}, "exit code 137, killed; the memory guard's record says more, if it was that"),
        ({"exit_code": 137, "oom_killed": True}, "exit code 137, killed for want of memory"),
        ({"exit_code": 127, "error": "no such\nfile"}, "exit code 127, no such\\nfile"),
        ({"error": "there is no such container"}, "there is no such container"),
        ({}, "it is gone"),
    ],
)
def test_a_container_that_ends_fails_the_start_at_once_with_its_last_lines(
    changes: dict[str, object], why: str
) -> None:
    progress = begun()
    progress.feed(lines("Traceback", 1, [SECOND]))
    ended = ContainerIs(node=SECOND, running=False, at_ns=2 * S, **changes)  # type: ignore[arg-type]
    found = progress.feed([ended, answer(2)])
    assert found == Failed(why=f"the container of {SECOND} has ended: {why}", node=SECOND, lines=("Traceback",))


def test_a_container_that_is_not_there_yet_is_waited_for() -> None:
    progress = Progress(PROBE, started_ns=0)
    found = progress.feed([ContainerIs(node=SECOND, running=False, at_ns=0, error="there is no such container")])
    assert found == Waiting(stage="containers", detail="0 of 3 containers")


def test_a_container_that_never_comes_is_named() -> None:
    progress = Progress(PROBE, started_ns=0)
    progress.feed(up()[:2])
    found = progress.feed(tick(61))
    assert isinstance(found, Failed)
    assert found.node == THIRD
    assert found.why == "nothing has moved for 60.0 s while containers are started: 2 of 3 containers"


def test_a_guard_that_ends_fails_the_start_at_once() -> None:
    progress = begun()
    progress.feed([GuardIs(node=node, alive=True, at_ns=S, says="guarding") for node in NODES])
    found = progress.feed([GuardIs(node=THIRD, alive=False, at_ns=2 * S)])
    assert isinstance(found, Failed)
    assert found.why == f"the memory guard of {THIRD} has ended"


def test_the_steady_guard_that_is_not_started_yet_is_no_failure() -> None:
    progress = begun()
    idle = GuardIs(node=HEAD, phase="steady", alive=False, at_ns=S)
    assert isinstance(progress.feed([idle]), Waiting)
    assert isinstance(progress.feed([GuardIs(node=HEAD, phase="steady", alive=True, at_ns=2 * S), idle]), Failed)


def test_a_node_that_is_lost_is_waited_for_a_minute_and_holds_an_answer_up() -> None:
    progress = begun()
    progress.feed([Lost(node=SECOND, why="no answer in 20 s", at_ns=S)])
    assert not progress.wants_answer
    found = progress.feed([answer(30)])
    assert isinstance(found, Waiting)
    assert found.detail.endswith(f"{SECOND} cannot be asked: no answer in 20 s")
    assert isinstance(progress.feed([Lost(node=SECOND, why="no route", at_ns=60 * S)]), Waiting)
    assert progress.feed(tick(62)) == Failed(why=f"{SECOND} cannot be asked: no route", node=SECOND, lines=())


def test_a_node_that_answers_again_is_no_longer_lost() -> None:
    progress = begun()
    progress.feed([Lost(node=SECOND, why="no route", at_ns=S)])
    progress.feed(up(50))
    assert isinstance(progress.feed([*tick(100), answer(100)]), Ready)


def test_a_stage_may_take_as_long_as_it_likes_while_it_gets_on() -> None:
    progress = begun()
    progress.feed(lines(JOINED, 1))
    shares = [progress.feed(lines(SHARD.format(share), 3000 * (share + 1), [THIRD])) for share in range(100)]
    waiting = [one for one in shares if isinstance(one, Waiting)]
    assert len(waiting) == 100
    assert waiting[-1].detail == f"0 of 3 ranks, weights 99 % on {THIRD}"
    assert isinstance(progress.feed(tick(300_000 + 3599)), Waiting)
    assert isinstance(progress.feed(tick(300_000 + 3601)), Failed)


def test_the_same_lines_again_and_again_are_no_progress() -> None:
    progress = begun()
    text = "INFO 17:00:{0} waiting for 0x{0:x} since {0} s"
    *_, found = [progress.feed(lines(text.format(second), second)) for second in range(0, 320, 10)]
    assert isinstance(found, Failed)
    assert found.why.startswith("nothing has moved for 5 min 00 s while ranks find each other: 0 of 3 ranks")


def test_lines_of_a_kind_that_was_not_seen_are_progress() -> None:
    progress = begun()
    for number, word in enumerate(("compiling", "tuning", "capturing", "warming")):
        assert isinstance(progress.feed(lines(word, 290 * (number + 1))), Waiting)


def test_a_rank_that_the_others_wait_for_is_named() -> None:
    progress = begun()
    progress.feed(lines(JOINED, 1, [HEAD, THIRD]))
    found = progress.feed(tick(302))
    assert isinstance(found, Failed)
    assert found.node == SECOND


def test_each_stage_has_a_limit_of_its_own_and_none_is_above_the_recipes() -> None:
    model, probe = Progress(MODEL, started_ns=0), Progress(PROBE, started_ns=0)
    assert [model.limit_s(stage) for stage in Stage] == [120, 300, 3600, 3600, 300, 300]
    assert {probe.limit_s(stage) for stage in Stage} == {60}


def test_the_last_lines_are_few_and_do_nothing_to_a_terminal() -> None:
    progress = begun()
    progress.feed(lines("\x1b[31m" + "x" * 300, 1, [HEAD]))
    progress.feed([one for number in range(50) for one in lines(f"line {number} {'y' * 300}\n", 1, [HEAD])])
    found = progress.feed([ContainerIs(node=HEAD, running=False, exit_code=1, at_ns=2 * S)])
    assert isinstance(found, Failed)
    assert found.lines[-1].startswith("line 49 ")
    assert sum(map(len, found.lines)) <= 4000
    assert all(line.isprintable() for line in found.lines)


@pytest.mark.parametrize(
    ("text", "passed", "share"),
    [
        (JOINED, Stage.RANKS, None),
        (LOADED, Stage.WEIGHTS, None),
        ("INFO [gpu_model_runner.py:5150] Model loading took 58.2 GiB memory and 70.1 seconds", Stage.WEIGHTS, None),
        (WARM, Stage.KERNELS, None),
        (UP, Stage.SERVER, None),
        (SHARD.format(45), None, ("weights", 45)),
        ("Capturing CUDA graphs (decode, FULL):  45%|####   | 9/20 [00:01<00:02, 1.2it/s]", None, ("graphs", 45)),
        ("Unpacking rows: 7%|#  | 7/100", None, ("Unpacking rows", 7)),
        ("\x1b[36m(EngineCore pid=9)\x1b[0m INFO 0x7f 12:00 took 3.5 s", None, None),
        ("", None, None),
    ],
)
def test_lines_say_how_far_a_rank_is(text: str, passed: Stage | None, share: tuple[str, int] | None) -> None:
    found = said(text)
    assert (found.passed, found.share) == (passed, share)


def test_lines_that_differ_in_figures_alone_are_of_one_kind() -> None:
    one, other = (said(f"(Worker pid={pid}) INFO 17:00:0{pid} at 0x{pid}f took 1.{pid} s") for pid in (1, 2))
    assert one.shape == other.shape


def test_the_log_of_a_real_engine_passes_every_stage_in_order() -> None:
    recorded = (GOLDEN / "deploy" / "vllm-cpu.log").read_text().splitlines()
    found = [said(text) for text in recorded]
    stages = [one.passed for one in found if one.passed is not None]
    assert stages == [Stage.RANKS, Stage.WEIGHTS, Stage.KERNELS, Stage.SERVER]
    assert [one.share for one in found if one.share is not None] == [("weights", 0), ("weights", 100)]
