# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled for real, without a GPU: the same bytes every time, and taken by TileLang without a compile."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from derive.kernels import drivers
from derive.sandbox.bwrap import Bubblewrap
from derive.sandbox.outcome import Exited
from derive.sandbox.request import Program, RootEntry, RootFile, RootFolder, RootLink, SandboxRequest
from derive.sandbox.scratch import scratch_folders
from derive.sandbox.spec import sandbox_spec
from derive.trees.materialise import remove_folder
from support.kernel_root import kernel_root

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

KERNEL = '''\
import tilelang.language as T

HELPER = """
namespace { __device__ const float table[2] = {1.0f, 2.0f}; }
__device__ __noinline__ float pick(int which) { return table[which & 1] + __TIME__[6] * 10 + __TIME__[7]; }
"""


def gemm(columns, depth, threads):
    rows = T.dynamic("rows")

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "bfloat16"),
        B: T.Tensor((columns, depth), "bfloat16"),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(columns // 64, T.ceildiv(rows, 64), threads=threads) as (bx, by):
            T.import_source(HELPER)
            a_tile = T.alloc_shared((64, 64), "bfloat16")
            b_tile = T.alloc_shared((64, 64), "bfloat16")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for step in T.Pipelined(depth // 64, num_stages=2):
                T.copy(A[by * 64, step * 64], a_tile)
                T.copy(B[bx * 64, step * 64], b_tile)
                T.gemm(a_tile, b_tile, total, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                total[i, j] = total[i, j] * T.call_extern("float32", "pick", rows)
            T.copy(total, C[by * 64, bx * 64])

    return main
'''

UNIT = {
    "function": "gemm",
    "gpu": "sm_121a",
    "arguments": {"columns": 128, "depth": 256, "threads": 128},
    "pass-configs": {},
    "compile-flags": ["-lineinfo"],
}
OTHER = {**UNIT, "gpu": "sm_90a", "compile-flags": []}

LOADED = """
import importlib.util, json, os, sys

import tilelang

def refuse(*arguments, **_):
    raise SystemExit(f"a program was to be started: {arguments}")

import subprocess
subprocess.Popen.__init__ = os.execve = os.posix_spawn = refuse
spec = importlib.util.spec_from_file_location("package.of.another.name", "/in/kernel/moved.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
unit = json.load(open("/in/kernel/unit.json"))
kernel = tilelang.compile(
    module.gemm(**unit["arguments"]),
    target={"kind": "cuda", "arch": unit["gpu"]},
    execution_backend="tvm_ffi",
    compile_flags=unit["compile-flags"],
)
try:
    kernel(1, 2, 3)
except RuntimeError as error:
    print(error)
imports = [one.kind for one in kernel.adapter.executable.imports]
print(json.dumps({"key": kernel._tilelang_cache_key, "imports": imports}))
"""

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """Runs programs in the compiler's root; ``place`` is where their folders lie, ``cpus`` what they may run on."""

    root: Path
    sandbox: Bubblewrap
    place: Path
    cpus: frozenset[int]
    jobs: int = 2

    def run(self, argv: tuple[str, ...], inputs: Mapping[str, Path], environment: Mapping[str, str]) -> Ran:
        """Run a program and return what it left in its output folder, and what it said."""
        os.sched_setaffinity(0, self.cpus)  # of this thread, and of what it starts
        self.place.mkdir(parents=True, exist_ok=True)
        said: list[str] = []
        with scratch_folders(self.place) as scratch:
            request = SandboxRequest(
                root=os.fsencode(self.root),
                root_entries=tuple(entries(self.root)),
                inputs={name: os.fsencode(path) for name, path in inputs.items()},
                work=os.fsencode(scratch.work),
                out=os.fsencode(scratch.out),
                devices=None if scratch.devices is None else os.fsencode(scratch.devices),
                command=Program(argv=argv),
                environment={**drivers.ENVIRONMENT, **environment},
                jobs=self.jobs,
            )
            outcome = self.sandbox.run(
                sandbox_spec(request), log=lambda line: said.append(line.decode(errors="replace")), timeout_s=300
            )
            assert outcome == Exited(0), "\n".join(said[-20:])
            left = {str(path.relative_to(scratch.out)): path for path in sorted(scratch.out.rglob("*"))}
            return Ran({name: path.read_bytes() for name, path in left.items() if path.is_file()}, tuple(said))

    def device(self, folder: Path, unit: Mapping[str, object]) -> Ran:
        """Compile a unit for its GPU; ``folder`` is made to hold it."""
        write(
            folder, {"device.py": drivers.driver("device"), "unit.json": document(unit), "kernel.py": KERNEL.encode()}
        )
        return self.run(drivers.command({"part": "device", "python": "3.13"}), {"unit": folder}, {})

    def host(self, folder: Path, device: Files, machine: str) -> Ran:
        """Compile a host's part of what was compiled for a GPU; ``folder`` is made to hold it."""
        write(folder / "driver", {"host.py": drivers.driver("host")})
        write(folder / "device", device)
        command = drivers.command({"part": "host", "python": "3.13", "machine": machine})
        return self.run(command, {"driver": folder / "driver", "device": folder / "device"}, {})


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program left, by path, and the lines that it said."""

    files: Files
    said: tuple[str, ...]


def entries(root: Path) -> Iterator[RootEntry]:
    for path in sorted(root.iterdir()):
        name = os.fsencode(path.name)
        if path.is_symlink():
            yield RootLink(name=name, target=os.fsencode(path.readlink()))
        elif path.is_dir():
            yield RootFolder(name=name, empty=not any(path.iterdir()))
        else:
            yield RootFile(name=name)


def write(folder: Path, files: Files) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def document(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture(scope="module")
def compiler(sandbox: Bubblewrap, tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    place = tmp_path_factory.mktemp("compiler")
    return Compiler(root=kernel_root(), sandbox=sandbox, place=place, cpus=frozenset(os.sched_getaffinity(0)), jobs=2)


@pytest.fixture(scope="module")
def compiled(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The unit for sm_121a, compiled alone, on every CPU."""
    return compiler.device(tmp_path_factory.mktemp("unit"), UNIT)


