# SPDX-License-Identifier: Apache-2.0
"""Effects over a real sshd, typed: what they answer, who is refused, and that one that was cut off is done again."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest, sha256
from derive.deploy import effects
from derive.deploy.effects import Put, Wanted
from derive.deploy.lease import Fence, Owner
from derive.deploy.model import Aside, Before, NodeState, Served
from derive.deploy.node_errors import ConnectionLost, EffectFailed, Fenced, LeaseHeld
from derive.deploy.node_state import parse_state, state_document
from derive.deploy.refusals import no_answer, refusal
from derive.deploy.remote import Node
from derive.errors import Corrupt
from support.node_programs import NONCE
from support.nodes import AtNode, Sshd, until

LAUNCH = Digest("ab" * 32)
SERVED = Served(
    release="r-1",
    release_digest=Digest("01" * 32),
    recipe="probe",
    shape="triangle",
    image=Digest("02" * 32),
    shape_bundle=Digest("03" * 32),
    launch_bundle=LAUNCH,
)
STATE = NodeState(service="s", deploy="d", step="activate", wanted=SERVED, current=None, healthy=(SERVED,), at_s=7)


def launch_files() -> dict[str, bytes]:
    files = {"run": b"exec docker run\n"}
    manifest = {"launch-bundle": str(LAUNCH), "files": {path: str(sha256(data)) for path, data in files.items()}}
    return {**files, "manifest.json": json.dumps(manifest).encode()}


def test_a_deploy_leaves_on_a_node_what_it_said(at_node: AtNode, tmp_path: Path) -> None:
    site = str(tmp_path / "site")

    async def deploy(node: Node) -> None:
        owner = effects.this_process("a test")
        taken = await effects.take_lease(node, site, NONCE, owner)
        assert (taken.lease.owner, taken.former, taken.why) == (owner, None, None)
        fence = Fence(folder=site, nonce=NONCE)
        files = launch_files()
        assert await effects.put_tree(node, fence, "s", LAUNCH, files) == Put(
            kept=False, bytes_moved=sum(map(len, files.values()))
        )
        assert await effects.put_file(node, fence, "guard/x", b"guard", mode=0o755) == Put(kept=False, bytes_moved=5)
        assert await effects.put_file(node, fence, "guard/x", b"guard", mode=0o755) == Put(kept=True, bytes_moved=0)
        assert await effects.activate(node, fence, LAUNCH, STATE) is None
        seen = await effects.read_states(node, site)
        assert (seen["s"].state, seen["s"].link, seen["s"].launches) == (STATE, LAUNCH, (LAUNCH,))
        assert await effects.prune(node, fence, "s", keep=0) == ()
        ran = await effects.run_fenced(node, fence, ["cat"], stdin=b"\0in")
        assert (ran.code, ran.out) == (0, b"\0in")
        read = await effects.read_files(node, [f"{site}/guard/x", "/nowhere"])
        assert {path: file.data for path, file in read.items()} == {f"{site}/guard/x": b"guard"}
        facts = await effects.facts(node, Wanted(folders=(site,)))
        assert facts["derive"] == "machine-facts/1"
        assert await effects.free_lease(node, fence)
        with pytest.raises(Fenced, match="no longer held") as caught:
            await effects.write_state(node, fence, STATE)
        assert caught.value.holder is None

    at_node(deploy)


def test_a_holder_that_is_gone_from_this_machine_is_replaced_and_one_that_lives_is_named(
    at_node: AtNode, tmp_path: Path
) -> None:
    site = str(tmp_path / "site")
    script = (
        "import json; from derive.deploy.effects import this_process; print(json.dumps(this_process('it').document()))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=environ).stdout
    gone = Owner(**{key.replace("-", "_"): value for key, value in json.loads(told).items()})

    async def taken(node: Node) -> None:
        await effects.take_lease(node, site, "first", gone)
        second = await effects.take_lease(node, site, "second", effects.this_process("a test"))
        assert (second.why, second.former is not None and second.former.owner) == ("owner gone", gone)
        with pytest.raises(LeaseHeld) as caught:
            await effects.take_lease(node, site, "third", effects.this_process("another"))
        assert caught.value.holder is not None
        assert caught.value.holder.nonce == "second"
        with pytest.raises(Fenced, match="now that of") as fenced:
            await effects.renew_lease(node, Fence(folder=site, nonce="first"))
        assert fenced.value.where == "spark1: lease-renew"

    at_node(taken)


def test_a_holder_that_another_node_knows_to_be_gone_is_replaced(at_node: AtNode, tmp_path: Path) -> None:
    site = str(tmp_path / "site")
    elsewhere = replace(effects.this_process("it"), host="another")

    async def taken(node: Node) -> None:
        await effects.take_lease(node, site, "first", elsewhere)
        with pytest.raises(LeaseHeld):
            await effects.take_lease(node, site, "second", effects.this_process("a test"), gone="some other")
        second = await effects.take_lease(node, site, "second", effects.this_process("a test"), gone="first")
        assert second.why == "owner gone"

    at_node(taken)


@contextmanager
def held_up(folder: Path) -> Iterator[None]:
    """Hold the lock that a change waits for, so that it is under way for as long as a test needs."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


