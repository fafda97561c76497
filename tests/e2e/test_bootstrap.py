# SPDX-License-Identifier: Apache-2.0
"""The two commands' set-up, run for real on a tiny checkout: one requirement and a stand-in for the engine."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.require import skip_or_fail

ROOT = Path(__file__).parents[2]
DEADLINE = 240

Made = tuple[Path, subprocess.CompletedProcess[str]]

PYPROJECT = """\
[build-system]
requires = ["flit_core"]
build-backend = "flit_core.buildapi"
[project]
name = "tiny"
dynamic = ["version", "description"]
[project.scripts]
derive = "derive:main"
[tool.flit.module]
name = "derive"
"""

ENGINE = '''\
"""A stand-in for the engine, which says how it was called."""
import os
import sys
__version__ = "1"
def main() -> None:
    print(*sys.argv[1:], os.environ.get("PYTHONPATH"), sep="|")
'''


def write_checkout(folder: Path) -> Path:
    """Make a checkout whose only requirement is what builds it, pinned as the real one pins it."""
    (folder / "tools").mkdir(parents=True)
    (folder / "src/derive").mkdir(parents=True)
    shutil.copy(ROOT / "tools/bootstrap", folder / "tools/bootstrap")
    shutil.copy(ROOT / "Makefile", folder / "Makefile")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "src/derive/__init__.py").write_text(ENGINE)
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(("flit-core==", "flit_core==")))
    last = next(i for i in range(first, len(lines)) if not lines[i].endswith("\\"))
    (folder / "requirements.txt").write_text("\n".join(lines[first : last + 1]) + "\n")
    return folder


def write_fake_python(file: Path, version: tuple[int, int, int]) -> None:
    """Write a Python that answers as another version."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pretend = f'import sys; sys.version_info = (*{version}, "final", 0); exec(sys.argv[2])'
    file.write_text(f"#!/bin/sh\nexec '{os.path.realpath(sys.executable)}' -c '{pretend}' \"$@\"\n")
    file.chmod(0o755)


OUTER = {"CI", "DERIVE_PYTHON", "VIRTUAL_ENV", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}


def environment(**changes: str) -> dict[str, str]:
    """Return this environment with changes, without what the set-up reads."""
    return {k: v for k, v in os.environ.items() if k not in OUTER} | changes


def bootstrap(checkout: Path, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command or ("tools/bootstrap",),
        cwd=checkout,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def start(checkout: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["tools/bootstrap"],
        cwd=checkout,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def works(checkout: Path) -> bool:
    return bootstrap(checkout, ".venv/bin/derive").returncode == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A checkout after `make image`, where much in the environment would have led the set-up astray."""
    checkout = write_checkout(tmp_path_factory.mktemp("made") / "check out")
    write_fake_python(checkout / "bin/python3", (3, 14, 0))
    (checkout / "constraint.txt").write_text("flit_core<1\n")
    command = "umask 077; exec make image IMAGE='a name'"
    done = bootstrap(
        checkout,
        "sh",
        "-c",
        command,
        PATH=f"{checkout}/bin:{os.environ['PATH']}",
        LC_ALL="tr_TR.UTF-8",
        IMAGE="another",
        PYTHONHOME="/nowhere",
        PYTHONPATH="/nowhere",
        PIP_CONSTRAINT=str(checkout / "constraint.txt"),
        PIP_REQUIRE_VIRTUALENV="1",
        PIP_TARGET=str(checkout / "elsewhere"),
        PIP_USER="1",
    )
    return checkout, done


@pytest.mark.network
def test_make_image_prints_only_what_the_engine_prints(made: Made) -> None:
    _, done = made
    assert (done.returncode, done.stdout) == (0, "image|a name|None\n"), done.stderr


@pytest.mark.network
def test_another_users_python_and_pip_settings_do_not_lead_astray(made: Made) -> None:
    checkout, done = made
    assert done.returncode == 0, done.stderr
    assert not (checkout / "elsewhere").exists()
    assert (checkout / ".venv/bin/derive").stat().st_mode & 0o055 == 0o055
    assert (checkout / ".venv").stat().st_mode & stat.S_IROTH


@pytest.mark.network
def test_an_unsupported_python3_on_path_gives_way_to_a_supported_one(made: Made) -> None:
    checkout, _ = made
    version = bootstrap(checkout, ".venv/bin/python", "-V").stdout
    assert version.startswith(("Python 3.11.", "Python 3.12.", "Python 3.13."))


@pytest.mark.network
def test_a_second_run_is_quick_and_says_nothing(made: Made) -> None:
    checkout, _ = made
    seconds = []
    for _ in range(3):
        begun = time.monotonic()
        done = bootstrap(checkout)
        seconds.append(time.monotonic() - begun)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert min(seconds) < 1


@pytest.mark.network
def test_two_at_once_make_it_once_also_where_the_checkout_was_moved(made: Made, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(made[0], moved, symlinks=True)
    both = [start(moved), start(moved)]
    said = [process.communicate(timeout=DEADLINE) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum(words.count("making .venv") for _, words in said) == 1
    assert works(moved)


@pytest.mark.network
def test_one_that_was_refused_other_bytes_or_was_killed_is_done_again(tmp_path: Path) -> None:
    checkout = write_checkout(tmp_path / "checkout")
    requirements = checkout / "requirements.txt"
    pinned = requirements.read_text()
    requirements.write_text(f"{pinned.split()[0]} --hash=sha256:{'0' * 64}\n")
    refused = bootstrap(checkout)
    assert refused.returncode == 3
    assert "0" * 64 in refused.stderr
    assert not (checkout / ".venv/.stamp").exists()

    requirements.write_text(pinned)
    (checkout / ".venv/pyvenv.cfg").unlink()
    process = start(checkout)
    while not (checkout / ".venv/pyvenv.cfg").exists() and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == -signal.SIGKILL
    assert not (checkout / ".venv/.stamp").exists()

    done = bootstrap(checkout)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert works(checkout)


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 14, 0)])
def test_an_unsupported_python_is_refused_by_name_with_the_reason(
    tmp_path: Path, version: tuple[int, int, int]
) -> None:
    checkout = write_checkout(tmp_path / "checkout")
    fake = checkout / "bin/python3"
    write_fake_python(fake, version)
    done = bootstrap(checkout, DERIVE_PYTHON="python3", PATH=f"{fake.parent}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{fake} is cpython {'.'.join(map(str, version))}" in done.stderr
    assert "derive runs on CPython 3.11, 3.12, 3.13" in done.stderr
    assert not (checkout / ".venv").exists()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, unlike those pytest gives."""
    folder = Path(tempfile.mkdtemp(prefix="derive-bootstrap-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_without_root_the_missing_packages_are_named(open_folder: Path) -> None:
    if shutil.which("apt-get") is None:
        skip_or_fail("apt-get is not on PATH")
    checkout = write_checkout(open_folder / "checkout")
    (open_folder / "bin").mkdir()
    for program in [*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()]:
        if program.name != "bwrap" and not (open_folder / "bin" / program.name).is_symlink():
            (open_folder / "bin" / program.name).symlink_to(program)
    unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = bootstrap(checkout, *unprivileged, "tools/bootstrap", PATH=str(open_folder / "bin"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: missing: bubblewrap" in done.stderr
    assert "  hint: sudo apt-get install --no-install-recommends bubblewrap" in done.stderr
