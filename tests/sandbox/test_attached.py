# SPDX-License-Identifier: Apache-2.0
"""A sandbox with its caller's own streams: what comes out of it, and how it ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from derive.errors import HostRefuses
from derive.sandbox.attached import run_attached
from derive.sandbox.bwrap import Bubblewrap
from derive.sandbox.spec import Bind, SandboxSpec, Seal, root_mounts, system_mounts

if TYPE_CHECKING:
    from sandbox.conftest import Root

pytestmark = pytest.mark.sandbox

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(sandbox: Bubblewrap, root: Root) -> Run:
    def running(script: str, *more: Bind, program: str = "/bin/sh") -> tuple[int, str, str]:
        mounts = (*root_mounts(os.fsencode(root.folder), root.entries), *system_mounts(None), *more, Seal(b"/"))
        spec = SandboxSpec(mounts=mounts, environment=(("A", "b"),), argv=(program, "-c", script), cwd=b"/")
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            code = run_attached(sandbox, spec, stdout=out.fileno(), stderr=err.fileno())
            out.seek(0)
            err.seek(0)
            return code, out.read().decode(), err.read().decode()

    return running


def test_both_streams_go_where_they_are_to_and_are_not_mixed(run: Run) -> None:
    assert run("echo $A; echo words >&2") == (0, "b\n", "words\n")


def test_nothing_can_be_typed_into_it(run: Run) -> None:
    assert run("cat; echo end") == (0, "end\n", "")


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_it_ends_as_the_program_ends(run: Run, script: str, status: int) -> None:
    assert run(script)[0] == status


def test_a_program_that_is_not_there_is_no_exit_status(run: Run) -> None:
    with pytest.raises(HostRefuses, match="could not be started"):
        run("", program="/bin/none")


def test_a_sandbox_that_cannot_be_made_is_no_exit_status(run: Run) -> None:
    with pytest.raises(HostRefuses, match="could not be started"):
        run("exit 1", Bind(b"/nowhere/at/all", b"/build"))
