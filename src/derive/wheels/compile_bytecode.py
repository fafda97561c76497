# SPDX-License-Identifier: Apache-2.0
"""Compiles Python sources to checked-hash byte code, each in a fresh fork. Run by the interpreter that will load it.

Edge: processes and files; runs inside the sandbox, on the standard library alone, without site.

    compile_bytecode.py WORKLIST TREE OUT JOBS

WORKLIST holds paths relative to TREE, separated by zero bytes; the byte code of ``a/b.py`` is written to
``OUT/a/__pycache__/b.<tag>.pyc`` and names ``/a/b.py`` as its source. One line is printed for each file that does not
compile: its place in the list (from 0) and the reason. The exit code is 0 also then, and 1 when a compiler crashed.

CPython marks objects in byte code by how often they are referred to, interned names among them, so that what was
compiled before in the same process shows. Here every file is compiled in a fork of a parent that never compiles.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing would be one more import in every fork
if TYPE_CHECKING:
    from collections.abc import Iterator

_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
_AGAIN = "--again"
_MESSAGE_BYTES = 2000  # fits into a pipe that nobody reads yet


def _main(arguments: list[str]) -> int:
    if arguments[:1] != [_AGAIN]:
        # Flags, environment and site packages of the caller would show in the interned names.
        script = os.path.abspath(__file__)  # noqa: PTH100 - pathlib would be one more import in every fork
        os.execve(sys.executable, [sys.executable, "-P", "-S", "-B", script, _AGAIN, *arguments], _ENVIRONMENT)  # noqa: S606
    worklist, tree, out, jobs = arguments[1:]
    with open(worklist, "rb") as file:  # noqa: PTH123
        paths = [path for path in file.read().split(b"\0") if path]
    failed = False
    skipped: dict[int, bytes] = {}
    for index, status, message in _run(os.fsencode(tree), os.fsencode(out), paths, max(1, int(jobs))):
        if status == os.EX_DATAERR:
            skipped[index] = message
        elif status != os.EX_OK:
            failed = True
            sys.stderr.write(f"{os.fsdecode(paths[index])!a}: the compiler ended with {status}: {message!r}\n")
    for index in sorted(skipped):
        sys.stdout.buffer.write(b"%d %s\n" % (index, skipped[index]))
    sys.stdout.buffer.flush()
    return 1 if failed else 0


def _run(tree: bytes, out: bytes, paths: list[bytes], jobs: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield (index, exit code or negative signal, message) for each path, at most ``jobs`` forks at a time."""
    running: dict[int, tuple[int, int]] = {}
    ahead = list(enumerate(paths))[::-1]
    while ahead or running:
        while ahead and len(running) < jobs:
            index, path = ahead.pop()
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                _child(tree, out, path, writer)
            os.close(writer)
            running[child] = (index, reader)
        child, status = os.wait()
        index, reader = running.pop(child)
        message = os.read(reader, _MESSAGE_BYTES)
        os.close(reader)
        yield index, os.waitstatus_to_exitcode(status), message


def _child(tree: bytes, out: bytes, path: bytes, writer: int) -> None:
    """Compile one file and leave; never returns."""
    status = os.EX_SOFTWARE
    message = ""
    try:
        _compile(tree, out, path)
        status = os.EX_OK
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        status = os.EX_DATAERR
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        message = f"{type(error).__name__}: {text}{line}"
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        message = f"{type(error).__name__}: {error}"
    finally:
        clean = message.replace("\n", " ").encode("ascii", "backslashreplace")
        os.write(writer, clean[:_MESSAGE_BYTES])
        os._exit(status)


def _compile(tree: bytes, out: bytes, path: bytes) -> None:
    with open(os.path.join(tree, path), "rb") as file:  # noqa: PTH118, PTH123
        source = file.read()
    final = "/" + os.fsdecode(path)
    code = compile(source, final, "exec", dont_inherit=True, optimize=0)
    data = _pack(code, _source_hash(source), True)
    folder, name = os.path.split(path)
    stem = name.rpartition(b".")[0]
    target = os.path.join(out, folder, b"__pycache__")  # noqa: PTH118
    os.makedirs(target, exist_ok=True)  # noqa: PTH103
    with open(os.path.join(target, stem + b"." + _TAG + b".pyc"), "wb") as file:  # noqa: PTH118, PTH123
        file.write(data)


if __name__ == "__main__":
    import warnings
    from importlib._bootstrap_external import _code_to_hash_pyc as _pack  # type: ignore[attr-defined]
    from importlib.util import source_hash as _source_hash

    warnings.simplefilter("ignore")
    _TAG = os.fsencode(sys.implementation.cache_tag or "")
    sys.exit(_main(sys.argv[1:]))
