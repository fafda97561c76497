# SPDX-License-Identifier: Apache-2.0
"""A small program with a parser built like vLLM's, and the derivation's scripts run on it as the sandbox runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[2] / "derivations" / "ds41f-schema"

FILES = {
    "vllm/__init__.py": "",
    "vllm/envs.py": """
import os
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    VLLM_DEV: bool = False
def env_with_choices(name, default, choices, case_sensitive=True):
    return lambda: os.getenv(name)
def get_port():
    return int(os.getenv("VLLM_PORT", "0"))
environment_variables = {
    "VLLM_DEV": lambda: bool(int(os.getenv("VLLM_DEV", "0"))),
    "VLLM_RATE": lambda: float(os.environ.get("VLLM_RATE", "0.5")),
    "VLLM_PORT": get_port,
    "VLLM_NAME": lambda: os.getenv("VLLM_NAME"),
    "VLLM_ROOT": lambda: os.getenv("VLLM_ROOT", os.path.expanduser("~")),
    "VLLM_LEVEL": env_with_choices("VLLM_LEVEL", "low", ["low", "high"], case_sensitive=False),
}
""",
    "vllm/config/__init__.py": """
from vllm.config.cache import CacheConfig
from vllm.config.vllm import VllmConfig
""",
    "vllm/config/utils.py": "def config(cls): return cls",
    "vllm/config/cache.py": """
from dataclasses import InitVar, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional, Union
from pydantic import Field, field_validator
from vllm.config.utils import config
if TYPE_CHECKING:
    from vllm.nowhere import Formats
else:
    Formats = str
Small = Literal["a", "b"]
Large = Literal[Small, "c"]
MIB = 1 << 20
class Backend(Enum):
    FLASH = "x"
    SPARSE = "y"
@config
class Inner:
    depth: int = Field(default=3, ge=1, le=8)
    backend: Backend | None = None
    @field_validator("backend", mode="before")
    def _named(cls, value): return value
@config
class CacheConfig:
    LIMIT: ClassVar[int] = 7
    only_here: InitVar[int] = 0
    mode: Small = "a"
    maybe: Large | None = None
    open: Large | str = "c"
    formats: Formats | str = "auto"
    size: int = 16 * MIB
    share: float = Field(default=0.9, gt=0, le=1)
    old_style: Optional[int] = None
    either: Union[int, None] = None
    noted: Annotated[int, Field(ge=2)] = 2
    names: list[str] = field(default_factory=list)
    levels: list[Small] | None = None
    pair: tuple[int, int] = (1, 2)
    table: dict[str, Any] = Field(default_factory=dict)
    table_or_text: dict[str, str] | str = "x"
    flag: bool = False
    flag_or_text: bool | str | None = None
    inner: Inner = Field(default_factory=Inner)
    backend: Backend = Backend.SPARSE
    derived: int = field(init=False)
    later: "int | None" = None
""",
    "vllm/config/vllm.py": """
from typing import Any
from vllm.config.cache import Inner
from vllm.config.utils import config
@config
class VllmConfig:
    speculative_config: Inner | None = None
    watermark_config: dict[str, Any] | None = None
    diffusion_config: dict[str, Any] | None = None
""",
    "vllm/utils/argparse_utils.py": """
from argparse import BooleanOptionalAction
class EnableDisableAction(BooleanOptionalAction):
    _inverse_prefixes = {"--enable-": "--disable-", "--disable-": "--enable-"}
def human_readable_int(text): return int(text)
""",
    "vllm/engine/arg_utils.py": """
import argparse
import json
from vllm.config import CacheConfig, VllmConfig
def optional_type(kind): return kind
def _compute_kwargs(cls):
    human_readable_int_args = {"size"}
def get_kwargs(cls): return _compute_kwargs(cls)
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        cache = get_kwargs(CacheConfig)
        group = parser.add_argument_group(title="CacheConfig", description=CacheConfig.__doc__)
        for name in ["maybe", "open", "formats", "old_style", "either", "noted", "names", "levels", "pair", "table"]:
            group.add_argument(f"--{name.replace('_', '-')}", **cache[name])
        cache["mode"]["choices"].remove("b")
        group.add_argument("--renamed-mode", "-m", **cache["mode"])
        group.add_argument("--size", **{**cache["size"], "default": None})
        group.add_argument("--share", "--fraction", dest="share", **cache["share"])
        group.add_argument("--table-or-text", **cache["table_or_text"])
        group.add_argument("--enable-flag", **cache["flag"])
        group.add_argument("--flag-or-text", **cache["flag_or_text"])
        group.add_argument("--inner", **cache["inner"])
        group.add_argument("--backend", **cache["backend"])
        group.add_argument("--later", **cache["later"])
        if not ("serve" in [] and "--help" in []):
            group.add_argument("--odd", action=argparse.BooleanOptionalAction, help="This is deprecated.")
        vllm = get_kwargs(VllmConfig)
        vllm["speculative_config"]["type"] = optional_type(json.loads)
        group.add_argument("--speculative-config", "-sc", **vllm["speculative_config"])
        parser.add_argument("--quiet", action="store_true", default=argparse.SUPPRESS)
        parser.add_argument("--kind", type=lambda s: s.lower(), choices=["x", "y"])
        return parser
class AsyncEngineArgs(EngineArgs):
    @staticmethod
    def add_cli_args(parser, only=False):
        if not only:
            parser = EngineArgs.add_cli_args(parser)
        return parser
""",
    "vllm/entrypoints/common/cli_args.py": """
from vllm.config.utils import config
from vllm.engine.arg_utils import AsyncEngineArgs
@config
class Base:
    role: str = "assistant"
    words: list[str] = None
    @classmethod
    def _customize(cls, kwargs):
        del kwargs["words"]["nargs"]
        return kwargs
    @classmethod
    def add_cli_args(cls, parser):
        from vllm.engine.arg_utils import get_kwargs
        kwargs = cls._customize(get_kwargs(cls))
        group = parser.add_argument_group(title=cls.__name__.replace("Args", ""))
        for key, value in kwargs.items():
            flags = value.pop("flags", [])
            group.add_argument(*flags, f"--{key.replace('_', '-')}", **value)
        return parser
@config
class FrontArgs(Base):
    port: int = 8000
    @classmethod
    def _customize(cls, kwargs):
        kwargs = super()._customize(kwargs)
        kwargs["words"]["action"] = "append"
        return kwargs
def make_arg_parser(parser):
    parser.add_argument("model_tag", type=str, nargs="?")
    parser = FrontArgs.add_cli_args(parser)
    return AsyncEngineArgs.add_cli_args(parser)
""",
}


def write_tree(folder: Path, changed: Mapping[str, str] | None = None) -> Path:
    """Write the small program, with some files replaced; return its folder."""
    for path, text in {**FILES, **(changed or {})}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


def run_script(name: str, *arguments: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one of the derivation's scripts."""
    command = [sys.executable, "-B", str(SCRIPTS / name), *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def read_options(folder: Path, **environment: str) -> Any:
    """Return the document that the small program gives."""
    target = folder.parent / f"{folder.name}.json"
    done = run_script("options.py", folder, target, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(target.read_bytes())
