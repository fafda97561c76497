# SPDX-License-Identifier: Apache-2.0
"""Where this machine is told that artifacts are served; no host name stands here.

The first of these that names any decides, for each kind by itself: the variables ``DERIVE_MIRROR_*`` and
``DERIVE_ARCHIVES``, the user's ``config.toml``, then apt's, pip's and Hugging Face's own settings.

Edge: the environment, the user's settings, apt and pip as subprocesses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from derive.errors import HostRefuses
from derive.lock.settings import (
    TARGET_FORMAT,
    AptTarget,
    ReleaseOwner,
    UserConfig,
    debian_archives,
    is_http,
    parse_apt_options,
    parse_config,
    parse_git_urls,
    parse_mirror_list,
    parse_owner,
    parse_pip_config,
    parse_pip_default,
    parse_places,
    parse_targets,
    parse_urls,
    split_security,
)
from derive.net.places import ArchivePlace, Mirror
from derive.net.user import read_config, user_config

DEBIAN_VARIABLE = "DERIVE_MIRROR_DEBIAN"
PYTHON_VARIABLE = "DERIVE_MIRROR_PYTHON"
GIT_VARIABLE = "DERIVE_MIRROR_GIT"
OCI_VARIABLE = "DERIVE_MIRROR_OCI"
HF_VARIABLE = "DERIVE_MIRROR_HF"
HF_OWN_VARIABLE = "HF_ENDPOINT"
ARCHIVES_VARIABLE = "DERIVE_ARCHIVES"

_Found = tuple[Mirror, ...]


class SystemMirrors:
    """The mirrors of this machine, each kind found on first use. Safe for several threads."""

    def __init__(self, *, environ: Mapping[str, str] | None = None, config: Path | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._config_file = config or user_config(self._environ)
        self._guard = threading.RLock()
        self._known: dict[str, _Found] = {}
        self._archives: tuple[ArchivePlace, ...] | None = None
        self._config: UserConfig | None = None
        self._apt: tuple[_Found, _Found] | None = None

    def debian(self) -> tuple[Mirror, ...]:
        """Return Debian archives; raises HostRefuses when nothing names one."""
        with self._guard:
            found = self._once("debian", self._find_debian)
        if not found:
            raise HostRefuses(
                "this machine's apt names no Debian archive",
                hint=f"export {DEBIAN_VARIABLE}=<url of a Debian archive>",
            )
        return found

    def security(self) -> tuple[Mirror, ...]:
        """Return Debian security archives; raises HostRefuses when nothing names one."""
        with self._guard:
            found = self._once("security", self._find_security)
        if not found:
            raise HostRefuses(
                "no Debian security archive is configured",
                detail=["it is told from the others by its path, which ends in -security"],
                hint=f'export {DEBIAN_VARIABLE}="<url of a Debian archive> <url of its debian-security>"',
            )
        return found

    def python(self) -> tuple[Mirror, ...]:
        """Return Python package indices; raises HostRefuses when nothing names one."""
        with self._guard:
            found = self._once("python", self._find_python)
        if not found:
            raise HostRefuses(
                "pip's settings name no package index that HTTP reaches",
                hint=f"export {PYTHON_VARIABLE}=<url of a package index, as for pip's index-url>",
            )
        return found

    def git(self) -> tuple[Mirror, ...]:
        """Return bases of git mirrors; empty when nothing names one."""
        with self._guard:
            return self._once("git", self._find_git)

    def oci(self) -> tuple[Mirror, ...]:
        """Return bases of OCI registries; empty when nothing names one."""
        with self._guard:
            return self._once("oci", lambda: self._named("oci", OCI_VARIABLE))

    def huggingface(self) -> tuple[Mirror, ...]:
        """Return endpoints of the Hugging Face API; empty when nothing names one."""
        with self._guard:
            return self._once("hf", lambda: self._named("hf", HF_VARIABLE, HF_OWN_VARIABLE))

    def archives(self) -> tuple[ArchivePlace, ...]:
        """Return places that keep artifacts by hash; empty when nothing names one."""
        with self._guard:
            if self._archives is None:
                named = parse_places(self._environ.get(ARCHIVES_VARIABLE, ""), ARCHIVES_VARIABLE)
                self._archives = named or self._configured().archives
            return self._archives

    def _once(self, key: str, find: Callable[[], _Found]) -> _Found:
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]

    def _configured(self) -> UserConfig:
        if self._config is None:
            self._config = self._read_config()
        return self._config

    def _read_config(self) -> UserConfig:
        return parse_config(read_config(self._config_file), str(self._config_file))

    def _named(self, key: str, variable: str, other: str | None = None) -> _Found:
        """Return what a variable, else the user's settings, else another program's variable name."""
        named = parse_urls(self._environ.get(variable, ""), variable)
        named = named or self._configured().mirrors.get(key, ())
        return named or (parse_urls(self._environ.get(other, ""), other) if other else ())

    def _find_git(self) -> _Found:
        named = parse_git_urls(self._environ.get(GIT_VARIABLE, ""), GIT_VARIABLE)
        return named or self._configured().mirrors.get("git", ())

    def _find_debian(self) -> _Found:
        named = split_security(parse_urls(self._environ.get(DEBIAN_VARIABLE, ""), DEBIAN_VARIABLE))[0]
        return named or split_security(self._configured().mirrors.get("debian", ()))[0] or self._archives_of_apt()[0]

    def _find_security(self) -> _Found:
        named = split_security(parse_urls(self._environ.get(DEBIAN_VARIABLE, ""), DEBIAN_VARIABLE))[1]
        configured = self._configured().mirrors
        beside = split_security(configured.get("debian", ()))[1]
        return named or (*configured.get("debian-security", ()), *beside) or self._archives_of_apt()[1]

    def _archives_of_apt(self) -> tuple[_Found, _Found]:
        """Ask apt once, and only when nothing else names the archives: it takes a second."""
        if self._apt is None:
            self._apt = self._of_apt()
        return self._apt

    def _of_apt(self) -> tuple[_Found, _Found]:
        # Without what apt read of releases: it would build its whole cache to say whose they are.
        ask = ["apt-get", "indextargets", "--no-release-info", "--format", TARGET_FORMAT]
        targets = parse_targets(_output(ask, self._environ))
        found = debian_archives((target, _owner(target)) for target in targets)
        if not found[0] and not found[1]:
            return (), ()
        options = parse_apt_options(_output(["apt-config", "dump"], self._environ))
        return _apt_mirrors(found[0], options), _apt_mirrors(found[1], options)

    def _find_python(self) -> _Found:
        named = parse_urls(self._environ.get(PYTHON_VARIABLE, ""), PYTHON_VARIABLE)
        if named:
            return named
        configured = self._configured().mirrors.get("python", ())
        if configured:
            return configured
        for pip in ([sys.executable, "-m", "pip"], ["python3", "-m", "pip"], ["pip"]):
            listed = _output([*pip, "config", "list"], self._environ, fails="no pip")
            if listed != "no pip":
                return self._of_pip(pip, listed)
        return ()

    def _of_pip(self, pip: Sequence[str], listed: str) -> _Found:
        settings = parse_pip_config(listed)
        if settings.no_index:
            return ()
        index = settings.index
        if index is None:
            index = parse_pip_default(_output([*pip, "download", "--help"], {**self._environ, "COLUMNS": "1000"}))
        main = [Mirror(url=index)] if index and is_http(index) else []
        # Folders of this machine serve nobody else: what they hold must not enter a lock.
        return (*main, *(Mirror(url=url, extra=True) for url in settings.extra if is_http(url)))


def _output(command: Sequence[str], environ: Mapping[str, str], fails: str = "") -> str:
    """Run a package tool and return what it printed; where it is absent or fails, return ``fails``."""
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        return fails
    done = subprocess.run(
        command,
        env={**environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else fails


def _owner(target: AptTarget) -> ReleaseOwner | None:
    """Return whose a release is, where apt has read it."""
    for name in ("InRelease", "Release"):
        try:
            with Path(target.lists + name).open("rb") as file:
                return parse_owner(file.read(4096).decode("utf-8", "replace"))
        except OSError:
            continue
    return None


def _apt_mirrors(urls: Sequence[str], options: Mapping[str, str]) -> _Found:
    found: list[Mirror] = []
    for url in urls:
        for each in _expand(url):
            scheme = urlsplit(each).scheme
            proxy = options.get(f"Acquire::{scheme}::Proxy::{urlsplit(each).hostname}")
            proxy = proxy or options.get(f"Acquire::{scheme}::Proxy")
            if is_http(each):
                found.append(Mirror(url=each, proxy=None if proxy == "DIRECT" else proxy))
    return tuple(dict.fromkeys(found))


def _expand(url: str) -> tuple[str, ...]:
    if not url.startswith("mirror+file:"):
        return (url,)
    try:
        return parse_mirror_list(Path(urlsplit(url).path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ()
