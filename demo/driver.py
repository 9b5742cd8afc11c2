#!/usr/bin/env python3
"""The demo's main job: loads the queue, runs provider and workers against it, and judges the result.

What it prints at the end comes from two sources that know nothing of each other: the provider's own
log (what really arrived, and when) and SQL (what quota believes). Exit status 0 only if every check holds.
"""
import argparse
import http.client
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psycopg
from psycopg.rows import dict_row

from crm import Crm

HERE = Path(__file__).resolve().parent
RATE = 100                  # calls a second the provider documents
SAFETY = 0.9                # the part of it quota may use
CLASS = "batch"             # work class of all queued jobs
UPGRADED = "bluefin-travel"
INTERACTIVE = "atlas-recruiting"
PROBE = "probe"             # tenant name of the calls that test the provider itself
STANDARD_SECONDS = 40.0     # the run the numbers of LOADS are made for


@dataclass(frozen=True)
class Load:
    """`jobs` jobs of one tenant, committed `at` seconds after the start; each `enrich`-th is dear."""

    tenant: str
    at: float
    jobs: int
    enrich: int


FLOOD = Load("kestrel-outreach", 0, 4000, 4)
BACKLOGS = [Load("harborline", 0, 1160, 5), Load(UPGRADED, 0, 800, 4), Load("cedar-grove", 0, 580, 3)]
LATECOMERS = [Load("pixel-pottery", 3, 12, 4), Load("lumen-dental", 6, 30, 3), Load("meridian-mutual", 8, 40, 2),
              Load("fern-florist", 11, 20, 5), Load("quill-notary", 16, 5, 2), Load("tiny-toys", 24, 3, 3),
              Load("oakstreet-yoga", 29, 8, 4)]
BUSY = [FLOOD.tenant, *(load.tenant for load in BACKLOGS)]


@dataclass(frozen=True)
class Call:
    """One line of the provider's log."""

    mono: float
    wall: float
    tenant: str
    key: str
    status: int
    credits: int
    in_flight: int
    limit: str | None

    @property
    def job(self) -> int | None:
        """The id of the job that made the call, or None for a direct call."""
        kind, number = self.key.split("-")[:2]
        return int(number) if kind == "job" else None


@dataclass
class Run:
    """What happened: when (monotonic seconds) and what the interactive tenant reported."""

    begin: float = 0.0
    upgrade: float = 0.0
    end: float = 0.0
    interactive: dict[str, Any] | None = None
    bad_exits: int = 0


class Log:
    """The provider's log, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.file = path.open(encoding="utf-8")
        self.rest = ""
        self.calls: list[Call] = []

    def read(self) -> list[Call]:
        """Reads what was added since; returns all calls so far but the probe's."""
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        for line in lines:
            entry = json.loads(line)
            call = Call(entry["mono_ns"] / 1e9, entry["wall"], entry["tenant"], entry["key"],
                        entry["status"], entry["credits"], entry["in_flight"], entry["limit"])
            if call.tenant != PROBE:
                self.calls.append(call)
        return self.calls


class Children:
    """The processes of the demo. However the block ends, none of them outlives it."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Children":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def start(self, script: str, *arguments: object) -> subprocess.Popen[str]:
        """Starts one of our scripts; its stdin stays open as long as we live."""
        process = subprocess.Popen([sys.executable, "-u", str(HERE / script), *map(str, arguments)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process


def first_line(process: subprocess.Popen[str]) -> str:
    """Returns the first line a process prints; raises if it ends without one."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise SystemExit(f"demo: {process.args} did not start")
    return line


