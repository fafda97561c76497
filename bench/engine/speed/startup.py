# SPDX-License-Identifier: Apache-2.0
"""How long commands take that have nothing to do.

Edge: processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from speed.measure import CannotMeasureError, Sample, command
from speed.measure import interleaved as take
from speed.nix import Nix, find_nix
from speed.scratch import Bench
from speed.table import AtMost, Row, Time, median_time

GROUP = "start-up"
_ROUNDS = 15
_VERSION_NS = 80_000_000
_NOTHING_NS = 250_000_000


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure ``--version`` and an image that is derived already, beside Python alone and beside Nix."""
    derive = Path(sys.executable).with_name("derive")
    version: list[str | Path] = [derive, "--version"]
    image: list[str | Path] = [derive, "image", setting.name]
    env = {**os.environ, "DERIVE_STORE": str(setting.store)}

    def python(code: str) -> Callable[[], Sample]:
        return lambda: command([sys.executable, "-c", code])

    cases = {
        "version": lambda: command(version),
        "image": lambda: command(image, env=env, cwd=setting.root),
        "pass": python("pass"),
        "argparse": python("import argparse"),
    }
    nix = find_nix(setting.new_path("nix"))
    match nix:
        case Nix():
            cases |= {"nix-build": nix.build_one, "nix-instantiate": nix.instantiate_one}
        case reason:
            note(f"nix: {reason}")
    for case in cases.values():
        case()  # once untimed: byte code, page cache, memo
    taken = take(cases, max(setting.rounds, _ROUNDS))
    for argv in (version, image):
        note(f"pydantic imported by `{_words(argv)}`: {'yes' if _imports(argv, env, setting.root) else 'no'}")

    def row(name: str, what: str, beside: str, other: str, target: AtMost | None = None) -> Row:
        times = taken[name].wall_ns
        return Row(
            group=GROUP,
            what=what,
            amount=median_time(times),
            beside=beside,
            other=median_time(taken[other].wall_ns),
            target=target,
            samples=times,
        )

    alone = "python -c pass"
    rows = [
        row("argparse", "python -c 'import argparse'", alone, "pass"),
        row("version", "derive --version", alone, "pass", AtMost(Time(_VERSION_NS))),
        row("image", f"derive image {setting.name}, nothing to do", alone, "pass", AtMost(Time(_NOTHING_NS))),
    ]
    if isinstance(nix, Nix):
        what = f"derive image {setting.name}, nothing to do"
        rows.append(row("image", what, "nix-build, built already", "nix-build"))
        rows.append(row("version", "derive --version", "nix-instantiate of one", "nix-instantiate"))
    return rows


def _words(argv: list[str | Path]) -> str:
    return " ".join(part.name if isinstance(part, Path) else part for part in argv)


def _imports(argv: list[str | Path], env: dict[str, str], cwd: Path) -> bool:
    """Say whether a command of ours imports pydantic."""
    traced = [sys.executable, "-X", "importtime", *argv]
    done = subprocess.run(traced, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMeasureError(f"{_words(argv)}: exit code {done.returncode}", detail=done.stderr.splitlines()[-5:])
    return any(line.rpartition("|")[2].strip().partition(".")[0] == "pydantic" for line in done.stderr.splitlines())
