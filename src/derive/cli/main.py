# SPDX-License-Identifier: Apache-2.0
"""The ``derive`` command: finds the command's module, runs it, and turns errors into words and exit codes.

Edge: arguments, standard streams, signals. Only the module of the command at hand is imported.
"""

from __future__ import annotations

import os
import sys

from derive import __version__

TYPE_CHECKING = False  # that of the module typing, whose import an interrupt would find without a handler
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

COMMANDS = {
    "image": "derive an image and print its digest",
    "build": "derive one derivation and print its output",
    "plan": "say what would be fetched, built and reused, and why",
    "verify": "verify an image without running it",
    "show": "show a derivation, image, tree or the project",
    "log": "print the log of a build",
    "executors": "list who may run steps beside this machine, and how they stand",
    "lock": "resolve wishes to locks; say what moved",
    "store": "check, collect, measure and move what the store holds",
    "dev": "derive an image with a work tree laid over it, for trying an edit",
    "shell": "enter the sandbox that a derivation is built in",
    "why": "say why something was built, is needed, or became something else",
    "bisect": "find the smallest set of edits that flips a command's verdict",
    "sbom": "print what an image is made of, as a bill of materials",
    "provenance": "print how an image came to be, for signing or reading",
    "release": "derive a recipe's images, and write down the release that they are",
    "releases": "list the shapes of releases that may be deployed",
    "records": "show, check and add records of releases; lay a release out as a project",
    "attest": "sign bill and provenance and attach them to an image; check those that are there",
    "certify": "certify a release that was derived here; count the builders who certified it",
    "promote": "promote a release for a shape, with all that is asked of it",
    "key": "make, list, show and revoke keys that sign what leaves a store",
    "push": "push an image into a registry, and read it back",
    "pull": "pull an image from a registry into the store",
    "cache": "share outputs with other machines by a registry: push, pull, and see who vouches for what",
    "export": "write an image as a Dockerfile, for people who do without derive",
    "capsule": "pack a release with everything it derives from; say how much of one could be derived today",
    "audit": "derive a release again from nothing, with the engine that made it, and compare",
    "diff": "say what moved between two derivations, images, trees, shapes, recipes or sites",
    "render": "print or write the files that start a shape of a recipe on each node",
    "status": "say what each node of the site runs, whether that is as it should be, and what to do next",
    "logs": "print what a node's container wrote, or what was kept of one that failed",
    "supervise": "watch a service: a rank's death stops all ranks, and restarts them within a budget",
    "drift": "compare what runs with the release that is said to run",
    "deploy": "deploy a release to the nodes of a site: the plan, and with --apply the deed",
    "rollback": "deploy again what last ran well before",
    "stop": "stop a service on all nodes of a site",
    "schema": "show the options and variables that an image takes; read them anew from its sources",
    "patches": "read, judge and change the patches that the project carries",
    "kernels": "list, build, check, compare and measure the kernels",
    "import": "turn another deployment's cluster file and node map into a recipe and a site",
    "prove": "say what a node's launch files follow from, and render them again to the same bytes",
    "fabric": "draw a site's cabling, and plan what collectives move over it",
    "site": "write, show and check the site: machines and cables, in a file outside the project",
    "tuning": "show and make tuning profiles of NCCL and of small collectives",
    "doctor": "check project, recipes, fabric and site before anything is built or launched",
    "memory": "predict what a shape takes of each rank's memory, and whether it fits",
    "engine": "say by what derive itself is known, derive it, and run exactly that",
    "init": "start a project that derives",
    "completion": "print a shell completion script",
}
"""Command name, which is its module's name here, to its one line of help."""

TAKE_WORDS = frozenset({"bisect", "capsule", "engine", "shell"})
"""Commands after whose ``--`` another command line stands."""

_INTERRUPTED = 130

EXIT_CODES = """\
exit codes:
  0    done, or yes
  1    no: something differs, or a check found something
  2    wrong usage or input
  3    could not be done: upstream, host, network, space, a failed build
  130  interrupted
"""

