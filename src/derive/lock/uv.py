# SPDX-License-Identifier: Apache-2.0
"""uv as a resolver: one target at a time, its answer read as pylock, its preferences the versions already locked.

Edge: uv as a subprocess, a scratch folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.errors import HostRefuses, InputErrors, Problem, Unavailable
from derive.lock.tags import MACHINES
from derive.lock.wishes import PythonWish
from derive.net.places import Mirror, hide_credentials

if TYPE_CHECKING:
    from packaging.pylock import Package

_KEPT_VARIABLES = frozenset(
    {"UV_CACHE_DIR", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES", "UV_KEYRING_PROVIDER"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One Python (``3.13``) on one architecture."""

    python: str
    architecture: str


def find_uv() -> Path:
    """Return where uv is: beside this interpreter, else on the path; raises HostRefuses."""
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise HostRefuses("locking a Python set needs uv, which is not installed", hint="pip install uv")
    return Path(found)


def uv_platform(uv: Path, architecture: str, glibc: str) -> str:
    """Return the newest platform that this uv knows and that the target's glibc is not older than."""
    shown = _run([str(uv), "pip", "compile", "--help"], Path.cwd()).stdout
    machine = MACHINES[architecture]
    known = {int(minor) for minor in re.findall(rf"\b{machine}-manylinux_2_(\d+)\b", shown)}
    fitting = [minor for minor in known if minor <= int(glibc.partition(".")[2])]
    if not fitting:
        raise HostRefuses(f"this uv knows no platform for glibc {glibc} on {architecture}", hint="install a newer uv")
    return f"{machine}-manylinux_2_{max(fitting)}"


def compile_target(
    wish: PythonWish, target: Target, *, where: str, indices: Sequence[Mirror], preferred: Mapping[str, str]
) -> Sequence[Package]:
    """Resolve a wish for one target. ``preferred``: project -> version to keep where that is possible.

    Raises:
        InputErrors: when there is no solution.
        Unavailable: when uv could not finish.
    """
    from packaging.pylock import Pylock, PylockValidationError

    uv = find_uv()
    with tempfile.TemporaryDirectory(prefix="derive-uv-") as scratch:
        folder = Path(scratch)
        _write_inputs(folder, wish, preferred)
        command = [str(uv), "pip", "compile", "requirements.in", *_options(wish, uv, target, indices)]
        done = _run(command, folder)
        if done.returncode != 0:
            raise _failed(done, f"{where}: requirements", target)
        try:
            return Pylock.from_dict(tomllib.loads((folder / "pylock.toml").read_text(encoding="utf-8"))).packages
        except (PylockValidationError, tomllib.TOMLDecodeError, OSError) as error:
            raise Unavailable(f"uv's answer cannot be read: {error}", hint="install another version of uv") from error


def _options(wish: PythonWish, uv: Path, target: Target, indices: Sequence[Mirror]) -> list[str]:
    # Of mirrors with the same contents the first is asked; indices with contents of their own are asked as well.
    main = next((mirror.url for mirror in indices if not mirror.extra), None)
    extra = [mirror.url for mirror in indices if mirror.extra]
    chosen = ["--default-index", main or extra[0]]
    for url in extra if main else extra[1:]:
        chosen += ["--index", url]
    return [
        "--no-config",
        "--quiet",
        "--no-header",
        "--no-annotate",
        "--color=never",
        "--format=pylock.toml",
        "--output-file=pylock.toml",
        "--only-binary=:all:",
        "--override=overrides.txt",
        f"--exclude-newer={wish.exclude_newer}",
        f"--python={sys.executable}",
        f"--python-version={target.python}",
        f"--python-platform={uv_platform(uv, target.architecture, wish.glibc)}",
        *chosen,
    ]


def _write_inputs(folder: Path, wish: PythonWish, preferred: Mapping[str, str]) -> None:
    requirements = "".join(f"{line}\n" for line in sorted(wish.requirements))
    (folder / "requirements.in").write_text(requirements, encoding="utf-8")
    overrides = "".join(f"{name}=={item.version}\n" for name, item in sorted(wish.overrides.items()))
    (folder / "overrides.txt").write_text(overrides, encoding="utf-8")
    if preferred:
        # uv keeps the versions of an output that is there already, where it can.
        packages = "".join(
            f'[[packages]]\nname = "{name}"\nversion = "{version}"\nwheels = []\n\n'
            for name, version in sorted(preferred.items())
        )
        text = f'lock-version = "1.0"\ncreated-by = "spark-derive"\n\n{packages}'
        (folder / "pylock.toml").write_text(text, encoding="utf-8")


def _failed(done: subprocess.CompletedProcess[str], where: str, target: Target) -> InputErrors | Unavailable:
    lines = [hide_credentials(line) for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    subject = f"Python {target.python} on {target.architecture}"
    if "No solution found" in done.stderr:
        problem = Problem(where=where, message=f"no solution for {subject}", detail=tuple(lines[:30]))
        return InputErrors([problem])
    return Unavailable(f"uv could not resolve {where} for {subject}", detail=lines[-30:])


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("UV_") or key in _KEPT_VARIABLES}
    environ = {"UV_HTTP_TIMEOUT": "120", **kept, "LC_ALL": "C.UTF-8", "COLUMNS": "200"}
    return subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
