# SPDX-License-Identifier: Apache-2.0
"""Variables that a wheel reads, found in its sources and in the texts of its compiled libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.argument_trees import run_script

METADATA = "Metadata-Version: 2.4\nName: Small_Wheel.x\nVersion: 1.2\n\nName: not this\n"


def wheel(folder: Path, files: dict[str, str | bytes]) -> Path:
    for path, data in {"small-1.2.dist-info/METADATA": METADATA, **files}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def read(folder: Path, files: dict[str, str | bytes], **environment: str) -> Any:
    out = folder / "out"
    out.mkdir()
    done = run_script("variables.py", wheel(folder / "tree", files), out, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "small-wheel-x.json").read_bytes())


@pytest.fixture(scope="module")
def python_variables(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    source = """
import os
from os import environ, getenv
NAMED = "BY_CONSTANT"
def flag(name, default=False):
    return os.environ.get(name, default)
def number(name):
    return int(flag(name))
def first(*names):
    return next(os.environ[name] for name in names)
a = os.environ.get("DIRECT", "1")
b = os.environ["SUBSCRIPT"]
c = getenv("FUNCTION")
d = "ASKED" in os.environ
e = environ.setdefault("SET_DEFAULT", "x")
f = os.environ.get(NAMED)
g = flag("BY_HELPER")
h = number("BY_SECOND_HELPER")
SEVERAL = ["ONE_OF_LIST", "OTHER_OF_LIST"]
for each in SEVERAL:
    print(os.environ.get(each))
m = [os.getenv(each) for each in ("ONE_OF_TUPLE", "OTHER_OF_TUPLE")]
def inside():
    WITHIN = "BY_INNER_CONSTANT"
    return os.getenv(WITHIN)
i = first("FIRST_OF", "SECOND_OF")
j = registered("not read", env_name_force="BY_KEYWORD")
k = env_bool("BY_NAME", 1)
os.environ["ONLY_SET"] = "1"
print("ONLY_SAID", "in", here)
l = env_bool("lower")
"""
    folder = tmp_path_factory.mktemp("python")
    files: dict[str, str | bytes] = {"a.py": source, "broken.py": "print 'getenv'", "empty.py": ""}
    files["x/tests/t.py"] = 'import os\nos.getenv("ONLY_IN_TESTS")'
    return set(read(folder, files)["variables"])


@pytest.mark.parametrize(
    "name",
    """DIRECT SUBSCRIPT FUNCTION ASKED SET_DEFAULT BY_CONSTANT BY_HELPER BY_SECOND_HELPER FIRST_OF SECOND_OF BY_KEYWORD
    BY_NAME BY_INNER_CONSTANT ONE_OF_LIST OTHER_OF_LIST""".split(),  # noqa: SIM905 - a list of words
)
def test_each_way_of_reading_is_found(python_variables: set[str], name: str) -> None:
    assert name in python_variables


@pytest.mark.parametrize("name", ["ONLY_SET", "ONLY_SAID", "ONLY_IN_TESTS", "lower", "name", "NAMED"])
def test_what_is_only_set_or_said_is_not(python_variables: set[str], name: str) -> None:
    assert name not in python_variables


def test_names_that_a_wheel_composes_have_the_beginning_that_is_declared(tmp_path: Path) -> None:
    source = 'x = get_env(f"{prefix}_CACHE")\ny = env_var("ARCH")\nz = os.environ.get("CUTE_X")\n'
    assert set(read(tmp_path, {"a.py": source}, FAMILIES="CUTE")["variables"]) == {"CUTE_CACHE", "CUTE_ARCH", "CUTE_X"}


def test_sources_in_c_and_libraries_are_read_and_each_variable_names_its_first_file(tmp_path: Path) -> None:
    library = b"\0NCCL_ALGO\0NCCL_DEBUG set to %s\0xNCCL_TAIL\0MY_NCCL_NET\0NCCL_NET\0OTHER_THING\0by NCCL_HCA\0"
    files: dict[str, str | bytes] = {
        "a/x.cu": 'auto y = std::getenv("FROM_CUDA"); auto z = getenv(name);',
        "b/lib/liby.so.2": library,
        "a.py": 'import os\nos.getenv("NCCL_ALGO")',
    }
    found = read(tmp_path, files, LIBRARIES="b/lib/*.so.*", PREFIXES="NCCL_")
    assert found == {
        "version": "1.2",
        "wheel": "small-wheel-x",
        "variables": {
            "FROM_CUDA": "a/x.cu",
            "NCCL_ALGO": "a.py",
            "NCCL_HCA": "b/lib/liby.so.2",
            "NCCL_NET": "b/lib/liby.so.2",
        },
    }


def test_a_library_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = run_script("variables.py", wheel(tmp_path / "tree", {}), tmp_path, LIBRARIES="lib/*.so", PREFIXES="X_")
    assert done.returncode == 1
    assert "no library is named lib/*.so" in done.stderr


def test_locale_folder_order_and_hash_seed_decide_no_byte(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        f"{name}.py": f"import os\nos.getenv('SHARED')\nos.getenv('ONLY_{name.upper()}')" for name in ("b", "a", "c")
    }
    made = []
    for index, (order, locale) in enumerate(((files, "C"), (dict(reversed(files.items())), "C.UTF-8"))):
        out = tmp_path / f"out{index}"
        out.mkdir()
        tree = wheel(tmp_path / f"tree{index}", order)
        assert run_script("variables.py", tree, out, LC_ALL=locale, PYTHONHASHSEED=str(index)).returncode == 0
        made.append((out / "small-wheel-x.json").read_bytes())
    assert made[0] == made[1]
    assert json.loads(made[0])["variables"]["SHARED"] == "a.py"
