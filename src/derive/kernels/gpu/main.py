# SPDX-License-Identifier: Apache-2.0
"""The run: each part in a process of its own, one report of them all, whole after every part.

Edge: standard streams, child processes, files below --out and a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .setting import Setting, run_program, say

PARTS = ("boot", "lacking", "correct", "time", "sanitize", "profile")
FORMAT = "kernel-run/1"
_SPARE_SECONDS = 10


def main() -> int:
    """Run the parts that are asked for; 0 when all are well, 1 when something is not."""
    args = _arguments()
    if args.part is not None:
        return _part(args)
    out = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + args.seconds
    report: dict[str, Any] = {"derive": FORMAT, "bundle": _manifest(), "parts": {}, "ok": False}
    with tempfile.TemporaryDirectory(prefix="kernels-") as work:
        for name in ("machine", *args.parts):
            left = int(deadline - time.monotonic()) - _SPARE_SECONDS
            found, took = _in_child(args, name, Path(work), left, report)
            report[name] = found
            report["parts"][name] = {"seconds": round(took), "ok": bool(found.get("ok", True))}
            say(f"{name}: {'ok' if report['parts'][name]['ok'] else 'NOT OK'} after {took:.0f} s")
            for problem in found.get("problems", ())[:20]:
                say(f"  {problem}")
            report["ok"] = all(part["ok"] for part in report["parts"].values())
            _write(out / "report.json", report)
    say(f"report: {out / 'report.json'}: {'all well' if report['ok'] else 'NOT ALL WELL'}")
    return 0 if report["ok"] else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--all", action="store_true", help="every part (the default)")
    parser.add_argument("--parts", type=_parts, default=PARTS, help=f"some of {','.join(PARTS)}")
    parser.add_argument("--kernels", type=_words, default=(), help="only these kernels, with commas between")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where report.json is written")
    parser.add_argument("--seconds", type=int, default=570, help="how long all of it may take")
    parser.add_argument("--seed", type=int, default=secrets.randbits(31), help="of the random data (default: another)")
    parser.add_argument("--gpu", help="an architecture, where there is no GPU: kernels are then loaded and not run")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--wrong", help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--left", type=int, default=300, help=argparse.SUPPRESS)
    return parser.parse_args()


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def _parts(text: str) -> tuple[str, ...]:
    unknown = [word for word in _words(text) if word not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return _words(text)


def _bundle() -> Path:
    return Path(__file__).resolve().parent.parent


def _manifest() -> Any:
    return json.loads((_bundle() / "bundle.json").read_text("utf-8"))


def _start(args: argparse.Namespace, work: Path) -> list[str]:
    words = [str(_bundle() / "run.py"), "--seed", str(args.seed), "--work", str(work)]
    words += ["--kernels", ",".join(args.kernels)] if args.kernels else []
    return words + (["--gpu", args.gpu] if args.gpu else [])


def _in_child(
    args: argparse.Namespace, name: str, work: Path, left: int, report: dict[str, Any]
) -> tuple[dict[str, Any], float]:
    """Run a part; whatever becomes of it, there is an answer."""
    began = time.monotonic()
    if left <= 0:
        return {"ok": False, "problems": ["no time was left for it"]}, 0.0
    setting = Setting(bundle=_bundle(), work=work)
    _write(work / "report-so-far.json", report)
    into = work / f"{name}.json"
    words = [sys.executable, *_start(args, work), "--part", name, "--into", str(into), "--left", str(left)]
    status = run_program(words, setting.environment(), left, keep=False).status
    stopped = f"it was not done after {left} s"
    why = stopped if status is None else f"it ended with status {status} before it could report"
    if into.exists():
        found: dict[str, Any] = json.loads(into.read_text("utf-8"))
    else:
        found = {"ok": False, "problems": [why]}
    return found, time.monotonic() - began


def _part(args: argparse.Namespace) -> int:
    """Do one part here, and write what it found."""
    work = args.work or Path(tempfile.mkdtemp(prefix="kernels-"))
    bundle = _bundle()
    setting = Setting(bundle=bundle, work=work, kernels=args.kernels, seed=args.seed, gpu=args.gpu)
    found = _done(args, setting)
    if args.into is not None:
        _write(args.into, found)
    return 0


def _done(args: argparse.Namespace, setting: Setting) -> dict[str, Any]:
    start = _start(args, setting.work)
    match args.part:
        case "machine":
            from . import machine

            return machine.run()
        case "boot" | "lacking":
            from . import boot

            return boot.run(setting) if args.part == "boot" else boot.run_lacking(setting)
        case "correct":
            from . import correct

            return correct.run(setting)
        case "time":
            from . import timing

            os.environ["TILELANG_CACHE_DIR"] = timing.writable_cache(setting)
            return timing.run(setting)
        case "sanitize" | "small" | "wrong":
            from . import sanitize

            if args.part == "sanitize":
                return sanitize.run(setting, start, max(60, args.left // 3))
            return sanitize.small(setting) if args.part == "small" else sanitize.wrong(args.wrong)
        case "profile" | "one":
            from . import profiler

            if args.part == "one":
                return profiler.one(setting, args.case, args.rows)
            times = json.loads((setting.work / "report-so-far.json").read_text("utf-8")).get("time", {})
            return profiler.run(setting, start, times, max(30, args.left // 2))
        case _:
            raise SystemExit(f"no part {args.part}")


def _write(path: Path, document: Any) -> None:
    """Write a file whole, or not at all."""
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(text, encoding="utf-8")
    staged.replace(path)
