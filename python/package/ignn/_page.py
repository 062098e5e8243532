"""Tables and curves for notebooks: small HTML, escaped in one place."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(title: str, rows: Sequence[tuple[str, object]], below: str = "") -> str:
    """A table of names and values; what is below must be HTML already."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<div><b>{escape(title)}</b><table>{lines}</table>{below}</div>"


def curve(values: Sequence[float | None], title: str) -> str:
    """A line over epochs as SVG; nothing for fewer than two values."""
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(value for _, value in known), max(value for _, value in known)
    span, last = (high - low) or 1.0, max(len(values) - 1, 1)
    points = " ".join(
        f"{300 * at / last:.1f},{60 - 56 * (value - low) / span:.1f}" for at, value in known
    )
    return (
        f"<figure style='margin:0'><svg viewBox='0 0 300 64' width='300' height='64'>"
        f"<polyline points='{points}' fill='none' stroke='currentColor'/></svg>"
        f"<figcaption>{escape(title)}: {low:.4g} to {high:.4g}</figcaption></figure>"
    )
