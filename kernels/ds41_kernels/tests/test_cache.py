# SPDX-License-Identifier: Apache-2.0
"""Kernels are read from a folder built beforehand; whatever it cannot give is an error that names it, never a compile.

One trivial kernel is compiled into a folder first; each test reads a copy of it, as another process would.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

tilelang = pytest.importorskip("tilelang")

import tilelang.language as T  # noqa: E402, N812 - TileLang's own habit
from ds41_kernels import cache as runtime  # noqa: E402
from ds41_kernels import sealing  # noqa: E402
from tilelang.jit.adapter.kernel_cache import TVMFFIKernelCache  # noqa: E402

GPU = "sm_90a"
SETTINGS = {"target": {"kind": "cuda", "arch": GPU}, "execution_backend": "tvm_ffi"}


def double(columns: int, threads: int) -> object:
    rows = T.dynamic("rows")

    @T.prim_func
    def doubled(x: T.Tensor((rows, columns), "float32"), y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(rows, threads=threads) as row:
            for i in T.Parallel(columns):
                y[row, i] = x[row, i] * 2.0

    return doubled


def forget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TileLang look into `folder`, with nothing in memory, nothing sealed and nothing counted."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(folder))
    TVMFFIKernelCache()._memory_cache.clear()
    monkeypatch.setattr(sealing._WATCH, "sealed", False)
    monkeypatch.setattr(sealing._WATCH, "hits", 0)
    monkeypatch.setattr(sealing._WATCH, "misses", 0)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("built")
    module = types.ModuleType("ds41_kernels.trivial.kernel")
    module.double = double
    sys.modules["ds41_kernels.trivial"] = types.ModuleType("ds41_kernels.trivial")
    sys.modules["ds41_kernels.trivial.kernel"] = module
    with pytest.MonkeyPatch.context() as patch:
        forget(folder, patch)
        units = [
            unit("few", [1, 64], {"columns": 256, "threads": 64}),
            unit("many", [65, None], {"columns": 256, "threads": 128}),
        ]
    (folder / "ds41-kernels.json").write_text(json.dumps({"derive": "kernel-index/1", "units": units}))
    yield folder
    del sys.modules["ds41_kernels.trivial"], sys.modules["ds41_kernels.trivial.kernel"]


def unit(tile: str, rows: list[int | None], arguments: dict[str, int]) -> dict[str, object]:
    """Compile a tile of the trivial kernel, and describe it as the index does."""
    key = tilelang.compile(double(**arguments), out_idx=None, **SETTINGS)._tilelang_cache_key
    return {
        "unit": f"trivial/double/f32/{tile}/{GPU}",
        "kernel": "trivial",
        "program": "double",
        "function": "double",
        "shape": "f32",
        "tile": tile,
        "gpu": GPU,
        "rows": rows,
        "arguments": arguments,
        "pass-configs": {},
        "compile-flags": [],
        "keys": {os.uname().machine: key},
    }


@pytest.fixture
def folder(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "cache"
    shutil.copytree(built, copy)
    forget(copy, monkeypatch)
    return copy


def entry(folder: Path, tile: str = "few") -> Path:
    """Return the folder of a tile's entry."""
    index = json.loads((folder / "ds41-kernels.json").read_text())
    key = next(one["keys"][os.uname().machine] for one in index["units"] if one["tile"] == tile)
    return folder / tilelang.__version__ / f"linux-{os.uname().machine}" / "kernels" / key


def files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.lstat().st_mtime_ns for path in folder.rglob("*")}


def refused(folder: Path) -> sealing.KernelMissing:
    with pytest.raises(sealing.KernelMissing) as caught:
        runtime.KernelCache(folder).load("trivial", "double", "f32", 3, GPU)
    return caught.value


def test_the_row_count_chooses_the_unit(folder: Path) -> None:
    cache = runtime.KernelCache(folder)
    names = [cache.unit("trivial", "double", "f32", rows, GPU).name.split("/")[3] for rows in (1, 64, 65, 9999)]
    assert names == ["few", "few", "many", "many"]


def test_a_built_kernel_is_loaded_once_and_nothing_is_written(folder: Path) -> None:
    before = files(folder)
    cache = runtime.KernelCache(folder)
    assert cache.load("trivial", "double", "f32", 1, GPU) is cache.load("trivial", "double", "f32", 64, GPU)
    assert [unit.name for unit in cache.load_all(GPU)] == [f"trivial/double/f32/{t}/{GPU}" for t in ("few", "many")]
    assert sealing.counters() == {"hits": 2, "misses": 0}
    assert files(folder) == before


