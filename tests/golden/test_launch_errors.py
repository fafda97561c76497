# SPDX-License-Identifier: Apache-2.0
"""What is said where launch files go wrong, as a person meets it: one file for each class of error.

Schemas, templates and values that no form can hold, files to import, what is to be proved, what is to be compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest, sha256
from derive.cli.console import print_error
from derive.cli.launching import launching as operands
from derive.errors import DeriveError, InputErrors, Missing
from derive.importing.plan import Request, Source, import_files
from derive.importing.write import read_sources, write_new
from derive.operands import Launching, Working, parse_launching
from derive.prove.judge import lines
from derive.prove.service import Question, prove
from derive.recipes.resolved import Origin
from derive.render.bundle import bundle
from derive.render.chosen import Chosen
from derive.render.folder import write_folder
from derive.render.inputs import Inputs, read_inputs
from derive.render.judgement import Judgement
from derive.render.service import render
from derive.render.templates import template_problems
from derive.schema.check import problems as schema_problems
from derive.schema.model import load_schema
from derive.shapes.find import Places, compare_launching
from support.cli import CHECKOUT
from support.former import cluster, encoded, node_map
from support.golden import check_golden
from support.launching import example_site, project_fabric, project_files, project_shape, write_files

IMAGE = sha256(b"an image")
NOWHERE = {"HOME": "/nonexistent"}
SCHEMA = "recipes/ds41f.schema.json"


class Telling:
    """Refusals as they are printed, with no path of this machine in them."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        """Print through ``capsys``; ``folder`` is where a test keeps its files."""
        self._capsys, self._folder, self._parts = capsys, str(folder), list[str]()

    def add(self, error: DeriveError) -> None:
        """Take what is said of one error."""
        print_error(error)
        self._parts.append(self._capsys.readouterr().err)

    def refused(self, ask: Callable[[], object]) -> None:
        """Ask for what must be refused as wrong input."""
        with pytest.raises(InputErrors) as caught:
            ask()
        self.add(caught.value)

    def check(self, name: str) -> None:
        """Compare everything that was said with what was reviewed."""
        text = "\n".join(self._parts).replace(self._folder, "FOLDER").replace(str(CHECKOUT), "PROJECT")
        check_golden(f"launch_errors/{name}.txt", text)


@pytest.fixture
def telling(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Telling:
    return Telling(capsys, tmp_path)


def not_derived(_: Inputs) -> Digest:
    raise Missing("not derived")


def test_what_the_pinned_schema_does_not_take_is_told_with_the_nearest_and_what_became_of_it(telling: Telling) -> None:
    shape = project_shape("ds41f", "tp4-ring")
    wrong: dict[str, Any] = {
        "max-num-seq": 16,
        "max-parallel-prefills": 1,
        "tokenizer-mode": 3,
        "dtype": "bfloat61",
        "gpu-memory-utilization": "most",
        "enable-prefix-caching": "yes",
        "speculative-config": {"method": "dspork", "num_speculative_token": 5},
        "kv-cache-memory-bytes": [1, 2],
        "port": 8000,
    }
    said = {"VLLM_USE_V2_MODEL_RUNER": "1", "VLLM_ENGINE_READY_TIMEOUT_S": "an hour", "B12X_AUTOTUNE": "0"}
    changed = replace(shape, arguments=wrong, environment=said, origins={})
    schema = load_schema(project_files()[SCHEMA], SCHEMA)
    telling.add(InputErrors(schema_problems(changed, schema, shape.dropped)))
    telling.check("schema")


def test_a_schema_that_is_none_is_told(telling: Telling) -> None:
    data = json.loads(project_files()[SCHEMA])
    for broken in (b"{", b"[]\n", encoded({**data, "derive": "argument-schema/99"}), encoded({"derive": 1})):
        telling.refused(partial(load_schema, broken, SCHEMA))
    telling.check("schema-file")


def test_values_that_no_form_of_a_launch_can_hold_are_told_at_their_keys(telling: Telling) -> None:
    shape = project_shape("probe", "ring4")
    lost = Origin(file="recipes/probe.toml", key="shapes.ring4.environment.BROKEN")
    wrong = replace(
        shape,
        service="Probe",
        environment={"BROKEN": "two\nlines", "1ST": "x", "LONG": "x" * 70_000, "NUL": "a\0b"},
        mounts=(*shape.mounts, *(replace(one, name=f"{one.name}2", source="there") for one in shape.mounts)),
        origins={**shape.origins, "environment.BROKEN": lost},
    )
    files = project_files()
    telling.refused(lambda: bundle(wrong, example_site(shape), IMAGE, project_fabric(), files, Judgement()))
    telling.check("values")


def test_templates_that_may_not_be_are_told_by_line_all_at_once(telling: Telling) -> None:
    files = {path: data for path, data in project_files().items() if path != "render/slice.j2"} | {
        "render/run.j2": b"x\n{{ a }}\n{{ a.b | shell }}\n{{ a | upper }}\n{% include 'x' %}\n",
        "render/await-guard.j2": b"\n{% if %}\n",
        "render/service.j2": b"{{ a | shell }}\xff\n",
    }
    telling.add(InputErrors(template_problems(files)))
    telling.check("templates")


def test_files_that_cannot_be_imported_are_told_all_at_once(telling: Telling, tmp_path: Path) -> None:
    def asked(*clusters: Mapping[str, Any] | bytes, maps: tuple[Mapping[str, Any], ...] = (), **more: Any) -> object:
        given = {"name": "served", "image": "ds41f", **more}
        files = [Source(file=f"{at}.json", data=_bytes(one)) for at, one in enumerate(clusters)]
        nodes = [Source(file=f"nodes{at}.json", data=_bytes(one)) for at, one in enumerate(maps)]
        return import_files(Request(clusters=tuple(files), maps=tuple(nodes), **given), project_files())

    wrong = cluster(4)
    wrong["host"]["memguard_gib"] = "three"
    wrong["distributed"]["master_port"] = "70000"
    words = wrong["serve_args"]
    words[words.index("--tensor-parallel-size") + 1] = "3"
    nodes = node_map(4)
    nodes["nodes"][1]["rank"] = 5
    nodes["nodes"][2]["management_ip"] = "nowhere"
    telling.refused(lambda: asked(wrong, b'{"a": 1, "a": 2}', b"\xff", maps=(nodes,)))
    telling.refused(lambda: asked(cluster(3), cluster(3)))
    telling.refused(lambda: asked(cluster(3), name="Served", image="ds42f"))
    telling.refused(lambda: read_sources([f"tp3={tmp_path}/none.json"], [str(tmp_path)]))
    (tmp_path / "there.toml").touch()
    telling.refused(lambda: write_new({tmp_path / "there.toml": "", tmp_path / "new.toml": ""}))
    telling.check("import")


def _bytes(one: Mapping[str, Any] | bytes) -> bytes:
    return one if isinstance(one, bytes) else encoded(dict(one))


@pytest.fixture(scope="module")
def rendered() -> Mapping[str, bytes]:
    return render(CHECKOUT, Chosen(recipe="probe"), NOWHERE, lambda _: IMAGE, "probe").bundle.files


def _proved(folder: Path, node: str = "spark1", **chosen: str) -> str:
    question = Question(node=node, chosen=Chosen(**chosen), folder=folder)
    found = prove(CHECKOUT, question, NOWHERE, not_derived, "ds41f")
    return "\n".join(lines(found.verdict)).replace(str(folder.parent), "FOLDER") + "\n"


def test_bytes_that_are_not_those_that_would_be_rendered_are_told_with_what_moved(
    rendered: Mapping[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "launch"
    write_folder(rendered, folder)
    texts = [_proved(folder)]
    run = folder / "spark1/run"
    run.write_bytes(run.read_bytes().replace(b"docker", b"podman", 1))
    (folder / "spark1/more").write_text("x\n")
    (folder / "spark1/compose.yaml").unlink()
    texts.append(_proved(folder))
    site = tmp_path / "site.toml"
    example = (CHECKOUT / "fabric/examples/ring4.toml").read_text()
    site.write_text(example.replace("192.0.2.12", "192.0.2.99"))
    moved = _proved(folder, "spark2", site=str(site))
    made = [word for line in moved.splitlines() for word in line.split() if word.startswith("sha256:")]
    for at, digest in enumerate(dict.fromkeys(made)):
        moved = moved.replace(digest, f"sha256:{at}")
    # Where in a manifest the site stands, and how long a file is, is no matter here.
    text = re.sub(r"byte \d+, line \d+|\d+ bytes", "SOMEWHERE", "\n".join([*texts, moved]))
    check_golden("launch_errors/prove.txt", text)


def test_what_cannot_be_proved_is_told_with_a_next_step(
    telling: Telling, rendered: Mapping[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "launch"
    write_folder(rendered, folder)
    (tmp_path / "empty").mkdir()
    for node, place in (("spark9", folder), ("spark1", tmp_path / "empty"), ("spark1", tmp_path / "none")):
        telling.refused(partial(_proved, place, node))
    (folder / "manifest.json").write_text('{"derive": "launch-manifest/1", "recipe": "probe", "image": "x"}')
    telling.refused(lambda: _proved(folder))
    telling.check("prove-refused")


def test_operands_of_diff_and_why_that_cannot_be_compared_are_told(telling: Telling, tmp_path: Path) -> None:
    for text in ("shape:", "shape:/tp4-ring", "bundle:", "recipe:", "site:"):
        telling.refused(partial(parse_launching, text))
    telling.refused(lambda: operands("shape:tp4-ring", "image:probe"))
    places = Places(root=lambda: CHECKOUT, usual=lambda: "ds41f", environ=NOWHERE, image=not_derived)
    pairs: list[tuple[Launching | Working, Launching | Working]] = [
        (Launching("shape", "tp4-ring"), Launching("recipe", "ds41f")),
        (Launching("shape", "tp4-ring"), Working()),
        (Launching("shape", "tp4-rings"), Launching("shape", "tp4-ring")),
        (Launching("recipe", "ds42f"), Working()),
        (Launching("site", f"{tmp_path}/none.toml"), Launching("site", "ring4")),
        (Launching("site", "ring4"), Working()),
        (Launching("bundle", str(tmp_path)), Working()),
    ]
    for first, second in pairs:
        telling.refused(partial(compare_launching, first, second, places))
    telling.check("operands")


def test_recipes_shapes_and_sites_that_are_not_there_are_told_by_a_rendering(telling: Telling, tmp_path: Path) -> None:
    root = write_files(project_files(), tmp_path / "project")
    for chosen in (
        Chosen(recipe="ds42f"),
        Chosen(recipe="ds41f", shape="tp4-rings"),
        Chosen(recipe="ds41f", site=str(tmp_path / "none.toml")),
        Chosen(recipe="ds41f", site=str(root / "fabric/examples/triangle.toml")),
    ):
        telling.refused(partial(read_inputs, root, chosen, NOWHERE, "ds41f"))
    telling.check("render")


def test_a_planned_transport_is_rendered_in_full_and_marked(tmp_path: Path) -> None:
    named = b'tuning = "tp4"\ntransport = "rocenante-mesh4"'
    recipe = project_files()["recipes/ds41f.toml"].replace(b'tuning = "tp4"', named, 1)
    write_files({**project_files(), "recipes/ds41f.toml": recipe}, tmp_path)
    found, plain = (
        render(root, Chosen(recipe="ds41f"), NOWHERE, lambda _: IMAGE, "ds41f") for root in (tmp_path, CHECKOUT)
    )
    assert found.bundle.files.keys() == plain.bundle.files.keys()
    assert any("planned" in reason for reason in found.inputs.judgement.reasons())
