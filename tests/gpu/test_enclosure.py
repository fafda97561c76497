# SPDX-License-Identifier: Apache-2.0
"""The enclosure in which kernels boot needs no GPU: compilers are covered, the cache cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from derive.kernels.gpu.enclosure import is_compiler
from support.cli import SOURCES

_SCRIPT = """
import json, subprocess, sys
from pathlib import Path
from derive.kernels.gpu.enclosure import Enclosure
found = Enclosure.enter(cache=Path(sys.argv[1]), work=Path(sys.argv[2]))
called = [subprocess.run([one, "-c", "x.c"], capture_output=True).returncode for one in found.covered[:1]]
try:
    (found.cache / "new").touch()
    wrote = True
except OSError:
    wrote = False
print(json.dumps([found.read_only, found.works, len(found.covered), called, found.refused(), wrote]))
"""


def test_in_the_enclosure_nothing_compiles_and_the_cache_is_read_only(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    tools, cache = tmp_path / "tools", tmp_path / "cache"
    tools.mkdir()
    cache.mkdir()
    shutil.copyfile("/bin/true", tools / "nvcc")
    (tools / "nvcc").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCES)}
    words = [sys.executable, "-P", "-c", _SCRIPT, str(cache), str(tmp_path / "work")]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    read_only, works, covered, called, refused, wrote = json.loads(ran.stdout)
    if read_only == "modes":
        pytest.skip("this machine refuses a mount namespace")
    assert (read_only, works, wrote) == ("mount", True, False)
    assert covered >= 1
    assert called == [126]
    assert len(refused) == 1
    assert refused[0].endswith(" -c x.c")
    assert subprocess.run([tools / "nvcc"], check=False).returncode == 0  # outside, all is as it was


@pytest.mark.parametrize(
    "name",
    [
        "nvcc",
        "ptxas",
        "cicc",
        "gcc",
        "gcc-14",
        "x86_64-linux-gnu-gcc-14",
        "c++",
        "g++",
        "cc1plus",
        "clang-19",
        "ld.bfd",
        "as",
    ],
)
def test_a_compiler_is_known_by_its_name(name: str) -> None:
    assert is_compiler(name)


@pytest.mark.parametrize(
    "name", ["python3", "sh", "ldconfig", "nvidia-smi", "ld.so", "gccgo.txt", "case", "ccache-stats.log"]
)
def test_another_program_is_none(name: str) -> None:
    assert not is_compiler(name)
