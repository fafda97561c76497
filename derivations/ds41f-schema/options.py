# SPDX-License-Identifier: Apache-2.0
"""Writes what ``vllm serve`` takes, read from its sources: options, the keys of JSON values, variables of its own.

    options.py TREE FILE

DEVICE (``cuda`` or ``cpu``) is the device type of the platform that it will run on. Python's standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from document import Writer, plain
from envs import own_variables
from follow import Follower, Option, Parser
from kwargs import BOOLEAN, Configs, Kind, of_class
from things import ClassOf, FunctionOf, Unknown
from tree import Assigned, NotUnderstood, Tree
from values import Values

PARSERS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.openai.cli_args",
    "vllm.entrypoints.launchers.cli_args",
)
REGISTRIES = {
    "load-format": ("vllm.model_executor.model_loader", "_LOAD_FORMAT_TO_MODEL_LOADER"),
    "reasoning-parser": ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
    "tokenizer-mode": ("vllm.tokenizers.registry", "_VLLM_TOKENIZERS"),
    "tool-call-parser": ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
}
"""Options whose value names something registered: the module and mapping that hold the names."""
DELAYED = {
    "diffusion-config": "diffusion_config",
    "speculative-config": "speculative_config",
    "watermark-config": "watermark_config",
}
"""Options whose JSON is held against its class only when the engine starts: the field of VllmConfig that has it."""
SUPPRESS = "==SUPPRESS=="


def facts(device: str) -> dict[str, object]:
    """Return what the sources ask of the place that they run in."""
    return {
        "argparse.BooleanOptionalAction": BOOLEAN,
        "argparse.SUPPRESS": SUPPRESS,
        "current_platform.device_type": device,
        "ssl.CERT_NONE": 0,
        "sys.argv": ["vllm", "serve"],
    }


def main(root: Path, target: Path, device: str) -> None:
    """Read the tree, write the document."""
    tree = Tree(root, "vllm")
    configs = Configs(Values(tree, facts(device)))
    parser = Parser([])
    Follower(configs).follow(_make_arg_parser(tree, configs), [parser])
    options = Options(tree, configs)
    document = {
        "options": options.document(parser.options),
        "positional": [one.flags[0] for one in parser.options if not one.flags[0].startswith("-")],
        **options.writer.tables(),
        "variables": own_variables(tree, configs.values),
    }
    target.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n", encoding="utf-8")


def _make_arg_parser(tree: Tree, configs: Configs) -> FunctionOf:
    for name in PARSERS:
        module = tree.module(name)
        found = configs.values.named("make_arg_parser", module) if module else None
        if isinstance(found, FunctionOf):
            return found
    raise NotUnderstood(f"make_arg_parser is in none of {', '.join(PARSERS)}")


class Options:
    """Turns what was added to the parser into documents."""

    def __init__(self, tree: Tree, configs: Configs) -> None:
        self._tree = tree
        self._configs = configs
        self._inverses = self._negative_prefixes()
        self.writer = Writer(configs)

    def document(self, options: list[Option]) -> dict[str, object]:
        """Return each option by its long name without dashes."""
        found: dict[str, object] = {}
        for one in options:
            long = next((flag[2:] for flag in one.flags if flag.startswith("--")), None)
            if long is not None:
                found[long] = self._option(long, one)
        return found

    def _option(self, name: str, option: Option) -> dict[str, object]:
        given, action = option.given, option.given.get("action")
        kind = given.get("type", Kind("text"))
        assert isinstance(kind, Kind)
        made: dict[str, object] = {"names": sorted(option.flags), "type": kind.name}
        if action == BOOLEAN:
            made |= {"type": "boolean", "negative": self.negative(option.flags)}
        elif action == "store_true":
            made["type"] = "flag"
        elif action == "append":
            made["repeated"] = True
        elif isinstance(action, Unknown):
            raise NotUnderstood(f"--{name}: no rule for the action {action.text}")
        default = given.get("default", False if action == "store_true" else None)
        if default == SUPPRESS:
            made["no-default"] = True
        elif default is not None:
            made["default"] = plain(default)
        for key in ("nargs", "const", "bounds", "choices"):
            if given.get(key) is not None:
                made[key] = plain(given[key])
        made |= {key: value for key, value in (("optional", kind.optional), ("through", kind.through)) if value}
        made |= self._meaning(name, kind, given)
        said = str(given.get("help", "")).lower()
        if given.get("deprecated") or ("deprecated" in said and not said.startswith("whether to allow")):
            made["deprecated"] = True
        return made

    def _meaning(self, name: str, kind: Kind, given: dict[str, object]) -> dict[str, object]:
        """Return what a value may name: keys of a class, members of an enumeration, something registered."""
        made: dict[str, object] = {}
        if kind.config is not None:
            made["config"] = self.writer.refer(self._configs.referred[kind.config])
        elif name in DELAYED:
            made["config"] = self.writer.refer(self._delayed(DELAYED[name]))
        enumeration = given.get("enumeration")
        if isinstance(enumeration, ClassOf):
            made["enum"] = self.writer.enumeration(enumeration)
        if isinstance(given.get("metavar"), list):
            made["known"] = plain(given["metavar"])
        if name in REGISTRIES:
            always = [str(given["default"])] if given.get("default") else []
            made["known"] = sorted({*self._registered(*REGISTRIES[name]), *always})
            made["registered"] = True
        return made

    def _delayed(self, field: str) -> ClassOf:
        owner = of_class(self._configs.values, self._tree.need("vllm.config.vllm"), "VllmConfig")
        one = next(one for one in self._configs.fields(owner) if one.name == field)
        return next(hint.owner for hint in one.hints if hint.owner is not None)

    def _registered(self, module: str, name: str) -> list[str]:
        found = self._configs.values.named(name, self._tree.need(module))
        if not isinstance(found, dict):
            raise NotUnderstood(f"{module}: no mapping {name}")
        return sorted(map(str, found))

    def _negative_prefixes(self) -> dict[str, str]:
        """Return the beginnings that vLLM's own parser turns around beside putting ``no-`` in front."""
        module = self._tree.need("vllm.utils.argparse_utils")
        found = module.names.get("EnableDisableAction")
        if found is None or isinstance(found, Assigned):
            return {}
        owner = of_class(self._configs.values, module, "EnableDisableAction")
        prefixes = self._configs.values.class_attribute(owner, "_inverse_prefixes")
        return {str(key): str(value) for key, value in prefixes.items()} if isinstance(prefixes, dict) else {}

    def negative(self, flags: tuple[str, ...]) -> list[str]:
        """Return the forms that switch a boolean option off."""
        long = [flag for flag in flags if flag.startswith("--")]
        turned = [
            there + flag.removeprefix(here)
            for flag in long
            for here, there in self._inverses.items()
            if flag.startswith(here)
        ]
        return sorted([*(f"--no-{flag[2:]}" for flag in long), *turned])


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), os.environ.get("DEVICE", "cuda"))
    except NotUnderstood as error:
        sys.exit(f"options.py: {error}")
