# SPDX-License-Identifier: Apache-2.0
"""A sound project that serves something, as the facts that a doctor judges, for tests that break one thing of it.

Edge: reads the files of ``fabric/`` of this checkout.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from derive.canonical import Json, sha256
from derive.doctor.case import Case, case_of
from derive.doctor.model import Facts, GitFacts, SiteFile
from derive.git.model import GitPin
from derive.huggingface.model import HfFile
from derive.lock.upstreams.entries import GitEntry, HuggingFaceEntry, UpstreamsLock, WatchEntry
from derive.lock.upstreams.wishes import UpstreamsWish, asked
from derive.lock.wishes import require_wish
from derive.project import LAUNCH_ROOTS
from derive.schema.pin import content_digest
from support.cli import CHECKOUT
from support.projects import FILES as PROJECT_FILES
from support.projects import pinned, project

SCHEMA = "recipes/image.schema.json"
TODAY = "2026-11-30"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

UPSTREAMS_WISH = f"""\
kind = "upstreams"

[git.library]
url = "https://example.org/library.git"
commit = "{COMMIT}"
licence = "MIT"

[huggingface.small]
repository = "team/small"
revision = "{COMMIT}"
licence = "MIT"

[watch.other]
url = "https://example.org/other.git"
role = "read"
since = "2026-10-01"
"""

_CAPABILITIES = (
    "attention-flashinfer",
    "engram-disk",
    "linear-b12x",
    "memory-guard",
    "moe-b12x",
    "nccl",
)

IMAGE = (
    str(PROJECT_FILES["images/image.toml"])
    + "\n[capabilities]\n"
    + "".join(f'{name} = {{ from = "script", doc = "what shapes need" }}\n' for name in _CAPABILITIES)
)

RECIPE = """\
format = 1
image = "image"
default-shape = "four"
transport = "nccl-ring"

[model]
set = "m"
huggingface = "small"
target = "/model"

[service]
name = "small"
program = "vllm"
positional = ["{model}"]
port = 8000
master-port = 9999
ready = { path = "/v1/models", timeout = 600 }

[arguments]
max-model-len = 4096
max-num-seqs = 4
max-num-batched-tokens = 512
kv-cache-memory-bytes = 1073741824

[cache]
target = "/cache"

[guard.startup]
floor = "5GiB"
interval = "0.25"
wait = 120

[guard.steady]
floor = "3GiB"
interval = "2"

[memory]
facts = "small/memory.toml"
usable = "119.7GiB"
usable-source = "a machine"
engram = "disk"
kv-format = "vllm-0.33"

[promotion]
benchmark = "records/benchmarks/small.json"
branch = "main"

[shapes.four]
doc = "four machines in a ring"
cabling = "ring4"
tuning = "tp4"
"""

SITE = """\
format = 1
name = "lab"
cabling = "ring4"
ssh-user = "operator"
home = "/home/operator"
interface = "enP7s7"

[shapes]
small = "four"

[[nodes]]
name = "a"
address = "192.0.2.1"

[[nodes]]
name = "b"
address = "192.0.2.2"

[[nodes]]
name = "c"
address = "192.0.2.3"

