# SPDX-License-Identifier: Apache-2.0
"""Programs of nodes run where there is nothing but an old Python: their syntax, their imports, how they end."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from derive.deploy import node
from derive.deploy.programs import COMMAND, EFFECTS, PACKAGE, modules, payload, read_answer
from support.node_programs import answered, lease

FOLDER = Path(str(node.__file__)).parent
SOURCES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_program_is_one_that_python_3_8_can_read(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    used = {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    used |= {name.name for one in ast.walk(tree) if isinstance(one, ast.Import) for name in one.names}
    others = {name for name in used if not name.startswith(f"{PACKAGE}.")}
    assert {name.partition(".")[0] for name in others} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_program_calls_nothing_that_python_3_8_has_not(path: Path) -> None:
    newer = {"removeprefix", "removesuffix", "is_relative_to", "readlink_", "bit_count", "pairwise", "batched"}
    tree = ast.parse(path.read_text())
    assert not newer & {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)}
    assert not [
        one for one in ast.walk(tree) if isinstance(one, ast.keyword) and one.arg in ("strict", "slots", "kw_only")
    ]


def test_every_effect_is_a_function_of_its_module() -> None:
    for effect, module in EFFECTS.items():
        text = dict(modules(module))[f"{PACKAGE}.{module}"]
        assert f"\ndef {effect.replace('-', '_')}(given: dict[str, Any]) -> Any:\n" in text


@pytest.mark.parametrize("module", sorted(set(EFFECTS.values())))
def test_a_module_needs_nothing_that_is_not_sent_with_it(module: str) -> None:
    effect = next(name for name, where in EFFECTS.items() if where == module)
    call = json.loads(payload(effect, {}, held=False).partition(b"\n")[2])
    script = "import json, sys\nsys.stdin.read()\n"
    for name, text in call["modules"]:
        quoted = json.dumps(text)
        script += f"import types\nm = sys.modules[{name!r}] = types.ModuleType({name!r})\nm.__path__ = []\n"
        script += f"exec(compile({quoted}, {name!r}, 'exec'), m.__dict__)\n"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", script], input=b"", capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()


def test_words_before_the_answer_are_no_answer(tmp_path: Path) -> None:
    told = b'Welcome!\nderive-answer is what I say\n\nderive-answer {"done": 1}\n'
    assert read_answer(told) == {"done": 1}
    assert read_answer(b"Welcome!\n") is None
    assert read_answer(b"\nderive-answer {\n") is None
    assert answered("lease-read", folder=str(tmp_path)) == {"done": {"lease": None, "damaged": None}}


def test_an_error_of_the_file_system_is_a_refusal_with_a_next_step(tmp_path: Path) -> None:
    fence = lease(tmp_path / "site")
    (tmp_path / "site" / "s").write_text("a file where a folder should be")
    answer = answered("state-write", **fence, service="s", state={})
    assert answer["refused"]["kind"] in ("EEXIST", "ENOTDIR")
    assert "site/s" in answer["refused"]["message"]


def test_when_the_other_side_is_lost_the_program_and_what_it_runs_end(tmp_path: Path) -> None:
    fence = lease(tmp_path / "site")
    mark = tmp_path / "mark"
    argv = ["sh", "-c", f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 60"]
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write(payload("run", {**fence, "argv": argv, "stdin": ""}, held=True))
        running.stdin.flush()
        while not mark.exists():
            assert running.poll() is None
            time.sleep(0.01)
        running.stdin.close()
        assert running.wait() == 75
    pid = int(mark.read_text())
    deadline = time.monotonic() + 5
    while _lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_files_are_read_by_name_and_the_newest_of_a_folder(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / f"{number}.json"
        path.write_text(str(number) * 10)
        os.utime(path, (number, number))
    os.mkfifo(tmp_path / "pipe")
    paths = [str(tmp_path / name) for name in ("0.json", "absent", "pipe")]
    answer = answered("files-read", paths=paths, folders=[str(tmp_path)], newest=2, limit=4)["done"]
    assert sorted(answer) == [str(tmp_path / f"{number}.json") for number in (0, 2, 3)]
    assert (answer[paths[0]]["size"], answer[paths[0]]["data"]) == (10, "MDAwMA==")
