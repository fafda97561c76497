# SPDX-License-Identifier: Apache-2.0
"""What every file of the repository keeps to, whoever wrote it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.require import skip_or_fail

ROOT = Path(__file__).parents[2]
SPDX = "# SPDX-License-Identifier: Apache-2.0\n"
CONTENT = {
    "lock",
    "patches",
    "derivations",
    "images",
    "recipes",
    "render",
    "fabric",
    "kernels",
    "bench",
    "records",
}
LONGEST_MODULE = 450
CONFIGURATION = re.compile(r"(?:index|registry|mirror|proxy|find-links|url)", re.IGNORECASE)
URL = re.compile(r"(?:https?|ftp)://[^\s'\"\]]+")


@cache
def files() -> tuple[Path, ...]:
    """Return every file that is, or is about to be, in the repository."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        skip_or_fail("the files of the repository are told by git, in a checkout")
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    paths = (ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name)
    return tuple(sorted(path for path in paths if path.is_file() and not path.is_symlink()))


def python_files() -> Iterator[Path]:
    return (path for path in files() if path.suffix == ".py")


def found(words: set[str], around: bytes) -> list[str]:
    """Return ``file:line: word`` for each place where one of the words stands, with such surroundings."""
    patterns = [re.compile(around % re.escape(word.encode())) for word in sorted(words)]
    places = []
    for path in files():
        data = path.read_bytes()
        for pattern in patterns:
            for match in pattern.finditer(data):
                line = data.count(b"\n", 0, match.start()) + 1
                places.append(f"{path.relative_to(ROOT)}:{line}: {match[0].decode()}")
    return places


def output_of(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL).stdout


def registry_hosts() -> set[str]:
    """Return the hosts that this machine's package tools are configured to use, and those they know by themselves."""
    texts = [value for key, value in os.environ.items() if CONFIGURATION.search(key)]
    texts.append(output_of(sys.executable, "-m", "pip", "config", "list"))
    texts.append(output_of("npm", "config", "get", "registry"))
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt").glob("sources.list.d/*")]
    texts += [path.read_text(errors="replace") for path in sources if path.is_file()]
    own_defaults = "import pip._internal.models.index as i; print(i.PyPI.url, 'http://' + i.PyPI.file_storage_domain)"
    texts.append(output_of(sys.executable, "-c", own_defaults))
    hosts = {urlsplit(url).hostname or "" for text in texts for url in URL.findall(text)}
    return {host for host in hosts if "." in host and not re.fullmatch(r"[0-9.]+", host)}


def test_the_licence_line_is_the_first_of_every_module() -> None:
    missing = [str(p.relative_to(ROOT)) for p in python_files() if not p.read_text().startswith(SPDX)]
    assert missing == []


def test_no_file_names_a_package_registry() -> None:
    hosts = registry_hosts()
    if not hosts:
        skip_or_fail("no package tool of this machine names a registry")
    assert found(hosts, rb"(?<![\w.-])%s(?![\w-])") == []


def test_no_file_holds_a_path_of_this_machine() -> None:
    own = {f"{ROOT}/", f"{Path.home()}/", f"{Path(sys.prefix)}/"}
    # A folder directly below / may be named in a text for a reason of its own.
    own = {path for path in own if path.count("/") > 2 or path == f"{Path.home()}/"}
    assert found(own, rb"(?<![\w.}])%s") == []


def test_the_folders_of_content_are_no_packages() -> None:
    packages = [path for path in files() if path.name == "__init__.py"]
    wrong = [str(p.relative_to(ROOT)) for p in packages if p.relative_to(ROOT).parts[0] in {*CONTENT, "tests"}]
    assert wrong == []


def test_no_module_of_the_engine_is_too_long() -> None:
    lengths = {path: path.read_text().count("\n") for path in python_files() if path.is_relative_to(ROOT / "src")}
    long = [f"{path.relative_to(ROOT)}: {length}" for path, length in lengths.items() if length > LONGEST_MODULE]
    assert long == []


def test_no_file_has_carriage_returns_or_trailing_blanks_in_python() -> None:
    wrong = [str(path.relative_to(ROOT)) for path in python_files() if re.search(rb"[ \t\r]\n", path.read_bytes())]
    assert wrong == []


def test_every_text_ends_with_one_newline() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in files()
        if path.suffix in (".py", ".md", ".toml") and (data := path.read_bytes()) and not re.search(rb"[^\n]\n\Z", data)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "pyproject.toml"])
def test_the_repository_has_its_root_files(name: str) -> None:
    assert ROOT / name in files()
