# SPDX-License-Identifier: Apache-2.0
"""How pictures of a fabric look: colours for light and dark screens, and fonts that every reader has.

Core: no IO.
"""

STYLE = """\
svg { color-scheme: light dark; }
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
.mono { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.title { font-size: 20px; font-weight: 600; }
.name { font-weight: 600; }
.pale { fill: #59636e; }
.port { font-size: 12px; font-weight: 600; }
.back { fill: #ffffff; }
.card { fill: #f6f8fa; stroke: #c4ccd4; }
.head { stroke: #1f2328; stroke-width: 1.6; }
.cage { fill: #ffffff; stroke: #9aa4af; }
.cable { fill: none; stroke: #e6eaef; stroke-width: 50; stroke-linejoin: round; }
.path { fill: none; stroke-width: 2; }
.p1 { stroke: #0969da; } .p2 { stroke: #bc4c00; }
.t1 { fill: #0550ae; } .t2 { fill: #953800; }
.halo { stroke: #e6eaef; stroke-width: 10; stroke-linejoin: round; paint-order: stroke; }
.dot { font-size: 10px; font-weight: 700; fill: #ffffff; text-anchor: middle; }
.d1 { fill: #0969da; } .d2 { fill: #bc4c00; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .pale { fill: #9198a1; }
  .back { fill: #0d1117; }
  .card { fill: #161b22; stroke: #3d444d; }
  .head { stroke: #e6edf3; }
  .cage { fill: #0d1117; stroke: #656c76; }
  .cable { stroke: #262c36; }
  .p1 { stroke: #4493f8; } .p2 { stroke: #f0883e; }
  .t1 { fill: #79c0ff; } .t2 { fill: #ffa657; }
  .halo { stroke: #262c36; }
  .dot { fill: #0d1117; }
  .d1 { fill: #4493f8; } .d2 { fill: #f0883e; }
}"""
