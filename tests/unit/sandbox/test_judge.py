# SPDX-License-Identifier: Apache-2.0
"""Each way in which a machine can refuse the sandbox is said with its remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.errors import HostRefuses
from derive.sandbox.judge import HostFacts, refusal

DENIED = "bwrap: setting up uid map: Permission denied\n"
GOOD = HostFacts(
    machine="x86_64",
    program="/usr/bin/bwrap",
    version="bubblewrap 0.9.0\n",
    trial="bwrap: execvp /.derive-trial: No such file or directory\n",
    superuser=False,
    max_user_namespaces=30000,
)


def refused(facts: HostFacts) -> HostRefuses:
    found = refusal(facts)
    assert found is not None
    return found


def test_a_trial_that_reaches_its_program_is_enough() -> None:
    assert refusal(GOOD) is None


def test_settings_do_not_matter_when_the_trial_passes() -> None:
    assert refusal(replace(GOOD, apparmor_restricts=1, userns_clone=0)) is None


def test_bubblewrap_missing() -> None:
    found = refused(replace(GOOD, program=None, trial=None, version=None))
    assert found.message == "bubblewrap is not installed"
    assert found.hint == "sudo apt-get install bubblewrap"


@pytest.mark.parametrize("version", ["bubblewrap 0.4.1", "bubblewrap 0.7.99\n"])
def test_bubblewrap_too_old(version: str) -> None:
    found = refused(replace(GOOD, version=version, trial="bwrap: Unknown option --disable-userns\n"))
    assert found.message == "/usr/bin/bwrap is too old"
    assert found.detail == ("expected  0.8.0 or newer", f"got       {version.strip()}")


def test_no_user_namespaces_at_all() -> None:
    found = refused(replace(GOOD, trial=DENIED, max_user_namespaces=0, apparmor_restricts=1))
    assert found.hint is not None
    assert found.hint.startswith("sudo sysctl -w user.max_user_namespaces=")
    assert found.detail == (DENIED.strip(),)


def test_user_namespaces_for_root_alone() -> None:
    found = refused(replace(GOOD, trial=DENIED, userns_clone=0))
    assert found.hint is not None
    assert found.hint.startswith("sudo sysctl -w kernel.unprivileged_userns_clone=1")


def test_apparmor_is_named_with_a_profile_to_copy() -> None:
    found = refused(replace(GOOD, trial=DENIED, apparmor_restricts=1))
    assert "kernel.apparmor_restrict_unprivileged_userns is 1" in found.message
    assert "  profile bwrap /usr/bin/bwrap flags=(unconfined) {" in found.detail
    assert "  }" in found.detail
    assert found.detail[-1].startswith("or        sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    assert found.hint == "write /etc/apparmor.d/bwrap as above, then: sudo apparmor_parser -r /etc/apparmor.d/bwrap"


@pytest.mark.parametrize("facts", [replace(GOOD, apparmor_restricts=1), replace(GOOD, userns_clone=0)])
def test_root_is_not_told_about_limits_of_ordinary_users(facts: HostFacts) -> None:
    found = refused(replace(facts, trial=DENIED, superuser=True))
    assert found.message == "bubblewrap cannot make its namespaces on this machine"


def test_a_container_that_hides_proc() -> None:
    said = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n"
    found = refused(replace(GOOD, trial=said))
    assert "container" in found.message
    assert found.hint is not None
    assert "systempaths=unconfined" in found.hint


def test_an_unknown_machine() -> None:
    assert refused(replace(GOOD, machine="riscv64")).message == "the sandbox knows no system calls of riscv64"


def test_a_version_that_cannot_be_read_is_not_called_old() -> None:
    assert refused(replace(GOOD, version="?", trial="nonsense")).detail == ("nonsense",)
