# SPDX-License-Identifier: Apache-2.0
"""Keeps TileLang from compiling: what is not in its cache becomes an error that names it, and nothing there is removed.

TileLang has one cache per process, so what watches it is one per process, too. It stands at three places of TileLang:
where an entry of the cache is read, where a function is about to be lowered, and where a compiler is called. Those are
passed by every kernel of the process, whoever wrote it (vLLM's, tile-kernels', ours).
"""

from __future__ import annotations

import functools
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TILELANG = "0.1.15"
"""The TileLang whose inner parts are named here; another is refused rather than half watched."""


class KernelMissing(LookupError):
    """A kernel that the cache cannot give. `unit` names it; `key` is None where none can be known."""

    def __init__(self, unit: str, *, key: str | None, folder: str | Path, reason: str) -> None:
        super().__init__(unit, key, str(folder), reason)
        self.unit, self.key, self.folder, self.reason = unit, key, str(folder), reason

    def __str__(self) -> str:
        return f"kernel {self.unit}: {self.reason}\n  key:    {self.key or 'none'}\n  folder: {self.folder}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The one entry that may be read while it stands: `key` as the cache's index says."""

    unit: str
    key: str


@dataclass(slots=True)
class Watch:
    """What was seen of TileLang's cache in this process.

    `hits` are entries read from the folder, `misses` requests that no entry answered (each an error while sealed or
    while one of our kernels is loaded). A kernel asked for again is answered from memory and counts as neither.
    """

    hits: int = 0
    misses: int = 0
    sealed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    here: threading.local = field(default_factory=threading.local)

    def expected(self) -> Expected | None:
        """Return what this thread is loading, if it is one of our kernels."""
        return getattr(self.here, "expected", None)

    def guards(self) -> bool:
        """Say whether this thread may not compile."""
        return self.sealed or self.expected() is not None

    def count(self, *, hit: bool) -> None:
        """Count one answer of the cache."""
        with self.lock:
            if hit:
                self.hits += 1
            else:
                self.misses += 1


_WATCH = Watch()


def counters() -> Mapping[str, int]:
    """Return `hits` and `misses` of TileLang's cache since it is watched: see :class:`Watch`."""
    with _WATCH.lock:
        return {"hits": _WATCH.hits, "misses": _WATCH.misses}


def seal() -> None:
    """From now on no TileLang kernel is compiled in this process, whoever asks for it. There is no way back.

    Raises afterwards, wherever one would be: :class:`KernelMissing`.
    """
    install()
    _WATCH.sealed = True


@contextmanager
def expecting(unit: str, key: str) -> Iterator[None]:
    """While this lasts, this thread reads the entry `key` of TileLang's cache, or gets a :class:`KernelMissing`."""
    install()
    before = _WATCH.expected()
    _WATCH.here.expected = Expected(unit=unit, key=key)
    try:
        yield
    finally:
        _WATCH.here.expected = before


@functools.cache
def install() -> None:
    """Stand at TileLang's three places, once.

    Raises:
        RuntimeError: for a TileLang other than the one whose parts are known here.
    """
    import tilelang
    from tilelang.cache import kernel_cache
    from tilelang.contrib import nvcc
    from tilelang.jit.kernel import JITKernel
    from tvm.contrib import cc

    if tilelang.__version__.partition("+")[0] != TILELANG:
        raise RuntimeError(f"TileLang {tilelang.__version__} is here, and {TILELANG} is the one that can be watched")
    cache = kernel_cache.KernelCache
    cache._load_kernel_from_disk = _reading(cache._load_kernel_from_disk)  # noqa: SLF001 - no public way in
    cache._build_kernel = _building(cache._build_kernel)  # noqa: SLF001
    kernel_cache.shutil = _Removal()
    JITKernel._compile_and_create_adapter = _compiling(JITKernel._compile_and_create_adapter)  # noqa: SLF001
    nvcc.compile_cuda = _calling("nvcc", nvcc.compile_cuda)
    cc.create_shared = _calling("the C compiler", cc.create_shared)