def test_no_row_and_an_unknown_shape_are_told_apart_from_a_missing_entry(folder: Path) -> None:
    cache = runtime.KernelCache(folder)
    for shape, rows in (("f32", 0), ("f64", 1)):
        with pytest.raises(sealing.KernelMissing, match=f"trivial/double/{shape}/\\*/{GPU}: the index has none"):
            cache.load("trivial", "double", shape, rows, GPU)


def test_an_absent_entry_is_an_error_that_names_unit_key_and_folder(folder: Path) -> None:
    path = entry(folder)
    shutil.rmtree(path)
    error = refused(folder)
    assert (error.unit, error.key) == (f"trivial/double/f32/few/{GPU}", path.name)
    assert str(error).startswith(f"kernel trivial/double/f32/few/{GPU}: not in the cache\n  key:    {path.name}\n")
    assert str(folder) in error.folder
    assert not path.exists()
    assert sealing.counters() == {"hits": 0, "misses": 1}


def test_an_index_with_another_key_is_an_error_that_gives_both(folder: Path) -> None:
    file, built_key = folder / "ds41-kernels.json", entry(folder).name
    file.write_text(file.read_text().replace(built_key, "0" * 64))
    error = refused(folder)
    assert error.key == "0" * 64
    assert f"not what was built: its source, TileLang or settings differ (key {built_key})" in error.reason


def test_a_key_in_memory_is_compared_too(folder: Path) -> None:
    runtime.KernelCache(folder).load("trivial", "double", "f32", 1, GPU)
    file, built_key = folder / "ds41-kernels.json", entry(folder).name
    file.write_text(file.read_text().replace(built_key, "0" * 64))
    assert f"TileLang gave key {built_key}" in refused(folder).reason


def test_an_entry_without_a_file_is_named_with_the_file(folder: Path) -> None:
    (entry(folder) / "executable.so").unlink()
    assert "its entry lacks executable.so" in str(refused(folder))


def test_a_damaged_entry_is_refused_and_left_alone(folder: Path) -> None:
    file = entry(folder) / "executable.so"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert "its entry is damaged" in str(refused(folder))
    assert file.read_bytes() == data


def test_an_entry_that_cannot_be_loaded_is_refused_with_the_cause_and_left_alone(folder: Path) -> None:
    path = entry(folder)
    (path / "executable.so").write_bytes(b"no library")
    TVMFFIKernelCache()._write_manifest(str(path))
    assert "its entry cannot be loaded: " in str(refused(folder))
    assert (path / "executable.so").read_bytes() == b"no library"


def test_a_cache_that_is_switched_off_is_an_error_and_no_compile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert "without a look at the cache" in str(refused(folder))


def test_a_kernel_of_another_machine_is_named(folder: Path) -> None:
    file, machine = folder / "ds41-kernels.json", os.uname().machine
    file.write_text(file.read_text().replace(machine, "riscv64"))
    assert refused(folder).reason == f"not built for {machine} (riscv64)"


def test_another_folder_than_tilelangs_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(folder / "elsewhere"))
    with pytest.raises(ValueError, match=r"TILELANG_CACHE_DIR is .*, and these kernels are in "):
        runtime.KernelCache(folder).load("trivial", "double", "f32", 1, GPU)


def test_a_file_that_is_no_index_is_refused(folder: Path) -> None:
    (folder / "ds41-kernels.json").write_text("[]")
    with pytest.raises(ValueError, match="not an index of kernels"):
        runtime.KernelCache(folder)


def test_sealed_a_foreign_kernel_that_is_built_is_loaded_and_one_that_is_not_is_named(folder: Path) -> None:
    sealing.seal()
    assert tilelang.compile(double(columns=256, threads=64), out_idx=None, **SETTINGS)
    assert sealing.counters() == {"hits": 1, "misses": 0}
    before = files(folder)
    with pytest.raises(sealing.KernelMissing, match="kernel function doubled: not in the cache") as caught:
        tilelang.compile(double(columns=512, threads=64), out_idx=None, **SETTINGS)
    assert caught.value.key is not None
    assert len(caught.value.key) == 64
    assert sealing.counters() == {"hits": 1, "misses": 1}
    assert files(folder) == before


@pytest.mark.usefixtures("folder")
def test_sealed_a_compiler_called_past_the_cache_is_an_error() -> None:
    from tilelang.contrib import nvcc

    sealing.seal()
    with pytest.raises(sealing.KernelMissing, match="kernel function probe: nvcc was called for it"):
        nvcc.compile_cuda('extern "C" __global__ void __launch_bounds__(64) probe(int *x) {}', "cubin")


def test_a_read_only_folder_is_enough(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert len(runtime.KernelCache(folder).load_all(GPU)) == 2
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)
