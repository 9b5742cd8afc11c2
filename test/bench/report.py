#!/usr/bin/python3
"""report.py - tables of what ./run has measured.

usage: report.py WORK table COMPARISON     as text
       report.py WORK target NAME          one line
       report.py WORK targets              all of them
       report.py WORK write DIR            report.md, results.csv, results.json, plots

WORK has what lib/compare.bash writes, fields separated by tabs: about (name, value),
comparisons (name, title, unit), results (comparison, number and label of a kind,
round, and the numbers of NUMBERS separated by blanks), targets (name, comparison,
label of what should reach, labels it is measured against, least ratio, labels of what
bounds it and of what that is measured against), facts (what, which, value, unit, "at
most" or "at least", figure), refused (lines of text).
"""
import csv
import json
import os
import sys
from statistics import median

import plot

NUMBERS = ('rate', 'done', 'p50_us', 'p99_us', 'wal_bytes', 'buffers', 'dead_rows')
COSTS = NUMBERS[4:]


def read(work, name):
    path = os.path.join(work, name)
    if not os.path.exists(path):
        return []
    with open(path, encoding='utf-8') as lines:
        return [line.rstrip('\n').split('\t') for line in lines]


class Kind:
    """One side of a comparison: its numbers by round."""

    def __init__(self, label):
        self.label = label
        self.rounds = {}

    def add(self, number, fields):
        self.rounds[number] = {
            name: None if field == '-' else float(field) for name, field in zip(NUMBERS, fields)}

    def all(self, name):
        return [r[name] for r in self.rounds.values() if r[name] is not None]

    def median(self, name):
        values = self.all(name)
        return median(values) if values else None

    def each(self, name):
        """A cost for each that was done, or None."""
        values = [r[name] / r['done'] for r in self.rounds.values()
                  if r[name] is not None and r['done']]
        return median(values) if values else None

    def ratios(self, other):
        return [r['rate'] / other.rounds[n]['rate'] for n, r in self.rounds.items()]


class Comparison:
    def __init__(self, name, title, unit):
        self.name, self.title, self.unit = name, title, unit
        self.kinds = []

    def kind(self, label):
        return next(k for k in self.kinds if k.label == label)


class Target:
    """What a kind should reach: so many times another one, or a rate; and how far anything
    could come, as another kind shows that does only what cannot be avoided."""

    def __init__(self, comparison, name, label, others, least, bound='', bound_other=''):
        self.name, self.least, self.rate = name, float(least), others == ''
        kind = comparison.kind(label)
        if self.rate:
            self.values, self.other = kind.all('rate'), ''
        else:
            # the hardest of those it is measured against
            against = [(kind.ratios(comparison.kind(o)), o) for o in others.split('|')]
            self.values, self.other = min(against, key=lambda a: median(a[0]))
        self.value = median(self.values)
        self.reached = self.value >= self.least
        self.bound_by = f'{bound} against {bound_other}' if bound_other else bound
        self.bound_values = comparison.kind(bound).ratios(comparison.kind(bound_other or self.other)) if bound else []


class Fact:
    def __init__(self, what, which, value, unit, how='', figure=''):
        self.what, self.which, self.unit, self.how = what, which, unit, how
        self.value = float(value)
        self.figure = float(figure) if figure else None
        if figure:
            self.reached = self.value <= self.figure if how == 'at most' else self.value >= self.figure


class Run:
    def __init__(self, work):
        self.about = read(work, 'about')
        self.comparisons = {n: Comparison(n, t, u) for n, t, u in read(work, 'comparisons')}
        for name, number, label, turn, numbers in read(work, 'results'):
            kinds = self.comparisons[name].kinds
            while len(kinds) < int(number):
                kinds.append(Kind(None))
            kinds[int(number) - 1].label = label
            kinds[int(number) - 1].add(int(turn), numbers.split())
        self.targets = [Target(self.comparisons[c], name, label, others, least, *bound[:2])
                        for name, c, label, others, least, *bound in read(work, 'targets')
                        if c in self.comparisons]
        self.facts = [Fact(*fields[:6]) for fields in read(work, 'facts')]
        self.refused = [' '.join(line) for line in read(work, 'refused')]


# Text ------------------------------------------------------------------------

def number(value):
    if value is None:
        return ''
    if abs(value) >= 100:
        return f'{value:,.0f}'
    return f'{value:.1f}' if abs(value) >= 10 else f'{value:.2f}'


def cost(value):
    return '' if value is None else f'{value:,.0f}' if value >= 9.95 else f'{value:.1f}'


def spread(values):
    """The median, and the least and greatest."""
    if len(values) < 2:
        return number(median(values))
    return f'{number(median(values))} ({number(min(values))} to {number(max(values))})'


def verdict(target):
    return 'reached' if target.reached else 'not reached'


def bound(target):
    # that of one round says nothing
    return f'{spread(target.bound_values)}, {target.bound_by}' if len(target.bound_values) > 1 else ''


def time(value):
    """pgbench reads its clock when it looks at a socket: 0 is an answer that was there at once."""
    return '< 1' if value == 0 else number(value)


def rows_of(comparison):
    first = comparison.kinds[0]
    for i, k in enumerate(comparison.kinds):
        yield [chr(ord('A') + i), k.label, spread(k.all('rate')),
               spread(k.ratios(first)) if i else '1',
               time(k.median('p50_us')), time(k.median('p99_us')),
               *(cost(k.each(c)) for c in COSTS)]


HEAD = ['', '', None, '/ A', 'p50, us', 'p99, us', 'WAL bytes', 'buffers', 'dead rows']


