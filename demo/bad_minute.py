#!/usr/bin/env python3
"""A bad minute: the provider halves its limit, throttles a tenant, breaks an endpoint, is overloaded.

Workers that know nothing of all that go on; what they do is judged by the provider's log and by what
quota says of itself, and drawn as an SVG. Exit status 0 only if every check holds.
"""
import argparse
import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from bad_plot import draw
from bad_verdict import judge
from driver import HERE, Children, Load, first_line, load_by_copy, on_sigterm

HIDDEN = 100                # what the provider allows a second, when all is well
HALF = HIDDEN // 2
THROTTLED = "cedar-grove"
BROKEN = "contacts/enrich"
SAMPLE = 0.1                # seconds between looks at quota's state
TENANTS = ["harborline", "bluefin-travel", "cedar-grove", "kestrel-outreach"]
JOBS = 3500                 # of each tenant: more than it can have done

# seconds, name, what begins at the provider
TIMETABLE: list[tuple[float, str, dict[str, Any]]] = [
    (0, "all is well", {}),
    (12, "the limit halves", {"rate": HALF}),
    (33, "a tenant is throttled", {"throttled": THROTTLED}),
    (44, "an endpoint breaks", {"throttled": None, "broken": BROKEN}),
    (57, "overload", {"broken": None, "overloaded": True}),
    (67, "all is well again", {"overloaded": False, "rate": HIDDEN}),
]
END = 95

STATE = """
SELECT extract(epoch FROM clock_timestamp())::float8 AS wall,
       (SELECT capacity FROM quota.stat_buckets WHERE limit_name = 'in_flight') AS flight_limit,
       (SELECT used FROM quota.stat_buckets WHERE limit_name = 'in_flight') AS flight,
       (SELECT used_part::float8 FROM quota.stat_adaptive WHERE limit_name = 'rate') AS part,
       (SELECT jsonb_object_agg(breaker, state) FROM quota.stat_breakers) AS breakers,
       (SELECT jsonb_agg(scope) FROM quota.stat_pauses) AS pauses"""
EVENTS = """
SELECT extract(epoch FROM at)::float8 AS wall, kind, tenant, detail
  FROM quota.events WHERE provider = 'crm' ORDER BY at, id"""
JOBS_DONE = """
SELECT count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
       count(*) FILTER (WHERE state = 'failed') AS failed FROM quota.jobs"""


@dataclass
class Measured:
    """What happened, all times in seconds after the start."""

    hidden: float = HIDDEN
    half: float = HALF
    end: float = END
    throttled: str = THROTTLED
    broken: str = BROKEN
    tenants: list[str] = field(default_factory=lambda: list(TENANTS))
    amount: float = 0.0                     # the part of the rate that is most used, a second
    phases: list[tuple[float, str]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[str, int] = field(default_factory=dict)
    bad_exits: int = 0


def order(provider: subprocess.Popen[str], what: dict[str, Any]) -> None:
    """Makes trouble at the provider, or ends it."""
    assert provider.stdin is not None
    provider.stdin.write(json.dumps(what) + "\n")
    provider.stdin.flush()


def show(state: dict[str, Any], now: float) -> None:
    """Prints a line on how things are."""
    breakers = [f"{name.removeprefix('breaker ')} {what}" for name, what in (state["breakers"] or {}).items()
                if what != "closed"]
    paused = [f"{scope} paused" for scope in state["pauses"] or []]
    print(f"{now:5.1f} s  of the rate {100 * (state['part'] or 0):3.0f} %  in flight {state['flight'] or 0:2d}"
          f" of {state['flight_limit'] or 0:2d}  {', '.join(paused + breakers)}", flush=True)


def play(db: psycopg.Connection[Any], provider: subprocess.Popen[str], measured: Measured) -> tuple[float, float]:
    """Lets the minute pass; returns when it began, by the monotonic and by the wall clock."""
    begin, wall = time.monotonic(), time.time()
    todo, next_look, next_line = list(TIMETABLE), 0.0, 1.0
    while (now := time.monotonic() - begin) < END:
        if todo and todo[0][0] <= now:
            _, name, what = todo.pop(0)
            order(provider, what)
            measured.phases.append((time.monotonic() - begin, name))
            print(f"{now:5.1f} s  {name}: {what or 'nothing is wrong'}", flush=True)
        elif next_look <= now:
            state = db.execute(STATE).fetchone()
            assert state is not None
            measured.states.append({**state, "at": state["wall"] - wall})
            next_look += SAMPLE
            if next_line <= now:
                show(state, now)
                next_line += 1
        else:
            time.sleep(max(0.0, min([next_look, *(step[0] for step in todo[:1])]) - now))
    return begin, wall


def perform(options: argparse.Namespace, db: psycopg.Connection[Any]) -> Measured:
    """Starts everything, lets the minute pass, stops everything; returns what was measured."""
    measured = Measured()
    records = (HERE / "contacts.jsonl").read_text(encoding="utf-8").splitlines()
    records = [record for record in records if "@" in json.loads(record).get("email", "")]
    path = Path(options.directory) / "provider.log"
    with Children() as children:
        provider = children.start("provider.py", "--log", path, "--rate", HIDDEN, "--concurrency", 32,
                                  "--credits", 1_000_000)
        port = int(first_line(provider))
        with db.transaction():
            for tenant in TENANTS:
                load_by_copy(db, Load(tenant, 0, JOBS, 3), records)
        workers = [children.start("worker.py", "--dsn", options.dsn, "--port", port, "--name", f"worker-{number}")
                   for number in range(1, options.workers + 1)]
        for process in workers:
            first_line(process)
        print(f"{len(workers)} workers and a provider that allows {HIDDEN} calls a second", flush=True)
        begin, wall = play(db, provider, measured)
        for process in workers:
            process.terminate()
        for process in workers:
            process.wait(timeout=20)
        provider.terminate()
        provider.wait(timeout=10)
        measured.bad_exits = sum(process.returncode != 0 for process in (*workers, provider))
    time.sleep(1.5)         # what the background worker still has to write
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        measured.calls.append({"at": entry["mono_ns"] / 1e9 - begin, **{key: entry[key] for key in (
            "tenant", "endpoint", "status", "limit", "in_flight", "key")}})
    measured.events = [{**row, "at": row["wall"] - wall} for row in db.execute(EVENTS)]
    measured.amount = HIDDEN * 0.9
    measured.jobs = db.execute(JOBS_DONE).fetchone() or {}
    return measured


def main() -> None:
    """Runs the bad minute against a database with bad_minute.sql in it; the verdict is the last line."""
    parser = argparse.ArgumentParser(description="the bad minute of the quota demo")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--directory", required=True, help="where log, measurements and plot go")
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, on_sigterm)
    with psycopg.connect(options.dsn, autocommit=True, row_factory=dict_row, application_name="driver") as db:
        measured = perform(options, db)
    directory = Path(options.directory)
    data = json.loads(json.dumps(asdict(measured)))
    (directory / "bad-minute.json").write_text(json.dumps(data), encoding="utf-8")
    failures, caption = judge(data)
    (directory / "bad-minute.svg").write_text(draw(data, caption), encoding="utf-8")
    print(f"demo: {'FAILED' if failures else 'ok'} bad minute, calls={len(data['calls'])}", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
