# SPDX-License-Identifier: Apache-2.0
"""Runs the command line as a person would: another process, its own environment, exit code and both streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
SOURCES = CHECKOUT / "src"

_SHUFFLED = """
import os, random, sys
_scandir, _listdir = os.scandir, os.listdir
class Shuffled:
    def __init__(self, path): self._inner = _scandir(path); self._left = None
    def __iter__(self):
        entries = list(self._inner); random.shuffle(entries); return iter(entries)
    def __next__(self):
        if self._left is None: self._left = iter(self)
        return next(self._left)
    def __enter__(self): return self
    def __exit__(self, *_): self._inner.close()
    def close(self): self._inner.close()
def listdir(path='.'):
    names = _listdir(path); random.shuffle(names); return names
os.scandir, os.listdir = lambda path='.': Shuffled(path), listdir
from derive.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> str:
        """Standard output of a command that must have succeeded."""
        assert self.code == 0, f"exit code {self.code}\n{self.err}"
        return self.out.strip()


def command(*arguments: str, shuffled: bool = False, python: str = sys.executable) -> list[str]:
    """Return the argv of a derive command; ``shuffled`` lists folders in random order."""
    start = ["-c", _SHUFFLED] if shuffled else ["-m", "derive"]
    return [python, "-P", *start, *arguments]


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment with changes; the sources are found wherever the command runs."""
    return {**os.environ, "PYTHONPATH": str(SOURCES), **(changes or {})}


def derive(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path = CHECKOUT,
    shuffled: bool = False,
    before: Sequence[str] = (),
    python: str = sys.executable,
    timeout_s: float = 540,
) -> Ran:
    """Run a derive command; ``before`` is put in front of it, such as setpriv with its options."""
    done = subprocess.run(
        [*before, *command(*arguments, shuffled=shuffled, python=python)],
        env=environment(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