def print_table(comparison):
    head = HEAD[:]
    head[2] = comparison.unit
    rows = [head, *rows_of(comparison)]
    # columns that nobody has something in are left out
    used = [c for c in range(len(head)) if any(row[c] for row in rows[1:])]
    widths = {c: max(len(row[c]) for row in rows) for c in used}
    print(comparison.title)
    for row in rows:
        print('  '.join(row[c].ljust(widths[c]) if c < 2 else row[c].rjust(widths[c])
                        for c in used).rstrip())


def print_target(target):
    against = '' if target.rate else ' times'
    print(f'  {target.name}: {spread(target.values)}{against}, '
          f'at least {number(target.least)}: {verdict(target)}')
    if bound(target):
        print(f'    bound: {bound(target)}')


def print_fact(fact):
    print(f'  {fact.what}, {fact.which}: {number(fact.value)} {fact.unit}, '
          f'{fact.how} {number(fact.figure)}: {verdict(fact)}')


def print_targets(run):
    print('Figures to reach')
    for target in run.targets:
        print_target(target)
    for fact in run.facts:
        if fact.figure is not None:
            print_fact(fact)
    for line in run.refused:
        print(f'  {line}')


# Files -----------------------------------------------------------------------

def markdown_row(cells):
    return '| ' + ' | '.join(str(cell).replace('|', '\\|') for cell in cells) + ' |\n'


def markdown_targets(run, out):
    out.write('## Figures to reach\n\nMedians of ratios, and the least and the greatest of all rounds. The bound is the '
              'ratio of what does only what cannot be avoided, measured in the same rounds; of refusals, if they are decided '
              'no cheaper than admissions.\n\n')
    out.write('![measured, of what is to be reached](targets.svg)\n\n')
    out.write(markdown_row(['measure', 'to reach', 'measured', '', 'bound']) + '|---|---|---|---|---|\n')
    for t in run.targets:
        out.write(markdown_row([t.name, f'at least {number(t.least)}', spread(t.values), verdict(t), bound(t)]))
    for f in run.facts:
        if f.figure is not None:
            out.write(markdown_row([f'{f.what}: {f.which}', f'{f.how} {number(f.figure)} {f.unit}',
                                    f'{number(f.value)} {f.unit}', verdict(f), '']))
    for line in run.refused:
        out.write(f'\n{line}\n')


def markdown_comparison(comparison, out):
    head = HEAD[:]
    head[2] = comparison.unit
    out.write(f'\n### {comparison.title[0].upper()}{comparison.title[1:]}\n\n')
    out.write(markdown_row(head) + '|---|---|' + '--:|' * (len(head) - 2) + '\n')
    for row in rows_of(comparison):
        out.write(markdown_row(row))
    out.write(f'\n![{comparison.title}]({comparison.name}.svg)\n')


def write_markdown(run, out):
    out.write('# What was measured\n\nBy `make bench`; see test/bench/run.\n\n')
    markdown_targets(run, out)
    out.write('\n## Machine, versions and settings\n\n| | |\n|---|---|\n')
    for line in run.about:
        out.write(markdown_row(line))
    out.write('\n## Comparisons\n\nA and the others took turns. Ratios are taken within a round, against the first '
              'line. Percentiles are of one round trip; "< 1" is an answer that was there before the client looked, '
              'as where server and client share processors. WAL, buffers looked at and rows left dead are for each that '
              'was done, with what the background did meanwhile.\n')
    for series in plot.SERIES:
        if plot.has_series(run, series):
            out.write(f'\n![{plot.SERIES[series]}]({series}.svg)\n')
    for comparison in run.comparisons.values():
        markdown_comparison(comparison, out)
    out.write('\n## Figures\n\n| what | which | |\n|---|---|--:|\n')
    for f in run.facts:
        out.write(markdown_row([f.what, f.which, f'{number(f.value)} {f.unit}']))


def write_csv(run, out):
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(['comparison', 'kind', 'round', 'unit', *NUMBERS])
    for c in run.comparisons.values():
        for k in c.kinds:
            for turn, numbers in sorted(k.rounds.items()):
                writer.writerow([c.name, k.label, turn, c.unit, *numbers.values()])


def as_json(run):
    return {
        'about': dict(line for line in run.about),
        'targets': [{'name': t.name, 'at_least': t.least, 'measured': t.value, 'values': t.values,
                     'reached': t.reached, 'bound': {'by': t.bound_by, 'values': t.bound_values} if t.bound_by else None}
                    for t in run.targets],
        'facts': [{name: value for name, value in vars(f).items() if value not in ('', None)}
                  for f in run.facts],
        'comparisons': [{'name': c.name, 'title': c.title, 'unit': c.unit,
                         'kinds': [{'label': k.label, 'rounds': list(k.rounds.values())} for k in c.kinds]}
                        for c in run.comparisons.values()],
        'not_reported': run.refused,
    }


def write(run, directory):
    os.makedirs(directory, exist_ok=True)

    def path(name):
        return os.path.join(directory, name)

    with open(path('report.md'), 'w', encoding='utf-8') as out:
        write_markdown(run, out)
    with open(path('results.csv'), 'w', encoding='utf-8') as out:
        write_csv(run, out)
    with open(path('results.json'), 'w', encoding='utf-8') as out:
        json.dump(as_json(run), out, indent=1)
        out.write('\n')
    plot.write(run, path)
    print(f'\nbench: written to {directory}')


def main(work, what, *arguments):
    run = Run(work)
    if what == 'table':
        print_table(run.comparisons[arguments[0]])
    elif what == 'target':
        print_target(next(t for t in run.targets if t.name == arguments[0]))
    elif what == 'targets':
        print_targets(run)
    elif what == 'write':
        write(run, *arguments)
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main(*sys.argv[1:])