@pytest.fixture(scope="module")
def pair(compiler: Compiler, compiled: Ran, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Ran]:
    """The unit again, and at the same time another whose source has the same name, elsewhere and on one CPU."""
    assert compiled.files
    place = tmp_path_factory.mktemp("pair")
    elsewhere = replace(
        compiler, place=place / "caf\u00e9 of another length" / "deep", cpus=frozenset({max(compiler.cpus)}), jobs=1
    )
    with ThreadPoolExecutor(2) as pool:
        again = pool.submit(elsewhere.device, place / "again", UNIT)
        other = pool.submit(elsewhere.device, place / "other", OTHER)
    return again.result(), other.result()


@pytest.fixture(scope="module")
def entry(compiler: Compiler, compiled: Ran, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Its place in the cache of an x86-64 host."""
    return compiler.host(tmp_path_factory.mktemp("host"), compiled.files, "x86_64")


def test_bytes_are_the_same_in_another_folder_at_another_time_on_one_cpu_beside_a_unit_of_one_base_name(
    compiled: Ran, pair: tuple[Ran, Ran]
) -> None:
    assert pair[0].files == compiled.files
    cubin = compiled.files["kernel.cubin"]
    assert b"_9_kernel_cu_" in cubin, "names that hold a digest of the source's path are what is put to the test"
    assert b".debug_line" in cubin, "as is the source's time, which line tables hold"


def test_no_place_of_the_build_is_in_an_output_nor_are_there_line_tables_unasked(pair: tuple[Ran, Ran]) -> None:
    files = pair[1].files
    for place in (b"/tmp", b"/in/", b"/out", b"/build", b"tmpxft", b".debug_line"):
        assert not [name for name, data in files.items() if place in data], place


def test_matrix_instructions_are_those_of_the_architecture(compiled: Ran, pair: tuple[Ran, Ran]) -> None:
    assert matrix(compiled) == {"HMMA.16816.F32.BF16"}
    assert matrix(pair[1]) == {"HGMMA.64x64x16.F32.BF16"}


def matrix(ran: Ran) -> set[str]:
    return set(json.loads(ran.files["resources.json"])["matrix-instructions"])


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_a_host_s_part_is_the_same_again_and_for_its_machine(
    compiler: Compiler, pair: tuple[Ran, Ran], tmp_path: Path, machine: str, number: int
) -> None:
    device = pair[1].files
    first = compiler.host(tmp_path / "first", device, machine)
    elsewhere = replace(compiler, place=tmp_path / "x" / "y", cpus=frozenset({min(compiler.cpus)}), jobs=1)
    assert elsewhere.host(tmp_path / "second", device, machine).files == first.files
    key = json.loads(device["launch.json"])["keys"][machine]
    library = first.files[f"0.1.15/linux-{machine}/kernels/{key}/executable.so"]
    assert struct.unpack_from("<H", library, 18) == (number,)
    assert b"GNU\0" not in library, "a build id is a note of this owner"
    assert not [place for place in (b"/tmp", b"/usr", b"/in/", b"/out", b"/build") if place in library]


def test_tilelang_takes_the_entry_from_a_read_only_folder_and_starts_no_program(
    compiler: Compiler, compiled: Ran, entry: Ran, tmp_path: Path
) -> None:
    write(tmp_path / "kernel", {"moved.py": KERNEL.encode(), "unit.json": document(UNIT), "load.py": LOADED.encode()})
    write(tmp_path / "cache", entry.files)
    (tmp_path / "cache/0.1.15/linux-x86_64/.staging").mkdir()
    ran = compiler.run(
        ("/usr/bin/python3.13", "-B", "/in/kernel/load.py"),
        {"kernel": tmp_path / "kernel", "cache": tmp_path / "cache"},
        {"TILELANG_CACHE_DIR": "/in/cache"},
    )
    assert "kernel main input A expected pointer or tensor handle" in ran.said
    key = json.loads(compiled.files["launch.json"])["keys"]["x86_64"]
    assert json.loads(ran.said[-1]) == {"key": key, "imports": ["cuda"]}
    remove_folder(tmp_path / "cache")


def test_a_kernel_that_does_not_compile_ends_with_the_compiler_s_words(compiler: Compiler, tmp_path: Path) -> None:
    unit = {**UNIT, "compile-flags": ["--no-such-option"]}
    with pytest.raises(AssertionError, match=r"(?s)Unknown option '--no-such-option'.*nvcc ended with 1"):
        compiler.device(tmp_path / "unit", unit)
