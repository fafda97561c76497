# SPDX-License-Identifier: Apache-2.0
"""Why does a kernel miss its target? One launch of it under Nsight Compute, as the card is.

Edge: runs ncu. Clocks are left alone.
"""

from __future__ import annotations

import csv
import shutil
import sys
from typing import Any

from .setting import Setting, run_program, say

_SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "SchedulerStats", "WarpStateStats")


def run(setting: Setting, start: list[str], times: Any, seconds: int) -> dict[str, Any]:
    """Profile every timing that missed its target."""
    missed = [one for one in times.get("cases", ()) if one["met"] is False]
    program = shutil.which("ncu")
    if not missed or program is None:
        return {"problems": [] if not missed else ["ncu is not on this machine"], "profiles": []}
    profiles = []
    for one in missed:
        say(f"profile: {one['kernel']} {one['case']} {one['rows']} rows")
        profiles.append(_profiled(setting, program, start, one, seconds))
    return {"problems": [], "profiles": profiles}


def _profiled(setting: Setting, program: str, start: list[str], one: Any, seconds: int) -> dict[str, Any]:
    about = {"kernel": one["kernel"], "case": one["case"], "rows": one["rows"]}
    part = ["--part", "one", "--kernels", one["kernel"], "--case", one["case"], "--rows", str(one["rows"])]
    words = [program, "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "details"]
    for section in _SECTIONS:
        words += ["--section", section]
    ended = run_program([*words, sys.executable, *start, *part], setting.environment(), seconds, keep=True)
    lines = [line for line in ended.said.splitlines() if line.startswith('"')]
    metrics = [
        {
            key: row.get(name, "")
            for key, name in (("name", "Metric Name"), ("unit", "Metric Unit"), ("value", "Metric Value"))
        }
        for row in csv.DictReader(lines)
        if row.get("Metric Name")
    ]
    status = f"not done after {seconds} s" if ended.status is None else f"ncu ended with {ended.status}"
    problems = [] if metrics else [status, *ended.said.splitlines()[-8:]]
    return {**about, "problems": problems, "metrics": metrics}


def one(setting: Setting, name: str, rows: int) -> dict[str, Any]:
    """Launch a case a few times over different copies, the last of them between the profiler's marks."""
    import torch  # type: ignore[import-not-found]

    from . import buffers

    device = torch.device("cuda")
    kernel, case = next((kernel, case) for kernel, case in setting.cases() if case.name == name)
    state = case.state(device, setting.generator(device, kernel, case.name, "state"))
    inputs = case.inputs(state, rows, "random", setting.generator(device, kernel, case.name, "profile"))
    outputs = buffers.blank(case.outputs(state, rows), device)
    case.run(buffers.own(state), inputs, outputs)
    torch.empty(256 << 20, dtype=torch.uint8, device=device).fill_(1)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    case.run(buffers.own(state), inputs, outputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    return {}
