# Licensed under the Apache License, Version 2.0; see LICENSE.
"""A small writer of line plots as SVG, readable on light and dark pages."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 72, 160, 36, 48
COLOURS = ("#d1495b", "#00798c", "#8a8a8a", "#edae49", "#66a182", "#8d6a9f", "#3d5a80", "#b56576")
# The same in every plot.
OWN_COLOURS = {"stock": "#d1495b", "module": "#00798c", "limit": "#8a8a8a"}
OTHERS = [c for c in COLOURS if c not in OWN_COLOURS.values()]
STYLE = """<style>
text { font: 12px sans-serif; fill: #222 }
.title { font-size: 14px; font-weight: bold }
.grid { stroke: #8888; stroke-width: .5 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .back { fill: #1b1b1b } }
.back { fill: #fff }
@media (prefers-color-scheme: dark) { .back { fill: #1b1b1b } }
</style>"""


def number(value):
    if value == 0:
        return "0"
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def ticks(low, high, logarithmic):
    if logarithmic:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return [10.0 ** e for e in range(first, last + 1)]
    step = 10 ** math.floor(math.log10((high - low) or 1))
    while (high - low) / step > 6:
        step *= 2 if str(step).lstrip("0.")[0] in "15" else 2.5
    while (high - low) / step < 3:
        step /= 2
    return [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


class Axis:
    def __init__(self, values, start, length, logarithmic):
        self.log = logarithmic and min(values) > 0
        low = min(values) if self.log else min(0, min(values))
        self.ticks = ticks(low, max(values) if max(values) > low else low + 1, self.log)
        self.low, self.high = self.scale(self.ticks[0]), self.scale(self.ticks[-1])
        self.start, self.length = start, length

    def scale(self, value):
        return math.log10(value) if self.log else value

    def at(self, value):
        return self.start + (self.scale(value) - self.low) / (self.high - self.low or 1) * self.length


def plot(title, x_label, y_label, lines, log_x=False, log_y=False):
    """lines: {name: [(x, y), ...]}; returns the text of an SVG file, or None without points."""
    points = [p for line in lines.values() for p in line]
    if not points:
        return None
    x = Axis([p[0] for p in points], LEFT, WIDTH - LEFT - RIGHT, log_x)
    y = Axis([p[1] for p in points], HEIGHT - BOTTOM, -(HEIGHT - TOP - BOTTOM), log_y)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'role="img" aria-label="{escape(title)}">', STYLE,
           f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
           f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>']
    for value in y.ticks:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(value):.1f}" '
                   f'y2="{y.at(value):.1f}"/><text x="{LEFT - 6}" y="{y.at(value) + 4:.1f}" '
                   f'text-anchor="end">{number(value)}</text>')
    for value in x.ticks:
        out.append(f'<line class="grid" y1="{TOP}" y2="{HEIGHT - BOTTOM}" x1="{x.at(value):.1f}" '
                   f'x2="{x.at(value):.1f}"/><text x="{x.at(value):.1f}" y="{HEIGHT - BOTTOM + 16}" '
                   f'text-anchor="middle">{number(value)}</text>')
    out.append(f'<text x="{LEFT + (WIDTH - LEFT - RIGHT) / 2}" y="{HEIGHT - 10}" '
               f'text-anchor="middle">{escape(x_label)}</text>')
    out.append(f'<text transform="translate(14 {TOP + (HEIGHT - TOP - BOTTOM) / 2}) rotate(-90)" '
               f'text-anchor="middle">{escape(y_label)}</text>')
    colours = dict(zip((n for n in lines if n not in OWN_COLOURS), (OTHERS + list(OWN_COLOURS.values())) * len(lines)))
    for i, (name, line) in enumerate(lines.items()):
        colour = OWN_COLOURS.get(name) or colours[name]
        path = " ".join(f"{x.at(px):.1f},{y.at(py):.1f}" for px, py in sorted(line))
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        out += [f'<circle cx="{x.at(px):.1f}" cy="{y.at(py):.1f}" r="3" fill="{colour}"/>'
                for px, py in line]
        at = TOP + 12 + i * 18
        out.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{at - 9}" width="10" height="10" '
                   f'fill="{colour}"/><text x="{WIDTH - RIGHT + 28}" y="{at}">{escape(name)}</text>')
    return "\n".join(out + ["</svg>", ""])
