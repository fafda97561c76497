# SPDX-License-Identifier: Apache-2.0
"""Does a checker of memory accesses and races find anything in a small run of each kernel?

Edge: runs compute-sanitizer. Each tool is first shown a kernel that is wrong on purpose: what does not find that, is
reported as not looking. Tensors have memory of their own, and random data comes from the host, so that few kernels of
others run under the checker.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from .setting import Setting, run_program, say

TOOLS = {"memcheck": "out_of_bounds", "racecheck": "race"}
"""Each tool, and the kernel that is wrong for it."""

_PLACES = ("/usr/local/cuda/bin", "/opt/cuda/bin")
_FOUND = 99
_TAIL = 30


def run(setting: Setting, start: list[str], seconds: int) -> dict[str, Any]:
    """Run every tool over every kernel; ``start`` is the command that starts a part of this program."""
    program = shutil.which("compute-sanitizer") or next(
        (f"{place}/compute-sanitizer" for place in _PLACES if os.access(f"{place}/compute-sanitizer", os.X_OK)), None
    )
    if program is None:
        return {"problems": ["compute-sanitizer is not on this machine"], "runs": [], "ok": False}
    runs = []
    kernels = setting.kernels or sorted({unit["kernel"] for unit in setting.manifest()["units"]})
    for tool, wrong in TOOLS.items():
        looking = _sanitized(setting, program, tool, [*start, "--part", "wrong", "--wrong", wrong], seconds)
        say(f"sanitize: {tool} {'finds' if looking['status'] == _FOUND else 'DOES NOT FIND'} what is wrong on purpose")
        for kernel in kernels:
            one = _sanitized(setting, program, tool, [*start, "--part", "small", "--kernels", kernel], seconds)
            one |= {"tool": tool, "kernel": kernel, "looking": looking["status"] == _FOUND}
            one["ok"] = one["status"] == 0 and one["looking"]
            if one["ok"]:
                del one["said"]
            say(f"sanitize: {tool} {kernel}: {one['summary'] or one['status']}")
            runs.append(one)
    return {"problems": [], "runs": runs, "ok": all(one["ok"] for one in runs)}


def _sanitized(setting: Setting, program: str, tool: str, command: list[str], seconds: int) -> dict[str, Any]:
    environment = {**setting.environment(), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_MODULE_LOADING": "LAZY"}
    words = [program, "--tool", tool, "--error-exitcode", str(_FOUND), "--print-limit", "10", sys.executable, *command]
    ended = run_program(words, environment, seconds, keep=True)
    lines = ended.said.splitlines()
    summary = next((line.strip("= ") for line in reversed(lines) if re.search(r"(ERROR|RACECHECK) SUMMARY", line)), "")
    if ended.status is None:
        summary = f"not done after {seconds} s"
    return {"status": ended.status, "summary": summary, "said": lines[-_TAIL:]}


def small(setting: Setting) -> dict[str, Any]:
    """Run each case's small form once for every kind, and compare: what the tools look at."""
    import torch  # type: ignore[import-not-found]

    host, device = torch.device("cpu"), torch.device("cuda")
    problems: list[str] = []
    launches = 0
    # Cases that differ in size alone have one small form.
    smaller = {(kernel, small.name): small for kernel, case in setting.cases() for small in (case.small(),)}
    for (kernel, _), case in smaller.items():
        state = _moved(case.state(host, setting.generator(host, kernel, case.name, "small")), device)
        for rows in case.small_rows:
            for kind in case.kinds:
                own = setting.generator(host, kernel, case.name, "small", rows, kind)
                inputs = _moved(case.inputs(_moved(state, host), rows, kind, own), device)
                problems += _compared(case, state, inputs, rows)
                launches += 1
    if problems:
        raise RuntimeError("; ".join(problems))
    return {"launches": launches}


def _compared(case: Any, state: Any, inputs: Any, rows: int) -> Iterator[str]:
    import torch

    from . import buffers

    host = torch.device("cpu")
    outputs = buffers.allocate(case.outputs(state, rows), torch.device("cuda"))
    case.run(buffers.own(state), inputs, {name: one.tensor for name, one in outputs.items()})
    torch.cuda.synchronize()
    got = _moved({name: one.tensor for name, one in outputs.items()}, host)
    state, inputs = _moved(state, host), _moved(inputs, host)
    yield from case.compare(state, inputs, got, _moved(case.reference(state, inputs), host)).problems


def _moved(tensors: Any, device: Any) -> dict[str, Any]:
    return {name: one.to(device) for name, one in tensors.items()}


def wrong(which: str) -> dict[str, Any]:
    """Launch a kernel that is wrong on purpose."""
    import torch

    from . import ptx

    memory = torch.zeros(64, dtype=torch.int32, device="cuda")
    driver = ptx.Driver()
    stream = torch.cuda.current_stream().cuda_stream
    place = memory.data_ptr()
    driver.launch(which, grid=1, block=64, stream=stream, arguments=(place, 1 << 16, place))
    torch.cuda.synchronize()
    return {}