def _reading(read: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(read)
    def reading(self: Any, key: str, *args: Any, **kwargs: Any) -> Any:
        if not _WATCH.guards():
            kernel = read(self, key, *args, **kwargs)
            _WATCH.count(hit=kernel is not None)
            return kernel
        unit = _unit_of(kwargs.get("func") or (args[4] if len(args) > 4 else None))
        path = Path(self._get_cache_path(key))
        try:
            _require_entry(self, unit, key, path)
            _WATCH.here.failure = None
            kernel = read(self, key, *args, **kwargs)
            if kernel is None:
                failure = _WATCH.here.failure
                reason = f"its entry cannot be loaded: {failure}" if failure else "its entry cannot be loaded"
                raise KernelMissing(unit, key=key, folder=path, reason=reason) from failure  # noqa: TRY301 - counted below
        except KernelMissing:
            _WATCH.count(hit=False)
            raise
        _WATCH.count(hit=True)
        return kernel

    return reading


def _require_entry(cache: Any, unit: str, key: str, path: Path) -> None:
    """Refuse an entry under another key than the one that was built, and one that is absent or not whole."""
    expected = _WATCH.expected()
    if expected is not None and expected.key != key:
        reason = f"what is asked for is not what was built: its source, TileLang or settings differ (key {key})"
        raise KernelMissing(unit, key=expected.key, folder=path.parent, reason=reason)
    if not path.is_dir():
        raise KernelMissing(unit, key=key, folder=path.parent, reason="not in the cache")
    absent = sorted(Path(file).name for file in cache._get_missing_complete_cache_files(str(path)))  # noqa: SLF001 - TileLang has no other way
    if absent:
        raise KernelMissing(unit, key=key, folder=path, reason=f"its entry lacks {', '.join(absent)}")
    if not cache._verify_cache_dir_integrity(str(path)):  # noqa: SLF001 - likewise
        raise KernelMissing(
            unit, key=key, folder=path, reason="its entry is damaged: a file is not as its manifest says"
        )


def _building(build: Callable[..., Any]) -> Callable[..., Any]:
    """Keep why an entry could not be loaded, which TileLang only logs."""

    @functools.wraps(build)
    def building(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return build(self, *args, **kwargs)
        except Exception as error:
            _WATCH.here.failure = error
            raise

    return building


def _compiling(compile_: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compile_)
    def compiling(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        if _WATCH.guards():
            _WATCH.count(hit=False)
            expected = _WATCH.expected()
            key = expected.key if expected is not None else None
            reason = "it would be compiled without a look at the cache (is TILELANG_DISABLE_CACHE set?)"
            raise KernelMissing(_unit_of(func), key=key, folder=_folder(), reason=reason)
        return compile_(self, func, *args, **kwargs)

    return compiling


def _calling(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def calling(*args: Any, **kwargs: Any) -> Any:
        if _WATCH.guards():
            _WATCH.count(hit=False)
            found = re.search(r"__global__[^;{]*?\b(?!__)(\w+)\s*\(", str(args[0])) if args else None
            unit = f"function {found[1]}" if found else _unit_of(None)
            raise KernelMissing(unit, key=None, folder=_folder(), reason=f"{what} was called for it")
        return call(*args, **kwargs)

    return calling


class _Removal:
    """`shutil` as TileLang's cache sees it: an entry that it finds bad is left alone while it may not compile."""

    def __getattr__(self, name: str) -> Any:
        return getattr(shutil, name)

    @staticmethod
    def rmtree(path: str, *args: Any, **kwargs: Any) -> None:
        """Remove a folder, unless this thread may not compile: then the entry is evidence."""
        if not _WATCH.guards():
            shutil.rmtree(path, *args, **kwargs)


def _unit_of(func: Any) -> str:
    """Name what is asked for: our unit, else the function as its author called it."""
    expected = _WATCH.expected()
    if expected is not None:
        return expected.unit
    attributes = getattr(func, "attrs", None)
    symbol = attributes.get("global_symbol") if attributes is not None else None
    return f"function {symbol or 'without a name'}"


def _folder() -> str:
    from tilelang import env

    return str(env.TILELANG_CACHE_DIR)
