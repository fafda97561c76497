# SPDX-License-Identifier: Apache-2.0
"""What this machine offers the sandbox: one trial, and more questions only when the trial fails.

Edge: runs bubblewrap, reads /proc/sys.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from derive.sandbox.bwrap import Bubblewrap
from derive.sandbox.judge import TRIAL, HostFacts, refusal, trial_passed
from derive.sandbox.spec import SandboxSpec, Seal, bwrap_arguments, system_mounts

_TRIAL_S = 20


def find_sandbox() -> Bubblewrap:
    """Return the bubblewrap of this machine after one trial (some 10 ms); keep it, and ask no second time.

    Raises:
        HostRefuses: with the remedy, when there is none, or it cannot make its namespaces here.
    """
    facts = probe_host()
    refused = refusal(facts)
    if refused is not None:
        raise refused
    return Bubblewrap(program=facts.program or "", machine=facts.machine)


def probe_host() -> HostFacts:
    """Return the facts that decide whether the sandbox works here."""
    program = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath))
    machine = os.uname().machine
    superuser = os.geteuid() == 0
    trial = None if program is None else _trial(program)
    if program is None or trial is None or trial_passed(trial):
        return HostFacts(machine=machine, program=program, version=None, trial=trial, superuser=superuser)
    return HostFacts(
        machine=machine,
        program=program,
        version=_said([program, "--version"]),
        trial=trial,
        superuser=superuser,
        userns_clone=_setting("kernel/unprivileged_userns_clone"),
        max_user_namespaces=_setting("user/max_user_namespaces"),
        apparmor_restricts=_setting("kernel/apparmor_restrict_unprivileged_userns"),
    )


def _trial(program: str) -> str:
    """Ask for a sandbox with everything but a root, and return what bubblewrap says."""
    spec = SandboxSpec(mounts=(*system_mounts(None), Seal(b"/")), environment=(), argv=(TRIAL,), cwd=b"/")
    return _said([program, *bwrap_arguments(spec), "--", TRIAL])


def _said(command: list[str | bytes]) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={},
            cwd="/",
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.decode(errors="replace")


def _setting(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
