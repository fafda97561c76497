# SPDX-License-Identifier: Apache-2.0
"""The system calls that no namespace contains, refused by a filter: other socket families, io_uring, keys, kernel log.

Core: no IO. The filter is a classic BPF program for seccomp, written for little-endian machines.

A network namespace does not separate every family: an AF_VSOCK socket reaches the host of a virtual machine from any
of them. io_uring opens sockets past any filter. Key rings are inherited from whoever started the engine.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_FAMILIES = (_UNIX, _INET, _INET6, _NETLINK)

_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_X32_BIT = 0x40000000

_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """One system call table: its audit number, and the numbers of the calls that the filter looks at."""

    audit: int
    socket: int
    absent: tuple[int, ...]
    """add_key, request_key, keyctl, io_uring_setup and, where there is one, socketcall: answered with ENOSYS."""
    syslog: int
    x32: bool = False


_X86_64 = _Calls(audit=0xC000003E, socket=41, absent=(248, 249, 250, 425), syslog=103, x32=True)
_I386 = _Calls(audit=0x40000003, socket=359, absent=(286, 287, 288, 425, 102), syslog=103)
_AARCH64 = _Calls(audit=0xC00000B7, socket=198, absent=(217, 218, 219, 425), syslog=116)
_ARM = _Calls(audit=0x40000028, socket=281, absent=(309, 310, 311, 425), syslog=103)

_MACHINES = {"x86_64": (_X86_64, _I386), "aarch64": (_AARCH64, _ARM)}


def knows_machine(machine: str) -> bool:
    """Say whether there is a filter for a machine, named as ``uname -m`` names it."""
    return machine in _MACHINES


def syscall_filter(machine: str) -> bytes:
    """Return the filter for a machine, as ``struct sock_filter[]``.

    Raises:
        KeyError: for a machine whose system call numbers are not written down here.
    """
    program: list[bytes] = [_instruction(_LOAD, _ARCHITECTURE)]
    for calls in _MACHINES[machine]:
        block = _block(calls)
        program += [_instruction(_JUMP_IF_EQUAL, calls.audit, 0, len(block)), *block]
    program.append(_fail(_ENOSYS))
    return b"".join(program)


def _block(calls: _Calls) -> list[bytes]:
    """Return the instructions for one table; each way through them ends in a return."""
    block = [_instruction(_LOAD, _NUMBER)]
    if calls.x32:
        block += [_instruction(_JUMP_IF_AT_LEAST, _X32_BIT, 0, 1), _fail(_ENOSYS)]
    for number in calls.absent:
        block += [_instruction(_JUMP_IF_EQUAL, number, 0, 1), _fail(_ENOSYS)]
    block += [_instruction(_JUMP_IF_EQUAL, calls.syslog, 0, 1), _fail(_EPERM)]
    block += [_instruction(_JUMP_IF_EQUAL, calls.socket, 1, 0), _instruction(_RETURN, _ALLOW)]
    block.append(_instruction(_LOAD, _FIRST_ARGUMENT))
    for family in _FAMILIES:
        block += [_instruction(_JUMP_IF_EQUAL, family, 0, 1), _instruction(_RETURN, _ALLOW)]
    return [*block, _fail(_EAFNOSUPPORT)]


def _fail(errno: int) -> bytes:
    return _instruction(_RETURN, _ERRNO | errno)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
