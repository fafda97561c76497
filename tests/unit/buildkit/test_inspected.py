# SPDX-License-Identifier: Apache-2.0
"""What buildx says of a builder: of an engine's own, of one with several nodes, and of one that does not answer."""

from __future__ import annotations

from derive.buildkit.inspected import read_builder

ENGINE = """\
Name:   default
Driver: docker

Nodes:
Name:             default
Endpoint:         default
Status:           running
BuildKit version: v0.13.2
Platforms:        linux/amd64, linux/amd64/v2
Labels:
 org.mobyproject.buildkit.worker.hostname:             spark
 org.mobyproject.buildkit.worker.snapshotter:          overlayfs
GC Policy rule#0:
 All:        true
 Keep Bytes: 2GB
"""
OLDER_STORE = ENGINE.replace(" org.mobyproject.buildkit.worker.snapshotter:          overlayfs\n", "")
SEVERAL = """\
Name:          farm
Driver:        docker-container
Last Activity: 2026-11-30 20:46:33 +0000 UTC

Nodes:
Name:      farm0
Endpoint:  ssh://one
Status:    inactive
Platforms: linux/arm64*

Name:                  farm1
Endpoint:              tcp://two:1234
Status:                running
BuildKit daemon flags: --debug
BuildKit version:      v0.16.0
Platforms:             linux/arm64*, linux/arm64/v8
"""
SILENT = """\
Name:          default
Driver:
Last Activity: 2026-11-30 20:46:33 +0000 UTC
Error:         Cannot connect to the Docker daemon at unix:///no.sock. Is the docker daemon running?
"""


def test_an_engine_is_a_builder_with_one_node() -> None:
    found = read_builder(ENGINE)
    assert (found.name, found.driver, found.is_running) == ("default", "docker", True)
    assert found.platforms == ("linux/amd64", "linux/amd64/v2")
    assert found.facts("linux/amd64") == {
        "executor": "buildkit",
        "builder": "default",
        "driver": "docker",
        "node": "spark",
        "version": "v0.13.2",
    }


def test_an_engine_with_its_older_image_store_takes_no_layouts() -> None:
    assert [read_builder(text).nodes[0].takes_layouts for text in (ENGINE, OLDER_STORE)] == [True, False]


def test_the_node_for_a_platform_is_one_that_runs() -> None:
    found = read_builder(SEVERAL)
    node = found.node_for("linux/arm64")
    assert node is not None
    assert (node.name, node.version, node.takes_layouts) == ("farm1", "v0.16.0", True)
    assert found.node_for("linux/amd64") is None


def test_an_engine_that_does_not_answer_is_a_builder_that_says_why() -> None:
    found = read_builder(SILENT)
    assert not found.is_running
    assert found.nodes[0].error.startswith("Cannot connect")


def test_a_client_reaches_an_engine_by_its_context_and_others_by_their_builder() -> None:
    assert read_builder(ENGINE).address.context == "default"
    assert read_builder(SEVERAL).address.builder == "farm"
    current = read_builder(ENGINE, is_current=True).address
    assert (current.builder, current.context) == (None, None)
