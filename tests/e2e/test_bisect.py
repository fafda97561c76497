# SPDX-License-Identifier: Apache-2.0
"""Which of twelve edits flips a verdict: of a project that really derives, judged by a command that really runs."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import decode
from support.cli import Ran, command, environment
from support.small import PATCH, Small, run_here, small_project

SECOND = PATCH.replace("greet the world", "run twice").replace("greeting", "run").partition("@@")[0] + (
    "@@ -1,2 +1,3 @@\n #!/bin/sh\n cat /usr/share/hello/greeting\n+cat /usr/share/hello/greeting\n"
)
EXTRA = '\n[extra]\nbuilder = "unpack"\nkind = "tar"\nfrom = { set = "base", source = "hello" }\nstrip = 1\n'
FOUND = ["images/small.toml: config.environment.TWICE added 1", "patches/hello/0002-run.patch added"]

JUDGE = """\
# Two edits together: neither is wrong by itself.
echo "$DERIVE_BISECT_IMAGE" >> "$JUDGED"
test -f "$DERIVE_BISECT_STORE/blobs/sha256/${DERIVE_BISECT_IMAGE#sha256:}" || exit 125
cd "$DERIVE_BISECT_PROJECT" || exit 125
! { grep -q TWICE images/small.toml && test -f patches/hello/0002-run.patch; }
"""


@dataclass(frozen=True, slots=True)
class Two:
    """A project before and after twelve edits; ``judged`` is a file with a line for each run of the judge."""

    small: Small
    before: Path
    judged: Path
    judge: Path

    def bisect(self, *arguments: str, command: tuple[str, ...] = ()) -> Ran:
        """Run the command between both states."""
        options = ("--project", str(self.small.root), *arguments)
        words = ("--", *(command or ("sh", str(self.judge)))) if "--dry-run" not in arguments else ()
        environment = {**self.small.environment, "JUDGED": str(self.judged)}
        return run_here("bisect", str(self.before), ".", *options, *words, env=environment)

    @property
    def runs(self) -> int:
        """How often the judge was asked."""
        return len(self.judged.read_text().splitlines()) if self.judged.exists() else 0


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Yield a project with twelve edits since it was copied; no test changes it."""
    tmp_path = tmp_path_factory.mktemp("two")
    with small_project(tmp_path) as small:
        small.edit("images/small.toml", "[config]", '[config]\nenvironment = { KEPT = "1" }')
        before = tmp_path / "before"
        shutil.copytree(small.root, before)
        twelve(small)
        judge = tmp_path / "judge"
        judge.write_text(JUDGE)
        yield Two(small, before, tmp_path / "judged", judge)


def twelve(small: Small) -> None:
    """Make twelve edits, of which one does not evaluate without another."""
    small.edit("images/small.toml", '{ KEPT = "1" }', '{ KEPT = "1", ONCE = "1", TWICE = "1", THRICE = "1" }')
    small.edit("images/small.toml", "[config]", '[config]\nuser = "1"')
    small.edit("images/small.toml", 'mode = "0700"', 'mode = "0750"')
    small.edit("derivations/small.toml", "timeout = 60", "timeout = 70")
    small.edit("derivations/small.toml", "written by", "said by")
    small.edit(
        "derivations/small.toml", '{ source = "hello-patched" }', '{ source = "hello-patched", extra = "extra" }'
    )
    small.write("derivations/small.toml", (small.root / "derivations/small.toml").read_text() + EXTRA)
    small.edit("derivations/small/build.sh", "hello is built", "hello is there")
    small.edit("patches/hello/0001-greet.patch", "+hello, world", "+hello, you")
    small.write("patches/hello/0002-run.patch", SECOND)
    small.edit("patches/hello/series", "0001-greet.patch\n", "0001-greet.patch\n0002-run.patch\n")
    small.edit("lock/base.toml", "# What the small", "# Of what the small")


def found(ran: Ran) -> Any:
    """Return the body of the answer's record."""
    assert ran.code == 0, ran.err
    record = decode(ran.out.encode())
    assert isinstance(record, dict)
    return record["body"]


def test_two_interacting_edits_of_twelve_are_found_within_forty_runs_and_again_without_one(two: Two) -> None:
    body = found(two.bisect("--json"))
    assert len(body["edits"]) == 12  # the comment of a wish is none
    assert [f"{edit['place']} {edit['what']}" for edit in body["found"]] == FOUND
    assert (body["whole"], body["runs"], body["remembered"]) == (True, two.runs, 0)
    assert two.runs <= 20
    again = two.bisect()
    assert again.answer.splitlines()[0] == (
        f"2 of 12 edits flip the verdict, and none of them can be left out (0 runs, {two.runs} known from before):"
    )
    assert [row.strip() for row in again.answer.splitlines()[1:]] == FOUND
    assert again.err.splitlines()[0] == "run 1: A: like A (exit 0), known from before; 12 edits remain"


