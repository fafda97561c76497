# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.verify.elf import read_elf
from derive.verify.facts import ElfFacts, FileFacts, read_facts
from support.elves import AARCH64, cubin, elf, fatbin


def facts_of(data: bytes) -> FileFacts:
    return read_elf(io.BytesIO(data), lambda at, count: data[at : at + count], len(data))


def loaded(data: bytes) -> ElfFacts:
    found = facts_of(data).elf
    assert found is not None
    return found


WHOLE = elf(
    AARCH64,
    soname="libone.so.1",
    needed=("libtwo.so.2", "libc.so.6"),
    runpath="$ORIGIN/../lib:/opt/lib",
    interpreter="/lib/ld-linux-aarch64.so.1",
    needs={"libc.so.6": ("GLIBC_2.17", "GLIBC_2.34"), "libtwo.so.2": ("TWO_1",)},
    defines=("libone.so.1", "ONE_1.0"),
    gpu=fatbin("sm_90a", "sm_120", "compute_120/9.0") + bytes(8) + fatbin("sm_90a", "sm_120", "compute_120/9.0"),
)


def test_everything_that_the_loader_looks_at_is_read() -> None:
    assert loaded(WHOLE) == ElfFacts(
        bits=64,
        machine=AARCH64,
        type="DYN",
        interpreter="/lib/ld-linux-aarch64.so.1",
        soname="libone.so.1",
        needed=("libtwo.so.2", "libc.so.6"),
        runpath=("$ORIGIN/../lib", "/opt/lib"),
        needs={"libc.so.6": ("GLIBC_2.17", "GLIBC_2.34"), "libtwo.so.2": ("TWO_1",)},
        defines=("ONE_1.0", "libone.so.1"),
    )


def test_gpu_code_is_counted_by_the_architectures_that_it_is_for() -> None:
    gpu = facts_of(WHOLE).gpu
    assert gpu is not None
    assert [([str(code) for code in codes], count) for codes, count in gpu.units] == [
        (["compute_120/9.0", "sm_120", "sm_90a"], 2)
    ]


def test_gpu_code_is_found_outside_of_its_sections_too() -> None:
    gpu = facts_of(
        elf(data=b"\x50\xed\x55\xba junk" + fatbin("sm_120f") + b"\x7fELF\x02\x01\x01 junk" + cubin("sm_121a"))
    ).gpu
    assert gpu is not None
    assert sorted(map(str, gpu.codes)) == ["sm_120f", "sm_121a"]


def test_facts_read_back_as_they_were_written() -> None:
    facts = facts_of(WHOLE)
    assert read_facts(facts.document()) == facts


def test_a_cubin_on_its_own_is_gpu_code_and_no_file_for_the_loader() -> None:
    facts = facts_of(cubin("sm_121a"))
    assert facts.elf is None
    assert facts.gpu is not None
    assert list(map(str, facts.gpu.codes)) == ["sm_121a"]


def test_a_section_of_gpu_code_that_holds_something_else_makes_the_file_unreadable() -> None:
    assert "no GPU container" in (loaded(elf(gpu=b"something else, and no container")).broken or "")


@pytest.mark.parametrize("keep", [5, 20, 63, 70])
def test_a_file_that_was_cut_off_is_said_to_be_unreadable(keep: int) -> None:
    assert loaded(WHOLE[:keep]).broken is not None


@given(at=st.integers(4, len(WHOLE) - 1), value=st.integers(0, 255))
def test_no_changed_byte_makes_it_fail(at: int, value: int) -> None:
    data = bytearray(WHOLE)
    data[at] = value
    facts_of(bytes(data)).document()
