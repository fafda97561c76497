# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.build.builders import VERSIONS
from derive.canonical import Json, sha256
from derive.kernels import drivers
from support.golden import check_golden

ADVICE = """\
the programs that compile kernels are part of the builder's version, and in no derivation's id:
  if what they write can be other bytes, give the builder a new version in derive.build.builders, and name it in
  CHANGELOG.md
  if it cannot (words, a failure told better), accept"""


def test_the_programs_are_those_of_the_builder_s_version() -> None:
    found = {
        "builder": f"kernel/{VERSIONS['kernel']}",
        "environment": dict(drivers.ENVIRONMENT),
        **{part: sha256(drivers.driver(part)).hex for part in ("device", "host")},
    }
    check_golden("kernel-drivers.json", json.dumps(found, indent=1, sort_keys=True) + "\n", advice=ADVICE)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"part": "device", "python": "3.13"}, ("/in/unit/device.py", "/in/unit", "/out")),
        (
            {"part": "host", "python": "3.13", "machine": "aarch64"},
            ("/in/driver/host.py", "/in/device", "aarch64", "/out"),
        ),
    ],
)
def test_a_program_is_run_by_the_root_s_python(arguments: dict[str, Json], command: tuple[str, ...]) -> None:
    assert drivers.command(arguments) == ("/usr/bin/python3.13", "-B", *command)


@pytest.mark.parametrize("part", ["device", "host"])
def test_a_program_knows_nothing_of_the_engine(part: str) -> None:
    text = drivers.driver(part).decode()
    assert "import derive" not in text
    assert "from derive" not in text
