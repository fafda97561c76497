# SPDX-License-Identifier: Apache-2.0
"""Shapes with nothing left to look up: what is shared and their own, gifts of the fabric, and derived values."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.recipes.arguments import words
from derive.recipes.merge import find
from derive.recipes.resolve import resolve
from derive.recipes.resolved import GuardPhase, HostPolicy, Mount, Origin
from support.recipes import FILE, SMALL, edited, files, loaded, problems, resolved, said

TRIANGLE = 'tuning = "tp3"'


def test_the_default_shape_is_taken_unless_one_is_named() -> None:
    recipe = loaded()
    assert [resolve(recipe).shape, resolve(recipe, "triangle").shape] == ["ring", "triangle"]
    with pytest.raises(InputErrors) as caught:
        resolve(recipe, "rung")
    (problem,) = caught.value.problems()
    assert (problem.where, problem.hint) == (f"{FILE}: shapes", "did you mean ring?")


def test_a_variable_is_absent_or_empty_or_has_a_value() -> None:
    text = edited((TRIANGLE, f'{TRIANGLE}\n[shapes.triangle.environment]\nSET = {{ absent = "why" }}\nOWN = ""'))
    ring, triangle = resolved(text), resolved(text, "triangle")
    assert (ring.environment["SET"], ring.environment["EMPTY"], "OWN" in ring.environment) == ("here", "", False)
    assert ("SET" in triangle.environment, triangle.environment["EMPTY"], triangle.environment["OWN"]) == (
        False,
        "",
        "",
    )
    assert triangle.removed["environment.SET"] == Origin(
        file=FILE, key="shapes.triangle.environment.SET", doc="why", overrides=f"here ({FILE}: environment.SET)"
    )


def test_arguments_are_removed_whole_or_key_by_key() -> None:
    own = (
        '\n[shapes.triangle.arguments]\nflag = { absent = "why" }\nspeculative-config = { method = { absent = "why" } }'
    )
    text = edited((TRIANGLE, TRIANGLE + own), ("max-num-seqs = 4", "max-num-seqs = 4\nflag = true"))
    one = resolved(text, "triangle")
    assert "flag" not in one.arguments
    assert one.arguments["speculative-config"] == {
        "attention_backend": "FLASHINFER_MLA_SPARSE_DSV41",
        "draft_tensor_parallel_size": 3,
        "num_speculative_tokens": 2,
    }


def test_a_shape_has_the_sizes_that_follow_from_its_cabling_and_sequences() -> None:
    one = resolved()
    assert (one.nodes, one.cabling) == (4, "ring4")
    assert one.arguments["tensor-parallel-size"] == one.arguments["nnodes"] == 4
    assert one.arguments["long-prefill-token-threshold"] == 512 - 4 * 3
    assert one.arguments["max-cudagraph-capture-size"] == 12
    assert find(one.arguments, ("compilation-config", "cudagraph_capture_sizes")) == [1, 2, 3, 4, 6, 8, 12]
    assert one.arguments["port"] == one.port == 8000


def test_without_sequences_or_drafter_nothing_is_derived_from_them() -> None:
    text = edited(
        ("max-num-seqs = 4\n", ""), ('speculative-config = { method = "dspark", num_speculative_tokens = 2 }\n', "")
    )
    arguments = resolved(text).arguments
    assert not arguments.keys() & {"long-prefill-token-threshold", "max-cudagraph-capture-size", "speculative-config"}
    no_drafts = edited(('speculative-config = { method = "dspark", num_speculative_tokens = 2 }\n', ""))
    assert resolved(no_drafts).arguments["max-cudagraph-capture-size"] == 4


def test_the_transport_the_profile_and_the_kernels_give_their_settings() -> None:
    one = resolved()
    assert one.environment["NCCL_ALGO"] == "Ring"
    assert one.environment["NCCL_BUFFSIZE"] == "4194304"
    assert one.arguments["disable-custom-all-reduce"] is True
    assert one.arguments["linear-backend"] == one.arguments["moe-backend"] == one.kernel_backend == "b12x"
    assert one.origins["environment.NCCL_ALGO"].rule == "transport"
    assert one.origins["environment.NCCL_BUFFSIZE"].file == "fabric/tuning/tp4.toml"


def test_a_tuned_setting_may_be_said_otherwise_and_says_what_it_stands_above() -> None:
    one = resolved(edited(('SET = "here"', 'NCCL_BUFFSIZE = "1048576"')))
    assert one.environment["NCCL_BUFFSIZE"] == "1048576"
    assert one.origins["environment.NCCL_BUFFSIZE"] == Origin(
        file=FILE,
        key="environment.NCCL_BUFFSIZE",
        needs=("nccl",),
        overrides="4194304 (fabric/tuning/tp4.toml: nccl.NCCL_BUFFSIZE)",
    )


@pytest.mark.parametrize(
    ("table", "line", "rule"),
    [
        ("arguments", "tensor-parallel-size = 4", "ranks"),
        ("arguments", "nnodes = 4", "ranks"),
        ("arguments", "long-prefill-token-threshold = 500", "long-prefill"),
        ("arguments", "max-cudagraph-capture-size = 12", "capture"),
        ("arguments", "port = 8000", "port"),
        ("arguments", "disable-custom-all-reduce = true", "transport"),
        ("arguments", 'linear-backend = "b12x"', "kernels"),
        ("arguments", "node-rank = 0", "node-rank"),
        ("arguments", "headless = true", "node-rank"),
        ("environment", 'NCCL_ALGO = "Ring"', "transport"),
        ("environment", 'VLLM_HOST_IP = "192.0.2.1"', "node-addresses"),
        ("environment", 'NCCL_IB_HCA = "x"', "node-fabric"),
    ],
)
def test_a_derived_value_that_is_typed_is_an_error_that_names_the_rule(table: str, line: str, rule: str) -> None:
    key = line.partition(" ")[0]
    shared = SMALL.replace(f"[{table}]\n", f"[{table}]\n{line}\n")
    assert said(shared) == [(f"{table}.{key}", f"typed, and given by rule {rule}")]
    own = SMALL + f"[shapes.triangle.{table}]\n{line}\n"
    assert said(own) == [(f"shapes.triangle.{table}.{key}", f"typed, and given by rule {rule}")]


def test_keys_of_tables_that_are_derived_may_not_be_typed_either() -> None:
    text = edited(("num_speculative_tokens = 2", "num_speculative_tokens = 2, draft_tensor_parallel_size = 4"))
    text = text.replace("[environment]", "[arguments.compilation-config]\ncudagraph_capture_sizes = [1]\n[environment]")
    assert [where for where, _ in said(text)] == [
        "arguments.compilation-config.cudagraph_capture_sizes",
        "arguments.speculative-config.draft_tensor_parallel_size",
    ]


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        (
            "batched-tokens = 512",
            "batched-tokens = 12",
            "arguments.max-num-batched-tokens",
            "12 tokens of a step leave no room",
        ),
        ("num-seqs = 4", "num-seqs = 0", "arguments.max-num-seqs", "not a number that rules can count with"),
        ("num-seqs = 4", 'num-seqs = "4"', "arguments.max-num-seqs", "not a number that rules can count with"),
        (
            "_tokens = 2",
            "_tokens = 1.5",
            "arguments.speculative-config.num_speculative_tokens",
            "not a number that rules can count with",
        ),
    ],
)
def test_what_rules_cannot_count_with_is_told_once(old: str, new: str, where: str, message: str) -> None:
    with pytest.raises(InputErrors) as caught:
        loaded(edited((old, new)))
    (problem,) = caught.value.problems()
    assert problem.where == f"{FILE}: {where}"
    assert problem.message.startswith(message)


def test_a_rule_replaces_no_value_by_a_table() -> None:
    text = edited(("max-num-seqs = 4", 'max-num-seqs = 4\ncompilation-config = "fast"'))
    message = "not a table, and rule capture gives cudagraph_capture_sizes in it"
    assert said(text) == [("arguments.compilation-config", message)]


def test_the_rows_of_a_message_follow_from_the_capacity_of_a_one_shot_transport() -> None:
    text = edited(
        ('transport = "nccl-ring"', 'transport = "oneshot-ring4"'), ('cabling = "triangle"', 'cabling = "ring4"')
    )
    assert find(resolved(text).document, ("limits", "one-shot-rows")) == 204
    other = SMALL.replace('transport = "nccl-ring"', 'transport = "oneshot-ring4"')
    other = other.replace("[environment]", '[environment]\nSPARKNET_ROCE_ALLREDUCE_CAPACITY_BYTES = "4194304"')
    assert find(resolved(other).document, ("limits", "one-shot-rows")) == 409
    assert find(resolved().document, ("limits", "one-shot-rows")) is None
    assert any("no limit of rows" in note for note in resolved().notes)


def test_the_model_is_mounted_whole_and_served_from_its_snapshot() -> None:
    one = resolved()
    assert one.positional == ("/model/snapshots/unpinned",)
    assert one.mounts == (
        Mount(
            name="model",
            source="{models}/models--deepseek-ai--DeepSeek-V4.1-Flash",
            target="/model",
            read_only=True,
        ),
    )
    pinned = resolved(edited(("deepseek-v4-1-flash-1017", "deepseek-v4-1-flash")))
    assert pinned.positional == ("/model/snapshots/dba1be0a40aa45a94ad051997016db3960a90277",)


def test_a_checkpoint_without_its_pin_has_the_reason() -> None:
    one = resolved()
    assert one.model is not None
    assert one.model.revision is None
    assert one.model.why_unpinned is not None
    assert one.model.why_unpinned.startswith("no public source at hand")


def test_sizes_guards_and_host_become_values() -> None:
    own = '\nhost = { page-size = "64KiB", memory-saver = true }\ncontainer = { memory = "112GiB" }'
    one = resolved(edited((TRIANGLE, TRIANGLE + own)), "triangle")
    assert one.container.memory_bytes == 112 * 2**30
    assert one.host == HostPolicy(page_size=65536, memory_saver=True)
    assert one.guard == (
        GuardPhase(phase="startup", floor_bytes=5 * 2**30, interval="0.25", wait_seconds=120),
        GuardPhase(phase="steady", floor_bytes=3 * 2**30, interval="2"),
    )


def test_everything_asked_of_a_machine_becomes_a_value() -> None:
    own = """
