# SPDX-License-Identifier: Apache-2.0
"""Compiles one kernel for one GPU, as TileLang would where it runs, and says what came out. Needs no GPU.

Edge: processes and files; runs inside the sandbox, on what lies in its root, with nothing of the engine.

    device.py UNIT OUT

UNIT holds ``unit.json`` and ``kernel.py``. Written to OUT: ``kernel.cu`` and ``kernel.cubin``, ``host.c`` and
``imports.c`` (the sources of what a host loads: the calling code, and the cubin as a C array), ``params.json`` (as
TileLang's cache holds it), ``kernel.sass``, ``launch.json`` and ``resources.json``.

TileLang's own ``compile`` is called, up to the place where it would look for nvcc and where it would store the entry:
these two functions are ours. What the bytes do not depend on, and how that is seen to, is in
docs/determinism-of-kernels.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

TYPE_CHECKING = False  # typing would be one more import
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, NoReturn

MACHINES = ("aarch64", "x86_64")
"""The machines for which the key of the cache's entry is written down, as Python names them."""

_AGAIN = "--again"
_WORK = Path("/tmp/kernel")  # noqa: S108 - the sandbox's own; nvcc writes it into names of internal linkage
_CUDA = Path(f"/usr/local/lib/python3.{sys.version_info.minor}/dist-packages/nvidia/cu13")
_BIN = _CUDA / "bin"
_ENVIRONMENT = {
    "CUDA_HOME": str(_CUDA),
    "HOME": str(_WORK),
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": "315532800",
    "TILELANG_CACHE_DIR": str(_WORK / "cache"),
    "TILELANG_ENABLE_IR_SPAN": "0",  # else the place of each line of kernel.py is carried along
    "TILELANG_PRINT_ON_COMPILATION": "0",
    "TMPDIR": str(_WORK / "tmp"),
    "TZ": "UTC",
}
"""All of it: TileLang, nvcc and Python each read variables that change what they make."""


@dataclass(frozen=True)
class Usage:
    """What ptxas says that a kernel needs: registers and bytes of a thread, and bytes of shared memory of a block."""

    registers: int
    static_shared_memory: int
    stack: int
    spill_store: int
    spill_load: int


def read_usage(text: str, entry: str) -> Usage:
    """Read what ``ptxas --verbose`` says of the kernel ``entry``; raises ValueError where it says nothing of it.

    Spills are those of the functions that it calls too, which ptxas names after it.
    """
    said = text.partition(f"Compiling entry function '{entry}' for")[2].partition("Compiling entry function")[0]
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
    used = re.search(r"Used (\d+) registers([^\n]*)", said)
    if not frames or used is None:
        raise ValueError(f"ptxas does not say what {entry} uses")
    stack, stores, loads = ([int(frame[index]) for frame in frames] for index in range(3))
    shared = re.search(r"(\d+) bytes smem", used[2])
    return Usage(int(used[1]), int(shared[1]) if shared else 0, stack[0], sum(stores), sum(loads))