[[nodes]]
name = "d"
address = "192.0.2.4"
"""


_OPTIONS = {
    "int": (
        "kv-cache-memory-bytes",
        "long-prefill-token-threshold",
        "max-cudagraph-capture-size",
        "max-model-len",
        "max-num-batched-tokens",
        "max-num-seqs",
        "nnodes",
        "pipeline-parallel-size",
        "port",
        "tensor-parallel-size",
    ),
    "boolean": ("disable-custom-all-reduce", "enable-expert-parallel"),
    "json": ("compilation-config", "speculative-config"),
    "text": ("attention-backend", "linear-backend", "moe-backend"),
}

_VARIABLES = (
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_GIN_ENABLE",
    "NCCL_GRAPH_FILE",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_DISABLE",
    "NCCL_IB_MERGE_NICS",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_SUBNET_AWARE_ROUTING",
    "NCCL_IB_SUBNET_PREFIX_LEN",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MNNVL_ENABLE",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_PAT_ENABLE",
    "NCCL_PROTO",
    "NCCL_RMA_DISABLE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SHM_DISABLE",
    "NCCL_SWITCHLESS_BIDIRECTIONAL",
    "NCCL_THREAD_THRESHOLDS",
    "SPARKNET_ROCE_SPIN_LIMIT",
    "VLLM_DISABLE_PYNCCL",
    "VLLM_ENABLE_ROCE_ALLREDUCE",
    "VLLM_HOST_IP",
)


def record(kind: str, subject: str, body: Mapping[str, object]) -> bytes:
    """Return a record as it lies in ``records/``."""
    document = {"derive": "record/1", "kind": kind, "subject": subject, "previous": None, "body": body}
    return json.dumps(document).encode()


def upstreams(wish: str, **changes: object) -> UpstreamsLock:
    """Return the lock of the small set of upstreams; changes are of its fields."""
    wanted = require_wish(wish.encode(), "wish")
    assert isinstance(wanted, UpstreamsWish)
    names = {name: asked(name, decl) for name, decl in wanted.wanted.items()}
    lock = UpstreamsLock(
        set="m",
        wish=sha256(b""),
        upstreams=(
            GitEntry(
                name="library",
                version=COMMIT[:12],
                licence="MIT",
                asked=names["library"],
                commit=COMMIT,
                pin=GitPin(name="library", commit=COMMIT, tree=COMMIT, nar=sha256(b"nar"), size=7),
            ),
            HuggingFaceEntry(
                name="small",
                version=COMMIT[:12],
                licence="MIT",
                asked=names["small"],
                repository="team/small",
                contents="model",
                revision=COMMIT,
                files=(HfFile(path="a", size=1, sha256=sha256(b"a"), blob_id=COMMIT),),
            ),
        ),
        watched=(WatchEntry(name="other", branch="main", commit=COMMIT, tag=None),),
    )
    return replace(lock, **changes)  # type: ignore[arg-type]


@cache
def _fabric() -> Mapping[str, bytes]:
    paths = [path for path in (CHECKOUT / "fabric").rglob("*.toml") if path.is_file()]
    return {path.relative_to(CHECKOUT).as_posix(): path.read_bytes() for path in sorted(paths)}


def memory_facts() -> bytes:
    """Return facts of a model's memory."""
    return (CHECKOUT / "recipes/ds41f/memory.toml").read_bytes()


@cache
def files() -> Mapping[str, str | bytes]:
    """Return every file of the sound project, by path; what is below ``records/`` too."""
    measured = {"nodes": 4, "transport": "nccl-ring", "kernel_backend": "b12x"}
    return {
        **PROJECT_FILES,
        **_fabric(),
        "derivations/schema.toml": '[image-schema]\nbuilder = "compose"\nparts = [{ from = "source" }]\n',
        "images/image.toml": IMAGE,
        "lock/m.toml": UPSTREAMS_WISH,
        "lock/m.lock.json": pinned(upstreams(UPSTREAMS_WISH), UPSTREAMS_WISH),
        "recipes/small.toml": RECIPE,
        "recipes/small/memory.toml": memory_facts(),
        "records/benchmarks/small.json": record("benchmark", "small", measured),
    }


def facts(changes: Mapping[str, str | bytes | None] | None = None, *, default_image: str = "image") -> Facts:
    """Return the facts of the sound project with files replaced, added, or (None) removed."""
    whole = {**files(), **(changes or {})}
    data = {path: one.encode() if isinstance(one, str) else one for path, one in whole.items() if one is not None}
    gone = dict.fromkeys(path for path in PROJECT_FILES if path not in data)
    content = {path: one for path, one in data.items() if not path.startswith(("recipes/", "fabric/", "records/"))}
    read = project({**gone, **content}, default_image=default_image)
    if SCHEMA not in whole:
        data[SCHEMA] = schema(content_digest(read.files, read.settings.build_platform).hex)
    return Facts(
        project=read,
        reading=(),
        launching={path: one for path, one in data.items() if path.split("/")[0] in LAUNCH_ROOTS},
        records={path: one for path, one in data.items() if path.startswith("records/")},
        git=GitFacts(tracked=frozenset(data), branches=frozenset({"main"})),
        site=SiteFile(file="lab.toml", data=SITE.encode(), mode=0o600),
        today=TODAY,
    )


def schema(content: str) -> bytes:
    """Return the pinned schema of the image: of what the sound shape has, and of little more."""
    options: dict[str, Json] = {
        name: {"names": [f"--{name}"], "type": kind} for kind, names in _OPTIONS.items() for name in names
    }
    read: dict[str, Json] = {"library": "file.py"}
    variables: dict[str, Json] = dict.fromkeys(_VARIABLES, read)
    document: dict[str, Json] = {
        "derive": "argument-schema/1",
        "image": "image",
        "platform": "linux/arm64",
        "program": "vllm",
        "derivation": "drv:" + "0" * 64,
        "content": content,
        "parts": {},
        "readers": {},
        "positional": ["model"],
        "options": options,
        "configs": {},
        "enums": {},
        "variables": variables,
        "own": {},
    }
    return json.dumps(document).encode()


@cache
def sound() -> Case:
    """Return the sound project, read."""
    return case_of(facts())