[shapes.triangle.host]
memory-saver-version = "0.2.0"
memory-saver-srcversion = "34683B82C2D3339BBD2EEC9"
transparent-huge-pages = "never"
min-free-kbytes = 45166
swap = "16GiB"
swap-file = "/swap.img"
memory-unit = "memory.service"
"""
    asked = resolved(edited((TRIANGLE, TRIANGLE + own)), "triangle").host.by_key()
    assert {key: value for key, value in asked.items() if value is not None} == {
        "memory-saver-version": "0.2.0",
        "memory-saver-srcversion": "34683B82C2D3339BBD2EEC9",
        "transparent-huge-pages": "never",
        "min-free-kbytes": 45166,
        "swap": 2**34,
        "swap-file": "/swap.img",
        "memory-unit": "memory.service",
    }


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        (('floor = "5GiB"', 'floor = "3GiB"'), "guard.startup.floor", "not above the floor of the steady phase"),
        ((TRIANGLE, f'{TRIANGLE}\nmodel = {{ absent = "x" }}'), "model", "this key is missing"),
        (
            (TRIANGLE, f'{TRIANGLE}\ncache = {{ target = "/model" }}'),
            "shapes.triangle.cache.target",
            "/model is the target of another mount: model.target",
        ),
        ((TRIANGLE, 'tuning = "tp9"'), "shapes.triangle.tuning", "no tuning profile is called 'tp9'"),
        (('transport = "nccl-ring"', 'transport = "ring"'), "transport", "no transport is called 'ring'"),
        (('image = "ds41f"', 'image = "ds42f"'), "image", "no image is called 'ds42f'"),
        (
            ("[environment]", '[dropped]\nSET = "unread"\n[environment]'),
            "environment.SET",
            "SET is no longer there: unread",
        ),
        (
            ("[environment]", '[dropped]\n"max-num-seqs=4" = "too many"\n[environment]'),
            "arguments.max-num-seqs",
            "max-num-seqs = 4 is no longer there: too many",
        ),
        (
            (TRIANGLE, f'dropped = {{ old = "it slept" }}\n{TRIANGLE}\narguments = {{ old = 1 }}'),
            "shapes.triangle.arguments.old",
            "old is no longer there: it slept",
        ),
    ],
)
def test_what_does_not_go_together_is_told_where_it_stands(change: tuple[str, str], where: str, message: str) -> None:
    assert (where, message) in said(edited(change))


def test_a_plain_program_needs_no_model_and_gets_nothing_of_vllm() -> None:
    text = edited(
        ('program = "vllm"', 'program = "plain"\nentrypoint = ["/bin/serve"]'),
        ('positional = ["{model}"]', 'positional = ["--at", "{port}"]'),
        ('transport = "nccl-ring"', 'transport = "none"'),
        ("max-num-seqs = 4\nmax-num-batched-tokens = 512\n", "port = 1\n"),
        ('speculative-config = { method = "dspark", num_speculative_tokens = 2 }\n', ""),
    )
    head, _, rest = text.partition("[model]")
    one = resolved(head + "[service]" + rest.partition("[service]")[2])
    assert (one.schema, one.model, one.mounts, one.kernel_backend) == (None, None, (), None)
    assert words(one) == ("--at", "8000", "--port", "1")
    assert one.environment == {"SET": "here", "EMPTY": ""}


def test_a_plain_program_names_no_kernels_and_has_its_own_entrypoint() -> None:
    text = edited(
        ('program = "vllm"', 'program = "plain"'),
        ('transport = "nccl-ring"', 'transport = "none"\nkernel-backend = "b12x"'),
    )
    assert {
        ("kernel-backend", "read by vLLM alone, and this service is another program"),
        ("service.entrypoint", "this key is missing"),
    } <= set(said(text))


def test_a_planned_transport_is_said_to_be_so() -> None:
    text = edited(('transport = "nccl-ring"', 'transport = "rocenante-mesh4"'))
    assert "not qualified" in (resolved(text).promotion.planned or "")
    assert resolved().promotion.planned is None


def test_no_problem_is_lost_when_two_shapes_have_it() -> None:
    assert len({(one.where, one.message) for one in problems(edited(("port = 8000\n", "")))}) == 1
    assert files()[FILE] == SMALL.encode()
