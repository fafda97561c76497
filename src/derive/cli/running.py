# SPDX-License-Identifier: Apache-2.0
"""How steps are run, as the commands that derive let a person say it: on what, from where, and what is left behind.

Edge: the command line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from derive.cli.console import jobs_of, project_root
from derive.cli.options import executor_option, no_cache_option, on_option
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from derive.build.service import Options


def running_options(parser: argparse.ArgumentParser) -> None:
    """Declare how steps are run."""
    parser.add_argument("--keep-failed", action="store_true", help="keep a failed script's folders for derive shell")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    no_cache_option(parser)
    executor_option(parser)
    on_option(parser)


def running_of(args: argparse.Namespace) -> Options:
    """Return what :func:`running_options` took."""
    return replace(
        options_of(args),
        keep_failed=args.keep_failed,
        executor=args.executor,
        on=tuple(args.on),
        no_cache=args.no_cache,
    )


def options_of(args: argparse.Namespace) -> Options:
    """Return what every command that derives has: jobs, whether it is offline, and the project, where there is one."""
    from derive.build.service import Options

    return Options(jobs=jobs_of(args), root=root_of(args), offline=getattr(args, "offline", False))


def root_of(args: argparse.Namespace) -> Path | None:
    """Return the project's folder; None where there is none, which is told by what needs one."""
    try:
        return project_root(args)
    except InputErrors:
        return None