def read_instructions(listing: str) -> Iterator[str]:
    """Yield the full name of each instruction in a listing of nvdisasm, such as ``HMMA.16816.F32.BF16``."""
    for line in listing.splitlines():
        found = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+[{]?\s*(?:@!?\w+\s+)?([A-Z][A-Z0-9_.a-z]*)", line)
        if found:
            yield found[1]


def matrix_instructions(names: list[str]) -> dict[str, int]:
    """Count the instructions of the matrix units, by full name, sorted.

    ``HMMA`` is half precision and TF32, ``IMMA`` and ``BMMA`` integers and bits, ``DMMA`` FP64, ``QMMA`` FP8, FP6 and
    FP4, ``OMMA`` FP4 alone; a ``G`` before them (``HGMMA``, ``QGMMA``) is Hopper's warp-group form, and ``.SF`` behind
    them says that the unit applies a scale to each block.
    """
    found = [name for name in names if name.partition(".")[0].endswith("MMA")]
    return {name: found.count(name) for name in sorted(set(found))}


def refusal(options: list[str]) -> str | None:
    """Return why nvcc does not make the same bytes twice with these options; None where it does."""
    for option in options:
        if "split-compile" in option:
            return f"{option} is not for kernels: nvcc makes other machine code at each run"
        if option in {"-G", "--device-debug"}:
            return f"{option} is not for kernels: nvcc writes the names of its temporary files into the cubin"
    return None


def _main(arguments: list[str]) -> int:
    if arguments[:1] != [_AGAIN]:
        script = os.path.abspath(__file__)  # noqa: PTH100 - as it was called
        os.execve(sys.executable, [sys.executable, "-s", "-B", script, _AGAIN, *arguments], _ENVIRONMENT)  # noqa: S606
    source, out = map(Path, arguments[1:])
    shutil.rmtree(_WORK, ignore_errors=True)  # of a run before this one, in a person's shell
    for folder in ("cache", "tmp"):
        (_WORK / folder).mkdir(parents=True)
    os.chdir(_WORK)
    unit = json.loads((source / "unit.json").read_text())
    compiled = _compile(_function(source / "kernel.py", unit), unit)
    for name, data in compiled.items():
        (out / name).write_bytes(data)
    return 0


def _function(path: Path, unit: Mapping[str, Any]) -> Any:
    """Return the program of a unit, made by its function in the kernel's code."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["kernel"] = module
    spec.loader.exec_module(module)
    make = getattr(module, unit["function"], None)
    if make is None:
        _leave(f"kernel.py has no function {unit['function']!r}")
    return make(**unit["arguments"])


def _compile(program: Any, unit: Mapping[str, Any]) -> dict[str, bytes]:
    """Compile as ``tilelang.compile`` does; returns the files by name."""
    tilelang = import_module("tilelang")
    version = import_module("tilelang.cache.binary_cache").BinaryCache._format_version_namespace(tilelang.__version__)  # noqa: SLF001
    keys: dict[str, str] = {}
    kernels: list[Any] = []
    said: list[str] = []
    _take_over(keys, kernels, said)
    tilelang.compile(
        program,
        target={"kind": "cuda", "arch": unit["gpu"]},
        execution_backend="tvm_ffi",
        pass_configs=unit["pass-configs"] or None,
        compile_flags=unit["compile-flags"] or None,
    )
    artifact = kernels[0].artifact
    function = _device_function(artifact.device_mod)
    entry = str(function.attrs["global_symbol"])
    listing = _run([_BIN / "nvdisasm", "--print-code", "--no-dataflow", "kernel.cubin"])
    launch = {
        "version": version,
        "keys": keys,
        "binary-key": next((_WORK / "cache" / version / "cuda-binaries").iterdir()).name,
        "entry": entry,
        **_launch(function),
    }
    return {
        **_sources(artifact),
        "kernel.sass": listing,
        "launch.json": _json(launch),
        "resources.json": _resources(listing, read_usage("\n".join(said), entry), tilelang.__version__),
    }


def _take_over(keys: dict[str, str], kernels: list[Any], said: list[str]) -> None:
    """Have TileLang compute the keys of both machines, hand over what it would store, and compile by our nvcc."""
    cache = import_module("tilelang.cache.kernel_cache").KernelCache
    nvcc: Any = import_module("tilelang.contrib.nvcc")
    platform: Any = import_module("platform")
    generate, native = cache._generate_key, platform.machine  # noqa: SLF001

    def generate_key(*arguments: Any, **options: Any) -> str:
        for machine in MACHINES:
            platform.machine = lambda machine=machine: machine
            keys[machine] = generate(*arguments, **options)
        platform.machine = native
        return keys[native()]

    def store(_cache: Any, _key: str, kernel: Any, *_rest: Any) -> None:
        kernels.append(kernel)

    def compile_cuda(code: str, form: str, arch: list[str], options: list[str], **_rest: Any) -> bytearray:
        if form != "cubin":
            _leave(f"a unit is for one architecture, and this one asks for a {form}")
        if (reason := refusal(options)) is not None:
            _leave(reason)
        said.extend(_nvcc(code, [*arch, *options]))
        return bytearray(Path("kernel.cubin").read_bytes())

    cache._generate_key = generate_key  # noqa: SLF001
    cache._save_kernel_to_disk = store  # noqa: SLF001
    nvcc.compile_cuda = compile_cuda


def _nvcc(code: str, options: list[str]) -> list[str]:
    """Compile CUDA to a cubin with TileLang's options, but for line info; returns what ptxas says.

    The folder and the name are fixed: they enter the names of what has internal linkage.
    """
    Path("kernel.cu").write_text(code)
    epoch = int(_ENVIRONMENT["SOURCE_DATE_EPOCH"])
    os.utime("kernel.cu", (epoch, epoch))  # line tables, where a kernel asks for them, hold the source's time
    command: list[str | Path] = [_BIN / "nvcc", "-ccbin=/usr/bin/g++", "--cubin", "-O3", *options]
    output = _run([*command, "--ptxas-options=--verbose", "-o", "kernel.cubin", "kernel.cu"])
    # The rest is what the front end warns of in TileLang's and NVIDIA's own headers.
    said = re.findall(r"^ptxas.*|^ .* bytes stack frame.*", output.decode(), re.MULTILINE)
    sys.stdout.write("".join(f"{line}\n" for line in said))
    return said


def _device_function(module: Any) -> Any:
    """Return the one function that runs on the GPU."""
    functions = list(module.functions.values())
    if len(functions) != 1:
        _leave(f"a program starts one kernel, and this one has {len(functions)}")
    return functions[0]


def _launch(function: Any) -> dict[str, Any]:
    """Return the launch as far as it is known: a size that depends on the arguments is its formula in ``grid``."""

    def size(value: Any) -> int | str:
        return int(value) if re.fullmatch(r"\d+", str(value)) else str(value)

    extents = {str(name): size(value) for name, value in function.attrs["thread_extent"].items()}
    grid, block = ([extents.get(f"{of}.{axis}", 1) for axis in "xyz"] for of in ("blockIdx", "threadIdx"))
    dynamic = size(function.attrs.get("dyn_shared_memory_buf", 0))
    return {
        "grid": grid,
        "block": block if all(isinstance(extent, int) for extent in block) else None,
        "dynamic-shared-memory": dynamic if isinstance(dynamic, int) else None,
    }


def _resources(listing: bytes, usage: Usage, tilelang: str) -> bytes:
    names = list(read_instructions(listing.decode()))
    facts = {
        "registers": usage.registers,
        "static-shared-memory-bytes": usage.static_shared_memory,
        "spill-store-bytes": usage.spill_store,
        "spill-load-bytes": usage.spill_load,
        "stack-bytes": usage.stack,
        "sass-sha256": hashlib.sha256(listing).hexdigest(),
        "instructions": len(names),
        "matrix-instructions": matrix_instructions(names),
        "compiler": {"nvcc": _version("nvcc"), "ptxas": _version("ptxas"), "tilelang": tilelang},
    }
    return _json(facts)


def _sources(artifact: Any) -> dict[str, bytes]:
    """Return what was compiled for the GPU, and what is to be compiled for a host."""
    pack = import_module("tvm.runtime._ffi_api").ModulePackImportsToC
    dump = import_module("tilelang.engine.param").dump_kernel_params
    return {
        "kernel.cu": Path("kernel.cu").read_bytes(),
        "kernel.cubin": Path("kernel.cubin").read_bytes(),
        "host.c": artifact.rt_mod.inspect_source().encode(),
        "imports.c": pack(artifact.rt_mod, False, "").encode(),
        "params.json": dump(artifact.params).encode(),
    }


def _version(program: str) -> str:
    found = re.search(r"\bV(\d+(?:\.\d+)+)", _run([_BIN / program, "--version"]).decode())
    if found is None:
        _leave(f"{program} does not say its version")
    return found[1]


def _run(command: list[str | Path]) -> bytes:
    """Run a program and return what it said; where it fails, say that and leave."""
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if ended.returncode:
        said = ended.stdout.decode(errors="replace").rstrip()
        _leave(f"{said}\n{Path(command[0]).name} ended with {ended.returncode}")
    return ended.stdout


def _leave(message: str) -> NoReturn:
    """End at once: through TileLang's compiled code, an exception would bury the message under its own traces."""
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()
    os._exit(1)


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


if __name__ == "__main__":
    ended = _main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(ended)  # what TileLang and torch do at the end of a process takes a second, and all is written