def test_what_was_stopped_says_what_is_known_and_goes_on_from_there(two: Two) -> None:
    before = two.runs
    command = ("sh", str(two.judge), "once more")
    stopped = two.bisect("--max-runs", "5", command=command)
    assert stopped.code == 3
    assert stopped.out.startswith("stopped: ")
    assert "run the same command again to go on" in stopped.err
    assert two.runs == before + 5
    body = found(two.bisect("--json", command=command))
    assert body["remembered"] == 5
    assert two.runs == before + 5 + body["runs"]
    assert len(body["found"]) == 2


def test_a_command_whose_time_is_up_cannot_be_judged(two: Two) -> None:
    ran = two.bisect("--timeout", "1", command=("sleep", "60"))
    assert (ran.code, ran.out) == (1, "")
    assert "cannot be judged: the command did not end within 1 s" in ran.err
    assert two.bisect("--timeout", "0").code == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_before_anything_was_judged_it_says_so_and_leaves_nothing(
    two: Two, tmp_path: Path, number: signal.Signals
) -> None:
    script = f"echo $DERIVE_BISECT_PROJECT > {tmp_path}/asked; sleep 300 & echo $! > {tmp_path}/own; wait"
    words = command("bisect", str(two.before), ".", "--project", str(two.small.root), "--", "sh", "-c", script)
    started = subprocess.Popen(words, env=environment(two.small.environment), stdout=subprocess.PIPE)
    own = tmp_path / "own"
    until = time.monotonic() + 60
    while not (own.exists() and own.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    started.send_signal(number)
    out, _ = started.communicate(timeout=20)
    said = b"stopped: nothing was judged, and nothing is known of the 12 edits between A and B\n"
    assert (started.returncode, out) == ((130, said) if number is signal.SIGTERM else (-9, b""))
    until = time.monotonic() + 20
    while Path(f"/proc/{own.read_text().strip()}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{own.read_text().strip()}").exists()
    assert two.bisect("--timeout", "1", command=("sleep", "60")).code == 1
    assert not Path((tmp_path / "asked").read_text().strip()).exists()


def test_a_dry_run_says_what_goes_together_and_costs_what_and_runs_nothing(two: Two) -> None:
    before = two.runs
    lines = two.bisect("--dry-run").answer.splitlines()
    place = next(n for n, row in enumerate(lines) if row.startswith("  together with"))
    assert lines[place - 1].startswith("derivations/small.toml: extra added")
    assert lines[place].startswith("  together with derivations/small.toml: hello.inputs.extra added")
    assert all("step" in row or "nothing to build" in row for row in lines if not row.startswith("  "))
    assert two.runs == before


def test_states_that_do_not_differ_in_verdict_are_told_so(two: Two) -> None:
    ran = two.bisect(command=("true",))
    assert (ran.code, ran.out) == (1, "")
    assert "do not differ in verdict" in ran.err
    ran = two.bisect(command=("sh", "-c", "grep -q TWICE $DERIVE_BISECT_PROJECT/images/small.toml"))
    assert ran.code == 1
    assert "the command does not end with 0 for A" in ran.err
    assert "exit 1" in ran.err


def test_what_cannot_be_judged_is_neither(two: Two) -> None:
    script = "cd $DERIVE_BISECT_PROJECT; grep -q ONCE images/* || exit 0; grep -q user images/* || exit 125; exit 1"
    body = found(two.bisect("--json", command=("sh", "-c", script)))
    places = [edit["place"] for edit in body["found"]]
    assert "images/small.toml: config.environment.ONCE" in places
    assert "images/small.toml: config.user" in places


def test_a_composition_that_does_not_build_is_not_judged(two: Two, tmp_path: Path) -> None:
    after = tmp_path / "after"
    shutil.copytree(two.small.root, after)
    script = after / "derivations/small/build.sh"
    script.write_text(script.read_text().replace("cat /in/source/greeting", "cat /in/extra/greeting"))
    words = ("sh", "-c", "! grep -q extra $DERIVE_BISECT_PROJECT/derivations/small/build.sh")
    ran = run_here("bisect", str(two.before), str(after), "--", *words, env=two.small.environment)
    assert ran.code == 0, ran.err
    assert "cannot be judged: " in ran.err
    rows = ran.answer.splitlines()
    assert "  derivations/small/build.sh changed" in rows
    assert any("hello.inputs.extra" in row for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("/nowhere", "."), "no such file"),
        ((".", "release:r9"), "no release is called 'r9'"),
        ((".", "."), "there is nothing to find"),
    ],
)
def test_what_is_no_state_or_no_question_is_refused(two: Two, arguments: tuple[str, ...], said: str) -> None:
    ran = run_here("bisect", *arguments, "--project", str(two.small.root), "--", "true", env=two.small.environment)
    assert ran.code == 2
    assert said in ran.err


def test_without_a_command_nothing_is_judged(two: Two) -> None:
    ran = run_here("bisect", ".", str(two.before), "--project", str(two.small.root), env=two.small.environment)
    assert (ran.code, "give one: derive bisect A B -- COMMAND" in ran.err) == (2, True)
