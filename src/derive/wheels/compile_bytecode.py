# SPDX-License-Identifier: Apache-2.0
"""Compiles Python sources to checked-hash byte code, each in a fresh fork. Run by the interpreter that will load it.

Edge: processes and pipes; runs inside the sandbox, on the standard library alone, without site.

    compile_bytecode.py REQUESTS REPLIES JOBS

REQUESTS and REPLIES are pipes. All numbers are big-endian. A request is the sizes of a path and of a source (4 bytes
each), then both; the byte code of ``a/b.py`` names ``/a/b.py`` as its source. A reply is the request's place since the
last pause (from 0, 4 bytes), a status (1 byte), a size (4 bytes) and so many bytes: with status 0 the byte code, with 1
why the source does not compile, with 2 how the compiler crashed. A request without a path asks for a pause: it is
answered, with the number of requests before it and status 3, when all of those are. The end of REQUESTS ends it all.

CPython marks objects in byte code by how often they are referred to, and makes a constant anew when a name in it was
known before, so that what was compiled before in the same process shows. Here every source is compiled in a fork of a
parent that compiles none. What the parent knows is the names of Python itself and those in this file: one that comes
or goes is another version of the builder, and so the names here are what they are.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing would be one more import in every fork
if TYPE_CHECKING:
    from io import BufferedReader, BufferedWriter

_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
_AGAIN = "--again"
_MESSAGE_BYTES = 2000


def _main(arguments: list[str]) -> int:
    if arguments[:1] != [_AGAIN]:
        # Flags, environment and site packages of the caller would show in the interned names.
        script = os.path.abspath(__file__)  # noqa: PTH100 - pathlib would be one more import in every fork
        os.execve(sys.executable, [sys.executable, "-P", "-S", "-B", script, _AGAIN, *arguments], _ENVIRONMENT)  # noqa: S606
    reader, writer, jobs = arguments[1:]
    try:  # noqa: SIM105 - contextlib would be one more import in every fork
        # Compiles nothing, and makes the types of syntax trees, once for all forks.
        compile(None, "", "exec")  # type: ignore[call-overload]
    except TypeError:
        pass
    with open(reader, "rb") as tree, open(writer, "wb") as out:  # noqa: PTH123
        _run(tree, out, max(1, int(jobs)))
    return 0


def _run(reader: BufferedReader, writer: BufferedWriter, jobs: int) -> None:
    """Answer requests until there are no more, at most ``jobs`` forks at a time."""
    ahead = [os.memfd_create("") for _ in range(jobs)]  # a fork leaves its answer in a file that only it has
    running: dict[int, tuple[int, int]] = {}
    index = 0
    while len(line := reader.read(8)) == 8:  # two sizes
        path = reader.read(int.from_bytes(line[:4], "big"))
        source = reader.read(int.from_bytes(line[4:], "big"))
        while running and not (path and ahead):
            child, status = os.wait()
            number, file = running.pop(child)
            end(writer, number, os.waitstatus_to_exitcode(status), file)
            ahead.append(file)
        if not path:
            send(writer, index, 3, b"")
            index = 0
            continue
        file = ahead.pop()
        os.lseek(file, 0, os.SEEK_SET)
        child = os.fork()
        if not child:
            _child(path, source, file)
        running[child] = (index, file)
        index += 1


def end(writer: BufferedWriter, index: int, status: int, file: int) -> None:
    """Pass on what a fork left, which ended with an exit code or a negative signal."""
    data = os.pread(file, os.lseek(file, 0, os.SEEK_CUR), 0)
    if status not in {0, 1}:
        data = b"ended with %d %s" % (status, data[:_MESSAGE_BYTES])
        status = 2
    send(writer, index, status, data)


def send(writer: BufferedWriter, index: int, status: int, data: bytes) -> None:
    """Write one reply."""
    writer.write(index.to_bytes(4, "big") + bytes((status,)) + len(data).to_bytes(4, "big"))
    writer.write(data)
    writer.flush()


def _child(path: bytes, source: bytes, file: int) -> None:
    """Compile one source and leave; never returns."""
    status = 2
    message = ""
    data = b""
    try:
        data = _compile(path, source)
        status = 0
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        status = 1
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        message = f"{type(error).__name__}: {text}{line}"
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        message = f"{type(error).__name__}: {error}"
    finally:
        data = data or message.replace("\n", " ").encode("ascii", "backslashreplace")[:_MESSAGE_BYTES]
        try:
            while data:
                data = data[os.write(file, data) :]
        except OSError:
            os.lseek(file, 0, os.SEEK_SET)
            status = 2
        os._exit(status)


def _compile(path: bytes, source: bytes) -> bytes:
    final = "/" + os.fsdecode(path)
    code = compile(source, final, "exec", dont_inherit=True, optimize=0)
    return _pack(code, _source_hash(source), True)  # type: ignore[no-any-return]


if __name__ == "__main__":
    import warnings
    from importlib._bootstrap_external import _code_to_hash_pyc as _pack  # type: ignore[attr-defined]
    from importlib.util import source_hash as _source_hash

    warnings.simplefilter("ignore")
    _TAG = ("clean", "collections", "failed", "folder", "skipped", "stem", "worklist")  # names that version 1 has known
    sys.exit(_main(sys.argv[1:]))
