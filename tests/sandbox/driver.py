# SPDX-License-Identifier: Apache-2.0
"""An engine process for the sandbox tests: reads a question, runs its script, prints lines and outcome.

Edge: runs a sandbox.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from derive.sandbox.probe import find_sandbox
from derive.sandbox.request import Program, RootEntry, RootFile, RootFolder, RootLink, SandboxRequest, Script
from derive.sandbox.scratch import scratch_folders
from derive.sandbox.spec import sandbox_spec


def top_level(root: Path) -> tuple[RootEntry, ...]:
    """Return a root's top level from disk."""
    found: list[RootEntry] = []
    for path in sorted(root.iterdir()):
        name = os.fsencode(path.name)
        if path.is_symlink():
            found.append(RootLink(name=name, target=os.fsencode(path.readlink())))
        elif path.is_dir():
            found.append(RootFolder(name=name, empty=not any(path.iterdir())))
        else:
            found.append(RootFile(name=name))
    return tuple(found)


def main() -> None:
    """Answer one question."""
    question = json.load(sys.stdin)
    script, marker = question["script"], question["marker"]
    command = Script(text=script) if marker is None else Program(argv=("/bin/sh", "-euc", script, marker))
    sandbox = find_sandbox()
    root = Path(question["root"])
    with scratch_folders(Path(question["place"])) as scratch:
        request = SandboxRequest(
            root=os.fsencode(root),
            root_entries=top_level(root),
            inputs={"src": os.fsencode(root)},
            work=os.fsencode(scratch.work),
            out=os.fsencode(scratch.out),
            devices=None if scratch.devices is None else os.fsencode(scratch.devices),
            command=command,
            environment={},
            jobs=2,
        )
        if marker is not None:
            say("about to run")
        outcome = sandbox.run(sandbox_spec(request), log=lambda line: say(line.decode(errors="replace")), timeout_s=30)
    say(str(outcome))


def say(line: str) -> None:
    """Pass a line to the test at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
