# SPDX-License-Identifier: Apache-2.0
"""Nix beside the engine: its own programs, in a store of their own, where they do the same work.

Edge: processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from speed.measure import CannotMeasureError, Sample, command

_SETTINGS = """\
sandbox = true
build-users-group =
substituters =
sandbox-paths = /bin/sh=/bin/busybox
"""

_ONE = """\
derivation { name = "one"; system = builtins.currentSystem; builder = "/bin/sh"; args = [ "-c" "echo one > $out" ]; }
"""

_MANY = """\
let
  fetch = i: derivation {
    name = "fetch-${toString i}"; system = "x86_64-linux"; builder = "builtin:fetchurl"; url = "file:///${toString i}";
    outputHashMode = "flat"; outputHashAlgo = "sha256"; outputHash = builtins.hashString "sha256" (toString i);
  };
  unpack = i: derivation {
    name = "unpack-${toString i}"; system = "x86_64-linux"; builder = "/bin/sh"; args = [ "-c" "unpack" ];
    archive = fetch i;
  };
in derivation {
  name = "root"; system = "x86_64-linux"; builder = "/bin/sh"; args = [ "-c" "compose" ];
  parts = builtins.genList unpack COUNT;
}
"""


@dataclass(frozen=True, slots=True)
class Nix:
    """A private Nix: its settings, store and expressions lie below ``folder``."""

    folder: Path

    def build_one(self) -> Sample:
        """Build a derivation that writes a word; at once from the second time on."""
        return self._run("nix-build", "--no-out-link", self._file("one", _ONE))

    def instantiate(self, archives: int) -> Sample:
        """Instantiate that many fetches, as many derivations that use one each, and one that uses them all."""
        return self._run("nix-instantiate", self._file(f"many-{archives}", _MANY.replace("COUNT", str(archives))))

    def tree(self, archives: int) -> Callable[[], Sample]:
        """Instantiate as :meth:`instantiate` does, and return what prints the tree of all of it."""
        argv: list[str | Path] = ["nix-instantiate", "--store", self.folder / "store"]
        self.instantiate(archives)
        done = subprocess.run(
            [*argv, self.folder / f"many-{archives}.nix"],
            env=self._environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return lambda: self._run("nix-store", "--query", "--tree", done.stdout.strip())

    def instantiate_one(self) -> Sample:
        """Instantiate the derivation of :meth:`build_one`."""
        return self._run("nix-instantiate", self._file("one", _ONE))

    def add(self, files: Sequence[Path]) -> None:
        """Add files to the store, each as a path of its own that no root needs."""
        for start in range(0, len(files), 1000):
            self._run("nix-store", "--add", *files[start : start + 1000])

    def collect(self) -> Sample:
        """Collect everything that no root needs."""
        return self._run("nix-store", "--gc")

    def hash(self, folder: Path) -> Sample:
        """Hash a folder."""
        return command(["nix-hash", "--type", "sha256", folder], env=self._environment())

    def _run(self, program: str, *arguments: str | Path) -> Sample:
        return command([program, "--store", self.folder / "store", *arguments], env=self._environment())

    def _file(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.nix"
        if not path.exists():
            path.write_text(text)
        return path

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, "NIX_CONF_DIR": str(self.folder), "HOME": str(self.folder)}


def find_nix(folder: Path) -> Nix | str:
    """Set up a private Nix in a new folder, or return why there is none."""
    if shutil.which("nix-build") is None:
        return "not installed (Debian package nix-bin)"
    folder.mkdir()
    (folder / "nix.conf").write_text(_SETTINGS)
    nix = Nix(folder)
    try:
        nix.build_one()
    except CannotMeasureError as error:
        return f"cannot build here: {(error.detail or (error.message,))[-1]}"
    return nix
