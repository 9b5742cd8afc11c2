"""plot.py - what was measured as SVG, in colours for light and for dark; used by report.py."""
import math
from html import escape
from statistics import median

STYLE = '''<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328; stroke: #ffffff; stroke-width: 3px; paint-order: stroke }
.title { font-weight: 600; font-size: 14px } .small { font-size: 11px; fill: #59636e }
.page { fill: #ffffff } .grid { stroke: #d1d9e0 } .spread { stroke: #1f2328 }
.ours { fill: #1a7f64 } .peer { fill: #8c959f } .miss { fill: #bc4c00 }
.line { fill: none; stroke-width: 2 }
.c0 { stroke: #1a7f64 } .c1 { stroke: #57606a } .c2 { stroke: #bc4c00 } .c3 { stroke: #0969da } .c4 { stroke: #8250df }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; stroke: #0d1117 } .small { fill: #9198a1 }
.page { fill: #0d1117 } .grid { stroke: #3d444d } .spread { stroke: #f0f6fc }
.ours { fill: #2ea489 } .peer { fill: #6e7681 } .miss { fill: #f0883e }
.c0 { stroke: #2ea489 } .c1 { stroke: #b1bac4 } .c2 { stroke: #f0883e } .c3 { stroke: #58a6ff } .c4 { stroke: #bc8cff }
}
</style>'''

# comparisons NAME_1, NAME_8 and NAME_32 in one picture
SERIES = {'clients': 'calls a second by clients, one hot key', 'credit': 'pairs of hold and settle a second by clients',
          'queue': 'jobs claimed and completed a second by clients, one at a time'}
CLIENTS = (1, 8, 32)


def picture(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">\n{STYLE}\n<rect class="page" width="{width}" height="{height}"/>\n'
            + '\n'.join(parts) + '\n</svg>\n')


def text(x, y, words, anchor='start', kind=''):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def label_width(labels):
    return 20 + 7 * max(len(label) for label in labels)


def spread(low, high, y):
    return [line(low, y, high, y, 'spread'), line(low, y - 4, low, y + 4, 'spread'), line(high, y - 4, high, y + 4, 'spread')]


def bars(comparison):
    """A bar for each kind, its median; a line from the least to the greatest."""
    kinds = comparison.kinds
    left = label_width([k.label for k in kinds])
    room, step = 420, 28
    most = max(max(k.all('rate')) for k in kinds)
    parts = [text(12, 24, f'{comparison.title}: {comparison.unit}', kind='title')]
    for i, k in enumerate(kinds):
        y = 40 + i * step
        rates = k.all('rate')
        value = median(rates)
        kind = 'peer' if is_peer(k.label) else 'ours'
        parts.append(text(left - 8, y + 15, k.label, 'end'))
        parts.append(f'<rect class="{kind}" x="{left}" y="{y + 2}" width="{max(1, room * value / most):.1f}" height="18"/>')
        if len(rates) > 1:
            parts += spread(left + room * min(rates) / most, left + room * max(rates) / most, y + 11)
        ratio = f' ({median(k.ratios(kinds[0])):.2f} x)' if i else ''
        parts.append(text(left + room * max(rates) / most + 8, y + 15, f'{value:,.0f}{ratio}'))
    return picture(left + room + 150, 52 + len(kinds) * step, parts)


PEERS = ('SELECT', 'row lock', 'Redis', 'rate-limiter', 'plain', 'graphile', 'pg-boss', 'balance in', 'without', 'two durable', 'each row')


def is_peer(label):
    return label.startswith(PEERS)


