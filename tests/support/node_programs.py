# SPDX-License-Identifier: Apache-2.0
"""Effects of node programs done here, as a program of their own, as plain calls, or ended by SIGKILL at every step.

Edge: processes, the file system.

As a program it ends itself: it does an effect in a fresh process over and over, each time getting one change of the
file system further, and prints what each attempt left behind and what doing it again then came to.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derive.deploy.effects import this_process
from derive.deploy.lease import Fence
from derive.deploy.node.common import Refused
from derive.deploy.programs import COMMAND, EFFECTS, PACKAGE, payload, read_answer

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a node has its programs."""
NONCE = "6e6f6e6365"
CHANGES = ("mkdir", "open", "rename", "rmdir", "symlink", "unlink")
"""What changes which names are there: killed between two of these, the same is left behind as at the second."""


def do(effect: str, **given: Any) -> Any:
    """Do an effect in this process; what it refuses is raised as ``Refused``."""
    module = importlib.import_module(f"{PACKAGE}.{EFFECTS[effect]}")
    return getattr(module, effect.replace("-", "_"))(given)


def refused(effect: str, **given: Any) -> dict[str, Any]:
    """Do an effect that must be refused; returns the refusal."""
    try:
        done = do(effect, **given)
    except Refused as error:
        return error.answer
    raise AssertionError(done)


def answered(effect: str, **given: Any) -> Any:
    """Do an effect as a node does, in an interpreter that knows nothing but its own library; returns the answer."""
    ran = subprocess.run(
        ["/usr/bin/env", f"PATH={PATH}", *COMMAND],
        input=payload(effect, given, held=False),
        capture_output=True,
        check=False,
    )
    answer = read_answer(ran.stdout)
    assert answer is not None, ran.stderr.decode()
    return answer


def lease(folder: Path, nonce: str = NONCE, **more: Any) -> dict[str, Any]:
    """Take the lease of a folder; returns what every change shows."""
    owner = {**this_process("a test").document(), **more}
    do("lease-take", folder=str(folder), lease=nonce, owner=owner, seconds=60)
    return {"folder": str(folder), "lease": nonce}


def fence_of(folder: Path, nonce: str = NONCE) -> Fence:
    """Take the lease of a folder."""
    lease(folder, nonce)
    return Fence(folder=str(folder), nonce=nonce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an attempt that was killed left behind, and what is there after another: paths to contents or targets."""

    left: Mapping[str, str]
    after: Mapping[str, str]
    answer: Any


def killed_everywhere(effect: str, folder: Path, given: Mapping[str, Any]) -> list[Attempt]:
    """Kill an effect at each of its changes of a folder's copy, and do it again; the last one was not killed."""
    call = {"effect": effect, "folder": str(folder), "given": dict(given)}
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__],
        input=json.dumps(call),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return [Attempt(**one) for one in json.loads(done.stdout)]


def _main() -> None:
    call = json.load(sys.stdin)
    folder, whole = Path(call["folder"]), Path(f"{call['folder']}.whole")
    folder.rename(whole)
    attempts: list[dict[str, Any]] = []
    killed = True
    vars(os)["fsync"] = lambda _: None  # the disk itself is not what is lost here
    while killed:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder, symlinks=True)
        killed = _is_killed_at(len(attempts), call)
        left = _tree(folder)
        answer = do(call["effect"], **call["given"])
        attempts.append({"left": left, "after": _tree(folder), "answer": answer})
    sys.stdout.write(json.dumps(attempts))


def _is_killed_at(step: int, call: Mapping[str, Any]) -> bool:
    pid = os.fork()
    if pid == 0:
        _end_at(step)
        do(call["effect"], **call["given"])
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, status
    return status != 0


def _end_at(step: int) -> None:
    seen, opens = 0, os.open

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            if function is opens and not args[1] & os.O_CREAT:
                return function(*args, **kwargs)
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1
            return function(*args, **kwargs)

        return counted

    for name in CHANGES:
        setattr(os, name, wrapped(getattr(os, name)))


def _tree(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_bytes().decode("latin-1")
    return found


if __name__ == "__main__":
    _main()
