# SPDX-License-Identifier: Apache-2.0
"""The logins that this person has given to Docker.

Edge: the environment, Docker's ``config.json``, credential helpers as subprocesses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from derive.errors import InputErrors
from derive.net.progress import Progress, Quiet
from derive.oci.credentials import NO_LOGINS, DockerLogins, Login, parse_docker_config, parse_helper

_HELPER_S = 60.0  # a helper may ask its person for a passphrase


class SystemLogins:
    """Logins by host, each looked up once and only when a registry asks. Safe for several threads."""

    def __init__(self, *, environ: Mapping[str, str] | None = None, progress: Progress | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._progress: Progress = progress or Quiet()
        self._guard = threading.Lock()
        self._read: DockerLogins | None = None
        self._known: dict[str, Login | None] = {}

    def login(self, host: str) -> Login | None:
        """Return the login for ``name`` or ``name:port``, or None.

        Raises:
            InputErrors: when Docker's settings cannot be read.
        """
        with self._guard:
            if host not in self._known:
                self._known[host] = self._find(host)
            return self._known[host]

    def _find(self, host: str) -> Login | None:
        if self._read is None:
            self._read = self._read_config()
        helper = self._read.helper(host)
        asked = self._ask(helper, host) if helper else None
        return asked or self._read.logins.get(host)

    def _read_config(self) -> DockerLogins:
        folder = self._environ.get("DOCKER_CONFIG") or f"{self._environ.get('HOME') or '/'}/.docker"
        file = Path(folder) / "config.json"
        try:
            data = file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return NO_LOGINS
        except OSError as error:
            raise InputErrors.one(f"cannot be read: {error.strerror}", where=str(file)) from error
        return parse_docker_config(data, str(file))

    def _ask(self, helper: str, host: str) -> Login | None:
        program = shutil.which(f"docker-credential-{helper}", path=self._environ.get("PATH"))
        if program is None:
            self._progress.note(f"docker-credential-{helper} is not installed: {host} is asked without a login")
            return None
        try:
            done = subprocess.run(
                [program, "get"],
                input=host.encode(),
                env=self._environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # it may repeat secrets
                check=False,
                timeout=_HELPER_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            self._progress.note(f"docker-credential-{helper} does not work: {host} is asked without a login")
            return None
        # It fails for every host that it knows nothing of.
        return parse_helper(done.stdout) if done.returncode == 0 else None
