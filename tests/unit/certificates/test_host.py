# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.certificates.host import VARIABLE, host_here
from derive.certificates.hosts import most_on_unlike
from derive.errors import HostRefuses, InputErrors

ID = "0123456789abcdef0123456789abcdef"
SALT = sha256(b"release")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    texts = {
        "etc/machine-id": f"{ID}\n",
        "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd87\n",
        "proc/meminfo": "MemTotal:       125512 kB\n",
        "proc/sys/kernel/random/boot_id": "a-boot\n",
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_a_machine_is_told_by_salted_hashes_and_its_id_stands_nowhere(machine: Path) -> None:
    found = host_here(SALT, {}, machine)
    assert ID not in str(found.document())
    assert found.id == host_here(SALT, {}, machine).id
    assert found.id != host_here(sha256(b"another release"), {}, machine).id
    assert (found.cpu, found.memory_bytes) == ("0x41 0xd87", 125512 * 1024)


def test_after_a_restart_the_host_is_the_same_and_the_boot_another(machine: Path) -> None:
    before = host_here(SALT, {}, machine)
    (machine / "proc/sys/kernel/random/boot_id").write_text("another boot\n")
    after = host_here(SALT, {}, machine)
    assert (before.id == after.id, before.boot == after.boot) == (True, False)


def test_a_machine_without_an_id_says_how_to_give_it_one(machine: Path) -> None:
    (machine / "etc/machine-id").write_text("")
    with pytest.raises(HostRefuses, match="no machine-id") as error:
        host_here(SALT, {}, machine)
    assert VARIABLE in (error.value.hint or "")
    assert host_here(SALT, {VARIABLE: ID}, machine).id != host_here(SALT, {VARIABLE: ID[::-1]}, machine).id
    with pytest.raises(InputErrors) as short:
        host_here(SALT, {VARIABLE: "short"}, machine)
    assert short.value.problems()[0].message == "too short to be one machine's"


def test_two_names_of_one_machine_have_its_one_boot_and_count_as_one_host(machine: Path) -> None:
    first, second = (host_here(SALT, {VARIABLE: text}, machine) for text in (ID, ID[::-1]))
    assert first.id != second.id
    assert first.boot == second.boot == host_here(SALT, {}, machine).boot
    assert most_on_unlike([("ann", first), ("ben", second)]) == ("ann",)


def test_a_machine_that_tells_no_start_of_its_kernel_certifies_nothing(machine: Path) -> None:
    (machine / "proc/sys/kernel/random/boot_id").unlink()
    with pytest.raises(HostRefuses, match="one start of this machine"):
        host_here(SALT, {VARIABLE: ID}, machine)
