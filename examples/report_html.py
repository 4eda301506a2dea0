"""Writes the report of compare_devices.py as one self-contained HTML page: loss curves and an engine timeline."""

from __future__ import annotations

import html
import io
import json
import os
from pathlib import Path

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #1a1a1a; }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse } td { padding: .15em 1.5em .15em 0; vertical-align: top }
td:first-child { color: #555 } svg { max-width: 100%; height: auto } .bad { color: #b00020 } .good { color: #1b6e2f }
.note { color: #666; font-size: .9em }
"""
# One row per engine, in this order; other names in the trace follow.
ENGINE_ORDER = ["tensor", "vector", "scalar", "gpsimd", "sync", "dma"]
COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#76b7b2", "#e15759", "#edc948"]


def loss_curves(losses: dict[str, list[float]]) -> str:
    """Inline SVG of all curves."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    for (name, values), style in zip(losses.items(), ["-", "--", ":", "-."] * 4, strict=False):
        axes.plot(range(1, len(values) + 1), values, style, label=name, linewidth=1.8)
    axes.set(xlabel="step", ylabel="loss, nats per byte")
    axes.legend()
    axes.grid(alpha=0.3)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    plt.close(figure)
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]


def timeline_svg(trace: str, width: int = 1060, limit: int = 6000) -> str:
    """Engine rows from a Chrome trace ("X" events, microseconds). The first `limit` events are drawn."""
    parsed = json.loads(trace)
    events = parsed["traceEvents"] if isinstance(parsed, dict) else parsed
    names = {e["tid"]: e["args"]["name"] for e in events if e.get("ph") == "M" and e.get("name") == "thread_name"}
    every = [e for e in events if e.get("ph") == "X"]
    spans = every[:limit]
    if not spans:
        return "<p class='note'>No timeline: nothing was launched.</p>"
    rows = sorted(
        {str(names.get(e["tid"], e["tid"])) for e in spans},
        key=lambda n: (next((i for i, k in enumerate(ENGINE_ORDER) if n.lower().startswith(k)), 99), len(n), n),
    )
    end = max(e["ts"] + e["dur"] for e in spans)
    left, height = 110, 22
    scale = (width - left) / end
    out = [f'<svg viewBox="0 0 {width} {height * len(rows) + 30}" xmlns="http://www.w3.org/2000/svg" font-size="12">']
    for i, row in enumerate(rows):
        out.append(f'<text x="0" y="{i * height + 15}">{html.escape(row)}</text>')
    for e in spans:
        row = rows.index(str(names.get(e["tid"], e["tid"])))
        x, w = left + e["ts"] * scale, max(e["dur"] * scale, 0.3)
        title = html.escape(f"{e['name']}: {e['dur']:.3f} us at {e['ts']:.3f} us")
        out.append(
            f'<rect x="{x:.2f}" y="{row * height + 3}" width="{w:.2f}" height="{height - 6}" '
            f'fill="{COLOURS[row % len(COLOURS)]}"><title>{title}</title></rect>'
        )
    out.append(f'<text x="{left}" y="{height * len(rows) + 20}">0</text>')
    out.append(f'<text x="{width}" y="{height * len(rows) + 20}" text-anchor="end">{end:,.1f} us</text></svg>')
    if len(spans) < len(every):
        out.append(f"<p class='note'>The first {len(spans):,} of {len(every):,} recorded instructions.</p>")
    return "\n".join(out)


def write_html(
    path: Path, losses: dict[str, list[float]], lines: list[tuple[str, str]], broken: list[str], timeline: str
) -> None:
    """Replaces `path` only once the page is complete."""
    rows = "\n".join(f"<tr><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>" for a, b in lines)
    verdict = (
        "".join(f"<p class='bad'>{html.escape(b)}</p>" for b in broken) or "<p class='good'>Every promise was kept.</p>"
    )
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>A GPT on cpu and neuron</title><style>{STYLE}</style></head><body>
<h1>A GPT on cpu and neuron</h1>
{verdict}
<h2>Loss</h2>
{loss_curves(losses)}
<h2>Facts</h2>
<p class="note">Wall time is this machine's; modelled time is what the timing model says a Trainium2 core would take.</p>
<table>{rows}</table>
<h2>Engine timeline of the compiled step's longest executable (modelled)</h2>
{timeline_svg(timeline)}
</body></html>
"""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(page, encoding="utf-8")
    os.replace(partial, path)
