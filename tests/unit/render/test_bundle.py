# SPDX-License-Identifier: Apache-2.0
"""Which changes move the digest of a shape, which that of a launch, and which none."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from derive.canonical import Digest, decode, encode, sha256
from derive.errors import InputErrors
from derive.fabric.site import Site
from derive.recipes.deployable import Missing
from derive.recipes.resolved import Promotion, Resolved
from derive.render.bundle import Bundle, bundle
from derive.render.documents import launch_from_document
from derive.render.judgement import Judgement
from derive.render.plan import LAUNCH_BUNDLE_LABEL, SHAPE_BUNDLE_LABEL
from derive.render.site_digest import site_digest
from support.launching import IMAGE, example_site, project_fabric, project_files, project_shape, rendered

RING = project_shape("probe", "ring4")
SITE = example_site(RING)


@cache
def usual() -> Bundle:
    return rendered(RING)


def moved(resolved: Resolved = RING, site: Site = SITE, files: Any = None) -> tuple[bool, bool]:
    """Say whether the shape's digest moved, and whether the launch's did."""
    found = rendered(resolved, site, files)
    return found.shape != usual().shape, found.launch != usual().launch


def changed(path: str, old: str, new: str) -> dict[str, bytes]:
    text = project_files()[path].decode()
    assert old in text
    return {**project_files(), path: text.replace(old, new).encode()}


def test_the_same_inputs_give_the_same_bundle() -> None:
    assert rendered(RING) == usual()
    assert moved() == (False, False)


def test_an_argument_moves_both_digests() -> None:
    assert moved(replace(RING, positional=(*RING.positional, "--more"))) == (True, True)


def test_another_image_moves_both_digests() -> None:
    found = bundle(RING, SITE, Digest("0" * 64), project_fabric(), project_files(), Judgement())
    assert found.shape != usual().shape
    assert found.launch != usual().launch


def test_an_address_moves_the_launch_alone() -> None:
    nodes = (replace(SITE.nodes[0], address="192.0.2.99"), *SITE.nodes[1:])
    assert moved(project_shape("ds41f", "tp4-ring"), replace(SITE, nodes=nodes))[1]
    assert moved(site=replace(SITE, folder="/srv/derive")) == (False, True)


def test_who_logs_in_moves_neither_but_the_site_has_another_digest() -> None:
    site = replace(SITE, ssh_user="somebody")
    assert moved(site=site) == (False, False)
    assert site_digest(site) != site_digest(SITE)


def test_which_shapes_a_site_picked_is_in_no_digest() -> None:
    site = replace(SITE, shapes=(("probe", "triangle"),), example=False)
    assert site_digest(site) == site_digest(SITE)


def test_keys_that_only_govern_promotion_are_in_no_digest() -> None:
    promotion = Promotion(launch_enabled=False, benchmark="b", branch="main")
    assert moved(replace(RING, promotion=promotion)) == (False, False)


def test_what_is_said_about_a_shape_is_in_no_digest() -> None:
    assert moved(replace(RING, doc="other words", notes=("a note",), origins={})) == (False, False)


def test_a_guards_interval_moves_both_as_only_a_mounted_file_says_it() -> None:
    """A container with older files mounted is known by its label, its arguments being the same."""
    guard = tuple(replace(phase, interval="1") for phase in RING.guard)
    found = rendered(replace(RING, guard=guard))
    assert found.launches[0].arguments == usual().launches[0].arguments
    assert found.launches[0].labels[LAUNCH_BUNDLE_LABEL] != usual().launches[0].labels[LAUNCH_BUNDLE_LABEL]


def test_an_address_on_a_cable_moves_the_launch_by_the_files_of_its_two_ends_alone() -> None:
    first = SITE.cables[0]
    ends = (replace(first.paths[0].ends[0], address="10.99.1.1"), replace(first.paths[0].ends[1], address="10.99.1.2"))
    path = replace(first.paths[0], subnet="10.99.1.0/24", ends=ends)
    site = replace(SITE, cables=(replace(first, paths=(path, *first.paths[1:])), *SITE.cables[1:]))
    found = rendered(RING, site)
    moved_files = {name for name in found.files if found.files[name] != usual().files.get(name)}
    assert moved(site=site)[1]
    assert {f"{SITE.nodes[0].name}/netplan.yaml", f"{SITE.nodes[1].name}/netplan.yaml"} <= moved_files
    assert f"{SITE.nodes[2].name}/netplan.yaml" not in moved_files


def test_a_templates_text_moves_both_digests() -> None:
    assert moved(files=changed("render/run.j2", "set -eu", "set -euo pipefail")) == (True, True)


def test_what_stands_against_a_deploy_is_marked_and_moves_no_digest() -> None:
    judgement = Judgement(
        missing=(Missing(capability="x", because="y"), Missing(capability=None, because="later")),
        fits=False,
        unfit="KV cache",
        notes=("a note",),
    )
    found = bundle(RING, SITE, IMAGE, project_fabric(), project_files(), judgement)
    assert (found.shape, found.launch) == (usual().shape, usual().launch)
    for path in ("manifest.json", f"{SITE.nodes[0].name}/manifest.json"):
        manifest = json.loads(found.files[path])
        assert {key: manifest[key] for key in ("deployable", "needs", "planned", "fits", "unfit", "notes")} == {
            "deployable": False,
            "needs": [{"capability": "x", "because": "y"}],
            "planned": "later",
            "fits": False,
            "unfit": "KV cache",
            "notes": ["a note"],
        }
    assert list(judgement.reasons()) == [
        "not deployable: needs x (y)",
        "not deployable: planned: later",
        "does not fit: KV cache",
    ]


def test_the_two_documents_hash_to_the_two_digests() -> None:
    found = usual()
    for name, digest in (("shape-bundle.json", found.shape), ("launch-bundle.json", found.launch)):
        data = found.files[name]
        assert sha256(data) == digest
        assert encode(decode(data)) == data


def test_every_container_carries_both_digests() -> None:
    found = usual()
    for launch in found.launches:
        document = decode(found.files[f"{launch.node}/container.json"])
        assert launch_from_document(document) == launch
        assert launch.labels[SHAPE_BUNDLE_LABEL] == str(found.shape)
        assert launch.labels[LAUNCH_BUNDLE_LABEL] == str(found.launch)


def test_the_launch_digest_is_that_of_files_without_the_label_that_carries_it() -> None:
    found = usual()
    document = json.loads(found.files["launch-bundle.json"])
    for node, files in document["nodes"].items():
        own = {path: str(sha256(data)) for path, data in found.node(node).items() if path != "manifest.json"}
        other = {path for path in files if files[path] != own[path]}
        assert other == {"container.json", "run", "compose.yaml"}
        assert set(files) == set(own)


def test_manifests_name_every_file_by_its_digest() -> None:
    found = usual()
    top = json.loads(found.files["manifest.json"])
    listed = {**top["files"]}
    for node, entry in top["nodes"].items():
        assert json.loads(found.files[f"{node}/manifest.json"])["files"] == entry["files"]
        listed |= {f"{node}/{path}": digest for path, digest in entry["files"].items()}
    own = {path: str(sha256(data)) for path, data in found.files.items() if not path.endswith("manifest.json")}
    assert listed == own


def test_the_shape_bundle_names_no_site() -> None:
    text = usual().files["shape-bundle.json"].decode()
    for word in (*(node.name for node in SITE.nodes), SITE.nodes[0].address, SITE.home, SITE.folder):
        assert word not in text
    assert "${site:nodes[0].name}" in text


def test_a_missing_template_is_told_and_nothing_is_rendered() -> None:
    files = {path: data for path, data in project_files().items() if path != "render/run.j2"}
    with pytest.raises(InputErrors) as error:
        rendered(RING, files=files)
    assert [one.where for one in error.value.problems()] == ["render/run.j2"]


def test_problems_of_all_nodes_are_told_once() -> None:
    with pytest.raises(InputErrors) as error:
        rendered(replace(RING, environment={"A": "x\ny", "B": "\r"}))
    assert [one.where for one in error.value.problems()] == [
        "recipes/probe.toml: environment.A",
        "recipes/probe.toml: environment.B",
    ]


def test_what_is_asked_of_machines_stands_in_the_shape_bundle_and_in_the_manifests() -> None:
    asked = replace(RING.host, memory_saver_version="0.2.0", transparent_huge_pages="never", swap_bytes=2**34)
    found = rendered(replace(RING, host=asked))
    told = {"memory-saver-version": "0.2.0", "transparent-huge-pages": "never", "swap-bytes": 2**34}
    always = {"kernel": None, "page-size-bytes": None, "memory-saver": None, "driver": None}
    for path in ("shape-bundle.json", "manifest.json", f"{SITE.nodes[0].name}/manifest.json"):
        assert json.loads(found.files[path])["host"] == {**always, **told}
    assert found.shape != usual().shape
