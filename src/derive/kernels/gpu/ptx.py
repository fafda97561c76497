# SPDX-License-Identifier: Apache-2.0
"""A few kernels that the driver itself compiles, to measure the card by: nothing, and reading.

Edge: the CUDA driver, through ctypes. No compiler of the machine has a part in it. Two more kernels are wrong on
purpose, so that a checker that finds nothing is known to be looking.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

EMPTY, READ, OUT_OF_BOUNDS, RACE = "empty", "read", "out_of_bounds", "race"
READ_THREADS = 512
READ_UNROLL = 8
"""Loads of 16 bytes that each thread of ``read`` has in flight."""

_LOADS = "\n".join(
    f"  ld.global.nc.L1::no_allocate.v4.u32 {{%a{i}, %b{i}, %c{i}, %d{i}}}, [%at];\n  add.u64 %at, %at, %step;"
    for i in range(READ_UNROLL)
)
_FOLDS = "\n".join(f"  xor.b32 %sum, %sum, %{name}{i};" for i in range(READ_UNROLL) for name in "abcd")

SOURCE = f"""
.version 8.0
.target sm_90
.address_size 64

.visible .entry {EMPTY}() {{ ret; }}

// read(from, bytes, into): each thread reads 16 bytes of every (grid x block x 16); bytes is a multiple of all that.
.visible .entry {READ}(.param .u64 p_from, .param .u64 p_bytes, .param .u64 p_into)
{{
  .reg .u64 %at, %end, %step, %into, %wide;
  .reg .u32 %block, %blocks, %thread, %threads, %index, %total, %sum;
  .reg .u32 %a<{READ_UNROLL}>, %b<{READ_UNROLL}>, %c<{READ_UNROLL}>, %d<{READ_UNROLL}>;
  .reg .pred %more, %never;
  ld.param.u64 %at, [p_from];
  ld.param.u64 %end, [p_bytes];
  ld.param.u64 %into, [p_into];
  add.u64 %end, %end, %at;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %threads, %ntid.x;
  mad.lo.u32 %index, %block, %threads, %thread;
  mul.lo.u32 %total, %blocks, %threads;
  mul.wide.u32 %wide, %index, 16;
  add.u64 %at, %at, %wide;
  mul.wide.u32 %step, %total, 16;
  mov.u32 %sum, 0;
again:
{_LOADS}
{_FOLDS}
  setp.lt.u64 %more, %at, %end;
  @%more bra again;
  setp.eq.u32 %never, %sum, 0x9e3779b9;
  @%never st.global.u32 [%into], %sum;
  ret;
}}

.visible .entry {OUT_OF_BOUNDS}(.param .u64 p_from, .param .u64 p_bytes, .param .u64 p_into)
{{
  .reg .u64 %at, %bytes;
  .reg .u32 %one;
  ld.param.u64 %at, [p_from];
  ld.param.u64 %bytes, [p_bytes];
  add.u64 %at, %at, %bytes;
  mov.u32 %one, 1;
  st.global.u32 [%at], %one;
  ret;
}}

.visible .entry {RACE}(.param .u64 p_from, .param .u64 p_bytes, .param .u64 p_into)
{{
  .shared .align 4 .b32 place[64];
  .reg .u64 %into, %to;
  .reg .u32 %thread, %base, %mine, %other, %value;
  ld.param.u64 %into, [p_into];
  mov.u32 %thread, %tid.x;
  mov.u32 %base, place;
  and.b32 %mine, %thread, 63;
  mad.lo.u32 %mine, %mine, 4, %base;
  st.shared.u32 [%mine], %thread;
  add.u32 %other, %thread, 33;
  and.b32 %other, %other, 63;
  mad.lo.u32 %other, %other, 4, %base;
  ld.shared.u32 %value, [%other];
  and.b32 %mine, %thread, 63;
  mul.wide.u32 %to, %mine, 4;
  add.u64 %into, %into, %to;
  st.global.u32 [%into], %value;
  ret;
}}
"""


class Driver:
    """The kernels above, in the context that torch has made current."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(SOURCE.encode()))
        self._functions: dict[str, ctypes.c_void_p] = {}
        for name in (EMPTY, READ, OUT_OF_BOUNDS, RACE):
            function = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
            self._functions[name] = function

    def launch(self, name: str, *, grid: int, block: int, stream: int, arguments: Sequence[int] = ()) -> None:
        """Launch a kernel with 64-bit arguments on a stream, given as its handle."""
        values = [ctypes.c_uint64(value) for value in arguments]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
        one, none = ctypes.c_uint(1), ctypes.c_uint(0)
        self._call(
            "cuLaunchKernel",
            self._functions[name],
            *(ctypes.c_uint(grid), one, one, ctypes.c_uint(block), one, one, none),
            ctypes.c_void_p(stream),
            pointers,
            None,
        )

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'error').decode()} ({status})")