async def _put(node: Node, fence: Fence) -> Any:
    return await effects.put_tree(node, fence, "s", LAUNCH, launch_files())


async def _activate(node: Node, fence: Fence) -> Any:
    return await effects.activate(node, fence, LAUNCH, STATE)


@pytest.mark.parametrize("change", [_put, _activate], ids=lambda one: one.__name__[1:])
def test_a_change_whose_connection_is_lost_is_an_error_and_may_be_asked_for_again(
    sshd: Sshd, at_node: AtNode, tmp_path: Path, change: Callable[[Node, Fence], Awaitable[Any]]
) -> None:
    site = tmp_path / "site"

    async def cut(node: Node) -> None:
        await effects.take_lease(node, str(site), NONCE, effects.this_process("a test"))
        fence = Fence(folder=str(site), nonce=NONCE)
        if change is not _put:
            await _put(node, fence)
        before = sorted(site.rglob("*"))
        with held_up(site / "s"):
            under_way = asyncio.ensure_future(change(node, fence))
            await until(lambda: _waits_for(site))
            sshd.cut()
            with pytest.raises(ConnectionLost) as caught:
                await under_way
            assert (caught.value.where or "").startswith("spark1: ")
            await until(lambda: not _waits_for(site))  # what runs there notices, and does not go on
        assert [path for path in sorted(site.rglob("*")) if path != site / "s"] == before or change is not _put
        await change(node, fence)
        assert (site / "s" / "launches" / LAUNCH.hex / "run").exists()

    at_node(cut)


def _waits_for(site: Path) -> bool:
    """Say whether a program holds the lock that all changes share, as one that is under way does."""
    descriptor = os.open(site, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_a_refusal_names_the_node_the_effect_and_a_next_step() -> None:
    said: dict[str, Any] = {
        "kind": "ENOSPC",
        "message": "/var/lib/derive/x: No space left",
        "detail": [],
        "hint": "make room",
        "data": None,
    }
    error = refusal("spark1", "tree-put", said)
    assert isinstance(error, EffectFailed)
    assert (error.kind, error.where, error.hint) == ("ENOSPC", "spark1: tree-put", "make room")
    assert (refusal("spark1", "run", {**said, "hint": None}).hint or "").startswith("look at the node")


def test_a_state_is_read_as_it_was_written() -> None:
    aside = Aside(kind="container", name="c", running=False, guard=None)
    before = Before(current=SERVED, running=True, aside=(aside,))
    for state in (STATE, replace(STATE, before=before)):
        assert parse_state(state_document(state), "here") == state
    for change in ({"derive": "deploy-state/2"}, {"step": None, "wanted": 1}, {"current": {"release": "r"}}):
        with pytest.raises(Corrupt, match="not the state of a service") as caught:
            parse_state({**state_document(STATE), **change}, "here")
        assert (caught.value.where, caught.value.detail[0]) == ("here", "expected  deploy-state/1")


@pytest.mark.parametrize(
    ("code", "err", "sudo", "kind"),
    [
        (127, b"bash: line 1: python3: command not found\n", False, "no-python"),
        (1, b"sudo: a password is required\n", True, "no-sudo"),
        (1, b"Traceback\nMemoryError\n", False, "no-answer"),
        (-9, b"", False, "no-answer"),
    ],
)
def test_a_program_without_an_answer_says_what_is_missing(code: int, err: bytes, *, sudo: bool, kind: str) -> None:
    error = no_answer("spark1", "facts", code=code, out=b"", err=err, sudo=sudo)
    assert (error.kind, error.where) == (kind, "spark1: facts")
    assert error.hint