def targets(run):
    """Measured by target, on a scale of powers: right of the line is reached.  A bar is the bound."""
    rows = [(t.name, [v / t.least for v in t.values], t.value, t.least,
             median(t.bound_values) / t.least if t.bound_values else None) for t in run.targets]
    rows += [(f'{f.what}: {f.which}', [f.figure / f.value if f.how == 'at most' else f.value / f.figure],
              f.value, f.figure, None) for f in run.facts if f.figure is not None and f.value]
    left = label_width([row[0] for row in rows])
    room, step = 420, 26
    low = min(0.5, *(min(row[1]) for row in rows), *(row[4] for row in rows if row[4])) * 0.9
    high = max(2, *(max(row[1]) for row in rows), *(row[4] for row in rows if row[4])) * 1.1

    def at(value):
        return left + room * math.log(value / low) / math.log(high / low)

    bottom = 44 + len(rows) * step
    parts = [text(12, 24, 'measured, of what is to be reached (bar: the bound)', kind='title')]
    for tick in (0.1, 0.25, 0.5, 1, 2, 4, 10, 20):
        if low <= tick <= high:
            parts.append(line(at(tick), 36, at(tick), bottom, 'spread' if tick == 1 else 'grid'))
            parts.append(text(at(tick), bottom + 16, f'{tick:g}', 'middle', 'small'))
    for i, (name, values, measured, wanted, bound) in enumerate(rows):
        y = 52 + i * step
        value = median(values)
        parts.append(text(left - 12, y + 4, name, 'end'))
        if len(values) > 1:
            parts += spread(at(min(values)), at(max(values)), y)
        if bound:
            parts.append(f'<rect class="peer" x="{at(bound) - 2:.1f}" y="{y - 10}" width="4" height="20"/>')
        parts.append(f'<circle class="{"ours" if value >= 1 else "miss"}" cx="{at(value):.1f}" cy="{y}" r="6"/>')
        parts.append(text(at(max(*values, bound or 0)) + 10, y + 4, f'{short(measured)} of {short(wanted)}'))
    return picture(left + room + 130, bottom + 28, parts)


def short(value):
    return f'{value:,.0f}' if value >= 100 else f'{value:.2f}'.rstrip('0').rstrip('.')


def has_series(run, name):
    return all(f'{name}_{n}' in run.comparisons for n in CLIENTS)


def scale(most):
    """A round number above, and the distance of lines."""
    step = 10 ** math.floor(math.log10(most))
    step = next(s for s in (step / 5, step / 2, step, step * 2) if most / s <= 6)
    return math.ceil(most / step) * step, step


def series(run, name):
    """Lines over the number of clients, of the kinds that all comparisons have."""
    all_of = [run.comparisons[f'{name}_{n}'] for n in CLIENTS]
    labels = [k.label for k in all_of[0].kinds if all(any(k.label == o.label for o in c.kinds) for c in all_of)]
    left, top, width, height = 70, 44, 420, 240
    most, step = scale(max(k.median('rate') for c in all_of for k in c.kinds if k.label in labels))
    x = [left + 30 + i * (width - 60) / (len(CLIENTS) - 1) for i in range(len(CLIENTS))]
    parts = [text(12, 24, SERIES[name], kind='title')]
    for i in range(round(most / step) + 1):
        y = top + height - height * i * step / most
        parts += [line(left, y, left + width, y, 'grid'), text(left - 8, y + 4, f'{i * step:,.0f}', 'end', 'small')]
    for i, n in enumerate(CLIENTS):
        parts.append(text(x[i], top + height + 18, f'{n} client{"s" if n > 1 else ""}', 'middle', 'small'))
    ends = []
    for i, label in enumerate(sorted(labels, key=is_peer)):
        y = [top + height - height * c.kind(label).median('rate') / most for c in all_of]
        parts.append(f'<polyline class="line c{i % 5}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))}"/>')
        ends.append((y[-1], i, label))
    # names beside the ends of lines, none over another
    free = 0
    for y, i, label in sorted(ends):
        free = max(y + 4, free)
        parts += [line(left + width + 4, free - 4, left + width + 20, free - 4, f'line c{i % 5}'), text(left + width + 26, free, label)]
        free += 17
    return picture(left + width + 40 + label_width(labels), top + height + 34, parts)


def write(run, path):
    pictures = {c.name: bars(c) for c in run.comparisons.values()}
    pictures.update({name: series(run, name) for name in SERIES if has_series(run, name)})
    if run.targets:
        pictures['targets'] = targets(run)
    for name, svg in pictures.items():
        with open(path(f'{name}.svg'), 'w', encoding='utf-8') as out:
            out.write(svg)