_EXAMPLES = """\
examples:
  derive image                 the project's default image, for the platform that its file names
  derive image probe --check   the same, each step built again and compared
  derive plan probe            what that would fetch and build

"""


def console() -> None:
    """Entry point of the installed command."""
    _leave_when_interrupted()
    import gc

    _open_standard_descriptors()
    # Most commands end before they leave cycles behind: looking for those that often is a tenth of their time.
    gc.set_threshold(50_000)
    code = main(sys.argv[1:])
    threads = sys.modules.get("threading")
    if code == _INTERRUPTED or (threads is not None and threads.active_count() > 1):
        # A transfer that was given up still waits for its host, and the interpreter would wait for it. And it would end
        # by the signal, and not with a code, where Ctrl-C came while text was executed, as each dataclass is made.
        _flush()
        os._exit(code)
    sys.exit(code)


def _leave_when_interrupted() -> None:
    """End at once on Ctrl-C and TERM: while modules are imported, and after a command, nothing is half done."""
    # What the module signal is made of: that one takes milliseconds to import, in which Ctrl-C printed a traceback.
    import _signal  # type: ignore[import-not-found]

    for number, usual in ((_signal.SIGINT, _signal.default_int_handler), (_signal.SIGTERM, _signal.SIG_DFL)):
        if _signal.getsignal(number) == usual:  # whoever has it ignored, as nohup does, means that
            _signal.signal(number, lambda *_: os._exit(_INTERRUPTED))


def _open_standard_descriptors() -> None:
    """Where a standard stream is closed, put nothing in its place: else the next file opened would be that stream."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            if descriptor == 2:
                sys.stderr = os.fdopen(descriptor, "w", closefd=False)


def _flush() -> None:
    import contextlib

    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):
            stream.flush()


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    if list(argv) in (["--version"], ["-V"]):
        # Before argparse, whose import costs more than all else.
        try:
            print(f"derive {__version__}", flush=True)  # noqa: T201 - the answer
        except OSError as error:
            return _stopped_by(error)
        return 0
    from derive.cli.console import guarded

    return guarded(lambda: _run(argv))


def _stopped_by(error: OSError) -> int:
    from derive.cli.console import guarded

    def again() -> int:
        raise error

    return guarded(again)


def _run(argv: Sequence[str]) -> int:
    own, words = _parted(argv)
    parser = make_parser(own)
    args = parser.parse_args(own)
    args.words = words
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    from importlib import import_module

    return int(import_module(f"derive.cli.{args.command}").run(args))


def _parted(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Cut off the command line that stands after ``--``, where the command takes one."""
    if "--" not in argv or next((word for word in argv if word in COMMANDS), None) not in TAKE_WORDS:
        return argv, ()
    at = list(argv).index("--")
    return argv[:at], argv[at + 1 :]


def make_parser(argv: Sequence[str] | None) -> argparse.ArgumentParser:
    """Build the parser; with arguments given, only the command among them is declared in full."""
    import argparse
    from importlib import import_module

    from derive.cli.options import common_options

    common = common_options()
    parser = argparse.ArgumentParser(
        prog="derive",
        description="Derive OCI images, bit for bit, from what is written down.",
        epilog=_EXAMPLES + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"derive {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    # Others are listed where no command stands first, and asked for help is the parser of all.
    wanted = {argv[0]: COMMANDS[argv[0]]} if argv and argv[0] in COMMANDS else COMMANDS
    for name, text in wanted.items():
        if argv is not None and name not in argv:
            commands.add_parser(name, help=text, add_help=False)
            continue
        module = import_module(f"derive.cli.{name}")
        command = commands.add_parser(
            name,
            help=text,
            description=(module.__doc__ or "").split("\n", 1)[0],
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[common],
            allow_abbrev=False,
        )
        module.add_arguments(command)
    return parser