def queries() -> dict[str, str]:
    """Returns the statements of report.sql by name."""
    parts = re.split(r"^-- name: (\w+)\n", (HERE / "report.sql").read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def endpoint(load: Load, number: int) -> str:
    """Returns the endpoint of a load's job `number`."""
    return "contacts/enrich" if number % load.enrich == load.enrich - 1 else "contacts/search"


def rows(load: Load, records: list[str]) -> Iterable[tuple[str, str, str, str, str]]:
    """Yields the job rows of a load, with records of the data file as payload."""
    for number in range(load.jobs):
        yield load.tenant, "crm", endpoint(load, number), CLASS, records[number % len(records)]


def load_by_copy(db: psycopg.Connection[Any], load: Load, records: list[str]) -> None:
    """Puts a load into the queue by COPY."""
    with db.cursor() as cursor, cursor.copy(
            "COPY quota.jobs (tenant, provider, endpoint, class, payload) FROM STDIN") as copy:
        for row in rows(load, records):
            copy.write_row(row)


def load_by_insert(db: psycopg.Connection[Any], load: Load, records: list[str]) -> None:
    """Puts a load into the queue by one INSERT of all its rows."""
    columns = list(zip(*rows(load, records)))
    db.execute("INSERT INTO quota.jobs (tenant, provider, endpoint, class, payload)"
               " SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::jsonb[])",
               [list(column) for column in columns])


def burst_of(port: int, count: int) -> Counter[int]:
    """Makes `count` calls to the provider at once; returns how often each status came back."""
    answers: list[int] = []

    def one(number: int) -> None:
        answer = Crm(port).call(PROBE, "contacts/search", f"probe-{number}",
                                {"email": "a@example.com", "contact_id": ""})
        if answer.status == 429 and "retry-after" not in answer.headers:
            raise SystemExit("demo: the provider refused without Retry-After")
        answers.append(answer.status)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(answers)


def probe(port: int) -> tuple[int, int]:
    """Shows that the judge can say no: too many calls at once, then several full bursts in a row.

    Returns the calls answered and refused. An emulator that refuses nothing would prove nothing.
    """
    total = sum((burst_of(port, count) for count in (20, 10, 10)), Counter[int]())
    if total[429] == 0:
        raise SystemExit("demo: the provider did not refuse what exceeds its limits")
    time.sleep(0.2)         # its burst is full again
    return total[200], total[429]


def scaled(load: Load, seconds: float) -> Load:
    """Returns a load for a run of another length."""
    factor = seconds / STANDARD_SECONDS
    return Load(load.tenant, load.at * factor, max(1, round(load.jobs * factor)), load.enrich)


def timetable(db: psycopg.Connection[Any], run: Run, seconds: float, records: list[str],
              upgrade: str) -> list[tuple[float, str, Callable[[], None]]]:
    """Returns what happens after the start: (seconds, what it is, how it is done), in order."""

    def change_tier() -> None:
        db.execute(upgrade)
        run.upgrade = time.monotonic()

    events: list[tuple[float, str, Callable[[], None]]] = [
        (seconds / 2, f"UPDATE: {UPGRADED} moves from pro to enterprise", change_tier)]
    for late in (scaled(load, seconds) for load in LATECOMERS):
        events.append((late.at, f"{late.tenant} comes with {late.jobs} jobs",
                       lambda load=late: load_by_insert(db, load, records)))
    return sorted(events, key=lambda event: event[0])


def progress(db: psycopg.Connection[Any], query: str, log: Log, run: Run, before: int) -> int:
    """Prints one line on how far things are; returns the number of calls so far."""
    calls = log.read()
    state = db.execute(query).fetchone()
    assert state is not None
    refused = sum(call.status == 429 for call in calls)
    print(f"{time.monotonic() - run.begin:5.1f} s  calls {len(calls):5d}  {len(calls) - before:3d}/s  429s {refused}"
          f"  queued {state['queued']:5d}  running {state['running']:2d}  done {state['done']:5d}", flush=True)
    return len(calls)


def play(db: psycopg.Connection[Any], sql: dict[str, str], log: Log, run: Run, seconds: float,
         records: list[str]) -> None:
    """Loads the queue, then lets `seconds` pass: events at their time, a line of progress each second."""
    with db.transaction():
        for load in (scaled(load, seconds) for load in BACKLOGS):
            load_by_insert(db, load, records)
        load_by_copy(db, scaled(FLOOD, seconds), records)
    run.begin = time.monotonic()
    events = timetable(db, run, seconds, records, sql["upgrade"])
    next_line, seen = 1.0, 0
    while (now := time.monotonic() - run.begin) < seconds:
        if events and events[0][0] <= now:
            _, what, action = events.pop(0)
            action()
            print(f"{now:5.1f} s  {what}", flush=True)
        elif next_line <= now:
            seen = progress(db, sql["progress"], log, run, seen)
            next_line += 1
        else:
            soon = min([next_line, seconds, *(event[0] for event in events[:1])])
            time.sleep(max(0.0, soon - now))
    run.end = time.monotonic()


def end_children(run: Run, workers: list[subprocess.Popen[str]], interactive: subprocess.Popen[str],
                 provider: subprocess.Popen[str]) -> None:
    """Lets every process finish what it has in hand, the provider last, and notes how they ended."""
    for process in (*workers, interactive):
        process.terminate()
    output, _ = interactive.communicate(timeout=10)
    run.interactive = json.loads(output) if output else None
    for process in workers:
        process.wait(timeout=10)
    provider.terminate()
    provider.wait(timeout=10)
    run.bad_exits = sum(process.returncode != 0 for process in (*workers, interactive, provider))


def perform(options: argparse.Namespace, db: psycopg.Connection[Any], sql: dict[str, str]) -> tuple[Run, list[Call]]:
    """Starts everything, plays the scenario, stops everything; returns what happened and the log."""
    contacts = HERE / "contacts.jsonl"
    records = contacts.read_text(encoding="utf-8").splitlines()
    path = Path(options.directory) / "provider.log"
    run = Run()
    with Children() as children:
        provider = children.start("provider.py", "--log", path)
        port = int(first_line(provider))
        log = Log(path)
        answered, refused = probe(port)
        print(f"provider: answers on port {port}; of 40 calls beyond its limits it answered {answered} and refused {refused}")
        workers = [children.start("worker.py", "--dsn", options.dsn, "--port", port, "--name", f"worker-{number}")
                   for number in range(1, options.workers + 1)]
        interactive = children.start("interactive.py", "--dsn", options.dsn, "--port", port,
                                     "--tenant", INTERACTIVE, "--contacts", contacts)
        for process in (*workers, interactive):
            first_line(process)
        print(f"{len(workers)} workers and one interactive tenant are ready; loading the queue", flush=True)
        play(db, sql, log, run, options.seconds, records)
        end_children(run, workers, interactive, provider)
    return run, log.read()


def quantile(values: list[float], fraction: float) -> float:
    """Returns the smallest value that at least `fraction` of the values do not exceed; NaN of none."""
    return sorted(values)[math.ceil(fraction * len(values)) - 1] if values else math.nan


def busy_window(calls: list[Call], run: Run) -> float:
    """Returns until when all of BUSY had work: the last call of the first of them to run out."""
    last = {call.tenant: call.mono for call in calls if call.job is not None}
    return min(last.get(tenant, run.begin) for tenant in BUSY)


def queue_end(run: Run, calls: list[Call], waiting: int) -> float:
    """Returns until when work was queued: to the end, or to the last job's call if the queue ran dry."""
    if waiting:
        return run.end
    return max((call.mono for call in calls if call.job is not None), default=run.begin)


def shares(calls: list[Call], begin: float, end: float, weights: dict[str, float]) -> dict[str, tuple[int, float, float]]:
    """Returns jobs served, share and due share by weight of the busy tenants between two times."""
    served = Counter(call.tenant for call in calls if call.job is not None and begin <= call.mono < end)
    total = sum(served[tenant] for tenant in BUSY) or 1
    weight = sum(weights[tenant] for tenant in BUSY)
    return {tenant: (served[tenant], 100 * served[tenant] / total, 100 * weights[tenant] / weight) for tenant in BUSY}


class Report:
    """Prints the results and keeps what did not hold."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def check(self, what: str, holds: bool) -> None:
        """Prints one check and remembers it if it does not hold."""
        print(f"  {'ok    ' if holds else 'FAILED'} {what}")
        if not holds:
            self.failures.append(what)


def print_tenants(calls: list[Call], jobs: dict[str, dict[str, Any]], tiers: dict[str, str], created: dict[int, float],
                  logged: dict[str, int], ledger: dict[str, int]) -> dict[str, float]:
    """Prints a line per tenant; returns the first-job waits of those with jobs."""
    waits: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        if call.job is not None:
            waits[call.tenant].append(call.wall - created[call.job])
    counts = Counter(call.tenant for call in calls)
    print(f"\n{'tenant':<18}{'tier':<20}{'jobs':>6}{'done':>6}{'failed':>7}{'left':>6}{'calls':>7}{'share':>8}"
          f"{'first job':>11}{'p95 wait':>10}{'credits':>9}{'ledger':>8}")
    for tenant in sorted(tiers, key=lambda name: -counts[name]):
        job = jobs.get(tenant, {"loaded": 0, "succeeded": 0, "failed": 0, "waiting": 0})
        tier = f"pro -> {tiers[tenant]}" if tenant == UPGRADED else tiers[tenant]
        times = (f"{min(waits[tenant]) * 1000:8.0f} ms{quantile(waits[tenant], 0.95):8.1f} s" if waits[tenant]
                 else f"{'direct':>11}{'-':>10}")
        print(f"{tenant:<18}{tier:<20}{job['loaded']:>6}{job['succeeded']:>6}{job['failed']:>7}{job['waiting']:>6}"
              f"{counts[tenant]:>7}{100 * counts[tenant] / max(1, len(calls)):>6.1f} %{times}"
              f"{logged.get(tenant, 0):>9}{ledger.get(tenant, 0):>8}")
    return {tenant: min(values) for tenant, values in waits.items() if values}


def print_tier_change(report: Report, calls: list[Call], run: Run, before: dict[str, float], after: dict[str, float]) -> None:
    """Prints and checks how the busy tenants shared the calls before and after the tier change."""
    until = busy_window(calls, run)
    first, second = shares(calls, run.begin, run.upgrade, before), shares(calls, run.upgrade, until, after)
    print(f"\nbusy tenants       weight   before the change (0-{run.upgrade - run.begin:.0f} s)"
          f"    after it ({run.upgrade - run.begin:.0f}-{until - run.begin:.0f} s)")
    for tenant in sorted(BUSY, key=lambda name: -before[name]):
        weight = f"{before[tenant]:g} -> {after[tenant]:g}" if before[tenant] != after[tenant] else f"{before[tenant]:g}"
        (jobs_1, share_1, due_1), (jobs_2, share_2, due_2) = first[tenant], second[tenant]
        print(f"{tenant:<18} {weight:<7} {jobs_1:5d} jobs {share_1:4.1f} % (due {due_1:4.1f} %)"
              f"    {jobs_2:5d} jobs {share_2:4.1f} % (due {due_2:4.1f} %)")
    print()
    worst = max(abs(share - due) for window in (first, second) for _, share, due in window.values())
    report.check(f"shares of busy tenants follow their weights before and after the change (worst: {worst:.1f} points off)",
                 worst <= 2)


def print_interactive(report: Report, run: Run) -> None:
    """Prints and checks what the interactive tenant saw."""
    seen = run.interactive or {"waits": [], "refusals": {}}
    waits, refusals = seen["waits"], seen["refusals"]
    print(f"interactive        {len(waits)} calls; told to wait {sum(refusals.values())} times {refusals or ''};"
          f" admitted within {1000 * quantile(waits, 0.5):.0f} ms (median), {1000 * quantile(waits, 0.95):.0f} ms (p95)")
    report.check("the interactive tenant was served", len(waits) > 0)


def judge(run: Run, calls: list[Call], db: psycopg.Connection[Any], sql: dict[str, str],
          weights: tuple[dict[str, float], dict[str, float]], tiers: dict[str, str], report: Report) -> tuple[int, float]:
    """Prints all results and checks; returns the number of refused calls and the utilisation."""
    jobs = {row["tenant"]: row for row in db.execute(sql["jobs"])}
    created = {row["id"]: row["created"] for row in db.execute(sql["created"])}
    ledger = {row["tenant"]: row["spent"] for row in db.execute(sql["ledger"]) if row["spent"]}
    logged: Counter[str] = Counter()
    for call in calls:
        logged[call.tenant] += call.credits
    waiting = sum(row["waiting"] for row in jobs.values())
    end = queue_end(run, calls, waiting)
    in_time = sum(run.begin <= call.mono < end and call.status != 429 for call in calls)
    seconds = max(end - run.begin, 0.001)
    utilisation = 100 * in_time / (RATE * seconds)
    rejected = sum(call.status == 429 for call in calls)
    accepted = [call.job for call in calls if call.job is not None and call.status == 200]

    first_waits = print_tenants(calls, jobs, tiers, created, logged, ledger)
    print_tier_change(report, calls, run, *weights)
    print_interactive(report, run)
    print(f"utilisation        {in_time} calls in {seconds:.1f} s with work queued: {utilisation:.1f} % of the provider's"
          f" {RATE}/s, {utilisation / SAFETY:.1f} % of what safety allows")
    report.check(f"the provider refused nothing (429s: {rejected})", rejected == 0)
    report.check("utilisation: 85 to 91 % is right, less than 80 or more than 91 % is not", 80 <= utilisation <= 91)
    report.check(f"never more than 8 calls in flight at the provider (most: {max((c.in_flight for c in calls), default=0)})",
                 all(call.in_flight <= 8 for call in calls))
    longest = max(first_waits.values(), default=math.inf)
    report.check(f"no tenant waited a second for its first job (longest: {1000 * longest:.0f} ms)", longest < 1)
    report.check("the provider's log and SQL agree on every job, each called once",
                 len(accepted) == len(set(accepted)) == sum(row["succeeded"] for row in jobs.values()))
    report.check("every job is succeeded, failed with its reason, or still queued",
                 all(row["loaded"] == row["succeeded"] + row["failed"] + row["waiting"] for row in jobs.values()))
    report.check(f"credits by the provider's log = credits by the ledger, tenant by tenant ({sum(logged.values())})",
                 +logged == Counter(ledger))
    report.check("all processes ended well", run.bad_exits == 0)
    return rejected, utilisation


def on_sigterm(*_: object) -> NoReturn:
    """Signal handler: ends the demo through its clean-up."""
    raise SystemExit(143)


def main() -> None:
    """Runs the demo against a database with setup.sql in it; prints the verdict on the last line."""
    parser = argparse.ArgumentParser(description="the main job of the quota demo")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--directory", required=True, help="where the provider's log goes")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=STANDARD_SECONDS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, on_sigterm)
    sql, report = queries(), Report()
    with psycopg.connect(options.dsn, autocommit=True, row_factory=dict_row, application_name="driver") as db:
        before = {row["tenant"]: row["weight"] for row in db.execute(sql["weights"])}
        run, calls = perform(options, db, sql)
        after = {row["tenant"]: row["weight"] for row in db.execute(sql["weights"])}
        tiers = {row["tenant"]: row["tier"] for row in db.execute(sql["weights"])}
        rejected, utilisation = judge(run, calls, db, sql, (before, after), tiers, report)
    verdict = "FAILED" if report.failures else "ok"
    print(f"demo: {verdict} calls={len(calls)} rejected={rejected} utilisation={utilisation:.0f}%", flush=True)
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
