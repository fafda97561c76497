# SPDX-License-Identifier: Apache-2.0
"""Say by what the engine itself is known, derive it as a root of its own, and run exactly that over a project.

Edge: the store, the sandbox, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_root, store_folder, table, wants_json
from derive.cli.running import options_of
from derive.errors import InputErrors
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from derive.canonical import Json
    from derive.derivations.model import Platform, TreeOutput

EXAMPLES = """\
  derive engine                          version, source and derivation: what a release's document names
  derive engine --build                  derive it, and print its tree
  derive engine run -- image probe       run exactly that engine over this project
  derive engine run --network -- image probe
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.usage = "%(prog)s [options] [run -- ARGUMENT ...]"
    parser.add_argument("action", nargs="?", choices=("run",), help="run it, with the arguments after --")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: that of this machine")
    parser.add_argument("--build", action="store_true", help="derive it where the store does not have it")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    parser.add_argument(
        "--network", action="store_true", help="let an engine that runs reach what this machine reaches"
    )


def run(args: argparse.Namespace) -> int:
    """Say, derive or run."""
    from derive.engine.derivation import engine_derivation
    from derive.engine.service import own_platform
    from derive.engine.source import engine_files

    if args.action == "run":
        return _run(args)
    platform, files = args.platform or own_platform(), engine_files()
    derivation = engine_derivation(files, platform).id.hex
    body: dict[str, Json] = {"platform": platform, "derivation": derivation, "output": None, **_known_by(files)}
    if args.build:
        with LocalStore(store_folder(args)) as store:
            body["output"] = str(_derived(args, files, platform, store))
    if wants_json(args):
        answer_record("engine", "derive", body)
    else:
        answer(table([(name, str(value)) for name, value in sorted(body.items()) if value is not None]))
    return 0


def _known_by(files: Mapping[str, bytes]) -> dict[str, Json]:
    from derive.engine.model import source_of

    source = source_of(files)
    return {"version": source.version, "source": f"nar:{source.nar}", "digest": str(source.digest)}


def _derived(args: argparse.Namespace, files: Mapping[str, bytes], platform: Platform, store: LocalStore) -> TreeOutput:
    from derive.cli.progress import progress_for_stderr
    from derive.engine.service import derive_engine

    options = options_of(args)
    return derive_engine(files, platform, store, options, progress_for_stderr())


def _run(args: argparse.Namespace) -> int:
    """Run the engine of this machine, and end as it ends."""
    from derive.engine.outer import run as run_outer
    from derive.engine.reach import own_network
    from derive.engine.service import local_archive, own_platform
    from derive.engine.source import engine_files
    from derive.lock.mirrors import SystemMirrors

    if not args.words:
        raise InputErrors.one("nothing to run", hint="give arguments of derive: derive engine run -- image NAME")
    here = own_platform()
    if args.platform not in (None, here):
        raise InputErrors.one(f"this machine runs engines of {here} alone", where=f"--platform {args.platform}")
    project, place, mirrors = project_root(args), store_folder(args), SystemMirrors()
    with LocalStore(place) as store:  # open while it runs: nothing collects the root meanwhile
        root = store.folder(_derived(args, engine_files(), here, store).digest)
        return run_outer(
            root,
            args.words,
            project,
            place,
            None,
            local_archive(mirrors),
            network=own_network(mirrors) if args.network else None,
        )
