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
from derive.sandbox.request import RootEntry, RootFile, RootFolder, RootLink, SandboxRequest, Script
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
    root = Path(question["root"])
    with scratch_folders(Path(question["place"])) as scratch:
        request = SandboxRequest(
            root=os.fsencode(root),
            root_entries=top_level(root),
            inputs={"src": os.fsencode(root)},
            work=os.fsencode(scratch.work),
            out=os.fsencode(scratch.out),
            devices=None if scratch.devices is None else os.fsencode(scratch.devices),
            command=Script(text=question["script"]),
            environment={},
            jobs=2,
        )
        outcome = find_sandbox().run(
            sandbox_spec(request),
            log=lambda line: print(line.decode(errors="replace"), flush=True),  # noqa: T201 (its protocol)
            timeout_s=question["timeout_s"],
        )
    print(outcome, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
