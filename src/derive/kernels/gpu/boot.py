# SPDX-License-Identifier: Apache-2.0
"""Do the kernels run with nothing that could compile them?

Edge: mount namespaces, the import of TileLang, the GPU where there is one.

In a mount namespace of its own the cache is read-only, and every compiler of the machine is covered by a program that
notes its call and fails. An audit hook notes whatever this process starts. Then every unit is loaded, sealed, and run.
A second process does the same over a cache that lacks one entry.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .enclosure import Enclosure, is_compiler
from .setting import Setting, say, watching_units

_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system")
_JIT = ("libnvrtc.so", "libnvrtc-builtins", "libnvidia-ptxjitcompiler", "libnvJitLink")


def run(setting: Setting) -> dict[str, Any]:
    """Enclose this process, load and run everything; report what was seen."""
    return _enclosed(setting, setting.cache, "boot", _everything)


def run_lacking(setting: Setting) -> dict[str, Any]:
    """The same, over a cache without one entry: the error must name unit and key."""
    cache = setting.work / "lacking"
    shutil.copytree(setting.cache, cache)
    unit = _units(setting)[0]
    key = unit["keys"][os.uname().machine]
    (entry,) = cache.glob(f"*/linux-*/kernels/{key}")
    entry.parent.chmod(0o755)
    entry.chmod(0o755)
    shutil.rmtree(entry)
    found = _enclosed(setting, cache, "lacking", _one_missing)
    found["unit"], found["key"] = unit["unit"], key
    return found


def _units(setting: Setting) -> list[dict[str, Any]]:
    index = json.loads((setting.cache / "ds41-kernels.json").read_text("utf-8"))
    gpu = setting.gpu or _architecture(index)
    return [unit for unit in index["units"] if unit["gpu"] == gpu]


def _architecture(index: dict[str, Any]) -> str:
    gpus = sorted({unit["gpu"] for unit in index["units"]})
    if len(gpus) == 1:
        return str(gpus[0])
    import torch  # type: ignore[import-not-found]

    number = "sm_{}{}".format(*torch.cuda.get_device_capability())
    return str(next(gpu for gpu in gpus if gpu.startswith(number)))


def _enclosed(setting: Setting, cache: Path, name: str, act: Any) -> dict[str, Any]:
    started: list[str] = []
    enclosure = Enclosure.enter(cache=cache, work=setting.work / f"enclosure-{name}")
    os.environ["TILELANG_CACHE_DIR"] = str(enclosure.cache)
    os.environ["CUDA_DISABLE_PTX_JIT"] = "1"

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in _STARTS:
            started.append(_program(arguments))

    sys.addaudithook(hook)
    found: dict[str, Any] = {"problems": []}
    try:
        act(setting, found)
    except Exception as error:  # noqa: BLE001 - it is the finding
        found["problems"].append(f"{type(error).__name__}: {error}")
    refused = enclosure.refused()
    found["problems"] += [f"a compiler was called: {line}" for line in refused]
    found["problems"] += [f"a compiler was started: {one}" for one in started if is_compiler(Path(one).name)]
    found |= {
        "cache_read_only": enclosure.read_only,
        "compilers_covered": len(enclosure.covered),
        "cover_works": enclosure.works,
        "compilers_called": len(refused),
        "programs_started": sorted(set(started)),
        "jit_libraries": _mapped(_JIT),
    }
    found["ok"] = not found["problems"] and enclosure.works and enclosure.read_only != "no"
    return found


def _program(arguments: tuple[object, ...]) -> str:
    """Return what an audit event says is started."""
    words: object = arguments[1] if len(arguments) > 1 and not arguments[0] else arguments[0]
    if isinstance(words, Sequence) and not isinstance(words, str | bytes):
        words = words[0] if words else ""
    return os.fsdecode(words) if isinstance(words, str | bytes | os.PathLike) else str(words)


def _mapped(names: Sequence[str]) -> list[str]:
    """Return which of some libraries this process has in memory."""
    maps = Path("/proc/self/maps").read_text("utf-8", "surrogateescape")
    return sorted(name for name in names if name in maps)


def _everything(setting: Setting, found: dict[str, Any]) -> None:
    import ds41_kernels  # type: ignore[import-not-found]

    units = _units(setting)
    loaded = ds41_kernels.opened().load_all(units[0]["gpu"])
    ds41_kernels.seal()
    found["units"] = [unit.name for unit in loaded]
    found["loaded"] = len(loaded)
    ran = _run_cases(setting, found)
    found["launched_units"] = ran
    wanted = [unit.name for unit in loaded if not setting.kernels or unit.kernel in setting.kernels]
    if ran:
        found["problems"] += [f"no case of its bench.py runs {name}" for name in wanted if name not in ran]
    found |= dict(ds41_kernels.counters())
    # Units that are the same function with the same settings have one entry: it is read once.
    found["entries"] = len({unit["keys"][os.uname().machine] for unit in units})
    if found["hits"] != found["entries"] or found["misses"]:
        said = f"{found['hits']} hits and {found['misses']} misses, for {found['entries']} entries"
        found["problems"].append(said)
    found["foreign"] = _foreign()
    if not found["foreign"].startswith("kernel function "):
        found["problems"].append(f"a kernel that is not in the cache: {found['foreign']}")


def _run_cases(setting: Setting, found: dict[str, Any]) -> list[str]:
    """Run every case at every row count, compared with its reference, where there is a GPU."""
    import torch

    if not torch.cuda.is_available():
        say("boot: no GPU here, so the kernels are loaded and not run")
        return []
    from .correct import twice

    device = torch.device("cuda")
    ran: set[str] = set()
    with watching_units() as served:
        for kernel, case in setting.cases():
            state = case.state(device, setting.generator(device, kernel, case.name, "boot"))
            for rows in case.rows:
                inputs = case.inputs(state, rows, "random", setting.generator(device, kernel, case.name, "boot", rows))
                got = twice(case, state, inputs, found["problems"])
                if rows <= max(case.rows[:3]):
                    found["problems"] += case.compare(state, inputs, got, case.reference(state, inputs)).problems
            ran |= set(served.take())
            torch.cuda.empty_cache()
    return sorted(ran)


def _foreign() -> str:
    """Ask TileLang for a function that nobody has built: sealed, it must be an error that names it."""
    import tilelang  # type: ignore[import-not-found]

    from .foreign import never_built

    try:
        tilelang.compile(never_built(), target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="tvm_ffi")
    except LookupError as error:
        return str(error)
    return "compiled"


def _one_missing(setting: Setting, found: dict[str, Any]) -> None:
    import ds41_kernels

    unit = _units(setting)[0]
    try:
        ds41_kernels.opened().load_all(unit["gpu"])
    except ds41_kernels.KernelMissing as error:
        found["error"] = str(error)
        if error.unit != unit["unit"] or error.key not in unit["keys"].values():
            found["problems"].append(f"the error names another kernel: {error}")
    else:
        found["problems"].append(f"{unit['unit']} was taken out of the cache, and nothing was missed")
