# SPDX-License-Identifier: Apache-2.0
"""Enter the sandbox that a derivation is built in, with its root, inputs, variables and script.

Edge: the store, the sandbox, standard streams.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.console import note, project_of, store_folder
from derive.cli.running import options_of
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive shell perftest                       its inputs are below /in, its script is /in/.derive-script
  derive shell perftest --failed              where a build with --keep-failed left off
  derive shell perftest -- gcc --version      one command instead of a shell
  derive shell perftest-patched --root toolchain
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="a name declared in derivations/")
    parser.usage = "%(prog)s [options] NAME [-- COMMAND ...]"
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: the build platform")
    parser.add_argument("--root", metavar="NAME", help="a derivation with a shell, instead of the one's own root")
    parser.add_argument("--failed", action="store_true", help="the folders that a failed build kept (--keep-failed)")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")


def run(args: argparse.Namespace) -> int:
    """Enter, and end as what ran in it ends."""
    from derive.build.service import evaluate
    from derive.build.shell import enter_sandbox
    from derive.cli.progress import progress_for_stderr

    project = project_of(args)
    target = evaluate(project, args.name, args.platform)
    root = None if args.root is None else evaluate(project, args.root, project.settings.build_platform)
    options = options_of(args)
    with LocalStore(store_folder(args)) as store:
        status = enter_sandbox(
            target,
            store,
            options,
            progress_for_stderr(),
            command=args.words,
            root=root,
            kept=args.failed,
            terminal=os.environ.get("TERM"),
        )
    if status and not args.words:
        note(f"the shell ended with status {status}")
    return status
