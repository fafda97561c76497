# SPDX-License-Identifier: Apache-2.0
"""What a kernel's log says of containers whose processes it killed, in the words of Linux 6 and 7 (mm/oom_kill.c)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.deploy.kernel_log import KernelKill, kernel_kill, kernel_text

ID = "c" * 64
OTHER = "d" * 64


def chosen(container: str, pid: int, *, memcg: bool = False, task: str = "VLLM::Worker_TP0") -> str:
    group = f"/derive.slice/derive-ds41f.slice/docker-{container}.scope"
    what = (
        f"constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=docker-{container}.scope,mems_allowed=0,oom_memcg={group}"
        if memcg
        else "constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom"
    )
    return f"[ 9021.123456] oom-kill:{what},task_memcg={group},task={task},pid={pid},uid=0"


def killed(pid: int, *, memcg: bool = False) -> str:
    sizes = (
        "total-vm:201326592kB, anon-rss:1048576kB, file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:2kB oom_score_adj:0"
    )
    begins = "Memory cgroup out of memory" if memcg else "Out of memory"
    return f"[ 9021.123460] {begins}: Killed process {pid} (VLLM::Worker_TP) {sizes}"


FOUND = KernelKill(process="VLLM::Worker_TP0", pid=71, resident_bytes=(1 << 30) + (1 << 20), own_limit=False)


@pytest.mark.parametrize("memcg", [False, True])
def test_a_process_of_the_container_is_told_with_its_size_and_whose_memory_ran_out(memcg: bool) -> None:
    log = "\n".join(["[ 9000.1] eth0: link up", chosen(ID, 71, memcg=memcg), killed(71, memcg=memcg), "[ 9030.2] x"])
    assert kernel_kill(log, ID) == replace(FOUND, own_limit=memcg)


def test_a_process_of_another_container_is_not() -> None:
    assert kernel_kill("\n".join([chosen(OTHER, 71), killed(71)]), ID) is None


def test_of_several_the_first_counts() -> None:
    log = "\n".join([chosen(OTHER, 5), killed(5), chosen(ID, 71), killed(71), chosen(ID, 72), killed(72)])
    assert kernel_kill(log, ID) == FOUND


def test_a_log_that_was_cut_off_leaves_the_size_open() -> None:
    found = kernel_kill(chosen(ID, 71, memcg=True, task="a, b"), ID)
    assert found == KernelKill(process="a, b", pid=71, resident_bytes=None, own_limit=True)
    assert kernel_text(found) == "the kernel killed a, b, for want of memory (OOM): the container was at its own limit"


@pytest.mark.parametrize(("log", "container"), [("", ID), ("\x00\xff", ID), (chosen(ID, 71), "")])
def test_what_says_nothing_of_it_is_none(log: str, container: str) -> None:
    assert kernel_kill(log, container) is None
