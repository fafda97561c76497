# SPDX-License-Identifier: Apache-2.0
"""The system call filter, interpreted here as the kernel would."""

from __future__ import annotations

import struct

import pytest

from derive.sandbox.filter import knows_machine, syscall_filter

X86_64, I386, AARCH64, ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
ALLOW = 0x7FFF0000
EPERM, ENOSYS, EAFNOSUPPORT = 0x50001, 0x50026, 0x50061
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_ALG, AF_VSOCK = 1, 2, 10, 16, 38, 40


def verdict(machine: str, audit: int, number: int, first: int = 0) -> int:
    """Run the filter on one system call."""
    data = struct.pack("<IIQQ", number, audit, 0, first)
    program = list(struct.iter_unpack("<HBBI", syscall_filter(machine)))
    accumulator = at = 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x06:
                return int(value)
            case _:
                pytest.fail(f"unknown instruction {code:#x}")


SOCKET = [("x86_64", X86_64, 41), ("x86_64", I386, 359), ("aarch64", AARCH64, 198), ("aarch64", ARM, 281)]


@pytest.mark.parametrize(("machine", "audit", "number"), SOCKET)
@pytest.mark.parametrize("family", [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK])
def test_families_that_a_network_namespace_contains_are_allowed(
    machine: str, audit: int, number: int, family: int
) -> None:
    assert verdict(machine, audit, number, family) == ALLOW


@pytest.mark.parametrize(("machine", "audit", "number"), SOCKET)
@pytest.mark.parametrize("family", [0, AF_ALG, AF_VSOCK, 17, 31, 0xFFFFFFFF])
def test_every_other_family_is_unsupported(machine: str, audit: int, number: int, family: int) -> None:
    assert verdict(machine, audit, number, family) == EAFNOSUPPORT


@pytest.mark.parametrize(("machine", "audit", "number"), SOCKET)
def test_only_the_low_half_of_the_family_counts_as_in_the_kernel(machine: str, audit: int, number: int) -> None:
    assert verdict(machine, audit, number, (1 << 32) | AF_VSOCK) == EAFNOSUPPORT


@pytest.mark.parametrize(
    ("machine", "audit", "numbers"),
    [
        ("x86_64", X86_64, (248, 249, 250, 425)),
        ("x86_64", I386, (286, 287, 288, 425, 102)),
        ("aarch64", AARCH64, (217, 218, 219, 425)),
        ("aarch64", ARM, (309, 310, 311, 425)),
    ],
)
def test_key_rings_and_io_uring_do_not_exist(machine: str, audit: int, numbers: tuple[int, ...]) -> None:
    assert {verdict(machine, audit, number) for number in numbers} == {ENOSYS}


def test_the_kernel_log_is_not_permitted() -> None:
    assert verdict("x86_64", X86_64, 103) == EPERM
    assert verdict("aarch64", AARCH64, 116) == EPERM


@pytest.mark.parametrize("number", [0, 1, 59, 56, 257])
def test_everything_else_is_allowed(number: int) -> None:
    assert verdict("x86_64", X86_64, number) == ALLOW
    assert verdict("aarch64", AARCH64, number) == ALLOW


def test_other_numberings_are_shut_off() -> None:
    assert verdict("x86_64", X86_64, 0x40000000 | 41, AF_VSOCK) == ENOSYS
    assert verdict("x86_64", AARCH64, 198, AF_INET) == ENOSYS
    assert verdict("aarch64", X86_64, 0) == ENOSYS


def test_a_machine_without_a_table_has_no_filter() -> None:
    assert knows_machine("x86_64")
    assert not knows_machine("riscv64")
    with pytest.raises(KeyError):
        syscall_filter("riscv64")
