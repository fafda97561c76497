# SPDX-License-Identifier: Apache-2.0
"""The lab for a person: up, a shell on a node, a command, down; and the whole list of what can go wrong.

    .venv/bin/python tests/lab/run.py up triangle        # or ring4; with --project the head has releases to deploy
    .venv/bin/python tests/lab/run.py shell spark1       # as the operator; --root
    .venv/bin/python tests/lab/run.py do spark2 docker ps
    .venv/bin/python tests/lab/run.py derive status      # on the head, in its project
    .venv/bin/python tests/lab/run.py down

Edge: processes, namespaces, standard streams; needs root.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(CHECKOUT / folder) for folder in ("tests", "bench/engine", "src")]

from derive.cli.console import store_folder  # noqa: E402 - found in the folders above
from lab.everything import CABLINGS, RELEASES, run_all, run_here, starve, write_record  # noqa: E402 - found in the folders above
from lab.places import HostKind  # noqa: E402
from lab.project import make_project  # noqa: E402
from lab.scenarios import SCENARIOS  # noqa: E402
from lab.testbed import LabError, attached, end, lab, why_unavailable  # noqa: E402
from speed.machine import load  # noqa: E402


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/lab/run.py")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up")
    up.add_argument("cabling", choices=("triangle", "ring4"))
    up.add_argument(
        "--store", type=Path, help="one that holds the image probe (default: $DERIVE_STORE, else the user's)"
    )
    up.add_argument(
        "--containerd", action="append", default=[], metavar="NODE", help="its engine has the containerd store"
    )
    up.add_argument("--plain", action="append", default=[], metavar="NODE", help="it has no systemd")
    up.add_argument("--project", action="store_true", help="releases of the recipe probe, and a site file, on the head")
    shell = commands.add_parser("shell")
    shell.add_argument("node")
    shell.add_argument("--root", action="store_true")
    do = commands.add_parser("do")
    do.add_argument("node")
    do.add_argument("argv", nargs=argparse.REMAINDER)
    derive = commands.add_parser("derive")
    derive.add_argument("argv", nargs=argparse.REMAINDER)
    for name in ("kill", "boot", "starve", "feed", "fill", "empty", "drop-ssh", "break-ssh", "mend-ssh"):
        commands.add_parser(name).add_argument("node")
    for name in ("cut", "mend"):
        cable = commands.add_parser(name)
        cable.add_argument("node")
        cable.add_argument("other")
    commands.add_parser("down")
    everything = commands.add_parser("all", help="run every scenario, or those named, and record a whole run")
    everything.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    everything.add_argument("--cabling", choices=("triangle", "ring4"), action="append", default=[])
    everything.add_argument("--store", type=Path, help="default: $DERIVE_STORE, else the user's")
    everything.add_argument("--here", action="store_true", help="at the lab that is up with --project; not recorded")
    everything.add_argument("--list", action="store_true", help="print what there is, and run nothing")
    return parser.parse_args()


def _up(args: argparse.Namespace) -> None:
    if (reason := why_unavailable()) is not None:
        raise LabError(reason)
    kinds = {
        name: HostKind(
            init="tini" if name in args.plain else "systemd",
            images="containerd" if name in args.containerd else "overlay2",
        )
        for name in {*args.plain, *args.containerd}
    }
    store = store_folder(args)
    with lab(args.cabling, store=store if store.exists() else None, kinds=kinds, stays=True) as made:
        if args.project:
            make_project(made, RELEASES)
        _say(f"{', '.join(made.names)} are up; the head is {made.head}")


def _all(args: argparse.Namespace) -> int:
    if args.list:
        _answer("\n".join(f"{one.name:<28}{'/'.join(one.cablings):<17}{one.says}" for one in SCENARIOS))
        return 0
    if (reason := why_unavailable()) is not None:
        raise LabError(reason)
    before = load()
    store = store_folder(args)
    whole = not (args.scenarios or args.cabling or args.here)
    # First, while nothing else takes this machine's processors: its times are what is measured.
    guards = starve(store) if whole else None
    outcomes = run_here(args.scenarios) if args.here else run_all(args.scenarios, args.cabling or CABLINGS, store)
    for out in outcomes:
        word = "passed" if out.why is None else "failed"
        _answer(f"{out.cabling:<10}{out.scenario.name:<28}{word:<8}{out.duration_ns / 1e9:8.1f} s")
    good = all(out.why is None for out in outcomes)
    if guards is not None:
        for interval, found in guards["intervals"].items():
            spread = f"99th percentile {found['p99_ms']} ms of {found['limit_ms']} ms"
            _answer(f"guards    every {interval} s{'':<17}{'passed' if found['good'] else 'failed':<8}{spread}")
        _answer(write_record(outcomes, guards, before).relative_to(CHECKOUT).as_posix())
        good = good and bool(guards["good"])
    return int(not good)


def _answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"lab: {text}\n")


def _act(args: argparse.Namespace) -> int:
    if args.command == "up":
        _up(args)
        return 0
    if args.command == "all":
        return _all(args)
    made = attached()
    match args.command:
        case "down":
            end(made)
        case "shell":
            return made.shell(args.node, user="root" if args.root else "operator")
        case "do":
            return subprocess.run(made.hosts[args.node].inside(args.argv), check=False).returncode
        case "derive":
            return subprocess.run(made.derive_argv(*args.argv), check=False).returncode
        case "cut" | "mend":
            getattr(made, args.command)(args.node, args.other)
        case name:
            getattr(made, name.replace("-", "_"))(args.node)
    return 0


def main() -> int:
    """Run one command."""
    # Commands that are started get Ctrl-C as scenarios send it, also where this one was started in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _act(_arguments())
    except LabError as error:
        _say(str(error))
        return 3


if __name__ == "__main__":
    sys.exit(main())
