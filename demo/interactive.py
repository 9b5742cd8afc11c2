#!/usr/bin/env python3
"""A person in front of a screen: calls the provider directly, without the queue, a few times a second.

Each call asks quota_acquire() in class `interactive`. The answer is immediate, always; a refusal
says until when to wait. One JSON line at the end says what it was like.
"""
import argparse
import json
import random
import signal
import time
from collections import Counter
from typing import Any

import psycopg
from psycopg.rows import dict_row

from crm import Crm

ACQUIRE = """SELECT *, extract(epoch FROM not_before - clock_timestamp())::float8 AS seconds
             FROM quota_acquire(%s, 'crm', 'contacts/search', class => 'interactive')"""
SETTLE = "SELECT quota_settle(%s, billed => %s)"
# A concurrency refusal can promise no more than the end of the oldest permit's lifetime; permits
# normally come back much sooner, so nobody should wait for that long without asking again.
LONGEST_NAP = 0.05

stopping = False


def stop(*_: object) -> None:
    """Signal handler: asks the loop to end after the call in hand."""
    global stopping
    stopping = True


def acquire(db: psycopg.Connection[Any], tenant: str, refusals: Counter[str]) -> dict[str, Any] | None:
    """Asks until admitted, sleeping until `not_before` in between; None when told to stop first."""
    while not stopping:
        decision = db.execute(ACQUIRE, (tenant,)).fetchone()
        assert decision is not None
        if decision["admitted"]:
            return decision
        refusals[decision["reason"]] += 1
        if decision["seconds"] is None:
            raise SystemExit(f"refused for good: {decision}")
        time.sleep(min(max(decision["seconds"], 0.0), LONGEST_NAP))
    return None


def click(db: psycopg.Connection[Any], crm: Crm, tenant: str, number: int, record: dict[str, Any],
          refusals: Counter[str]) -> float | None:
    """Makes one call; returns the seconds it waited for admission, or None when stopped before."""
    asked = time.monotonic()
    decision = acquire(db, tenant, refusals)
    if decision is None:
        return None
    waited = time.monotonic() - asked
    answer = crm.call(tenant, "contacts/search", f"direct-{number}", record)
    if decision["permit"] is not None:
        db.execute(SETTLE, (decision["permit"], answer.status == 200))
    return waited


def main() -> None:
    """Connects, says `ready`, clicks about three times a second until SIGTERM, and sums up."""
    parser = argparse.ArgumentParser(description="demo interactive tenant")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--port", type=int, required=True, help="the provider's port")
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--contacts", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    with open(options.contacts, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    rng, refusals, waits = random.Random(3), Counter[str](), list[float]()
    with psycopg.connect(options.dsn, autocommit=True, row_factory=dict_row,
                         application_name="interactive") as db:
        crm = Crm(options.port)
        print("ready", flush=True)
        while not stopping:
            waited = click(db, crm, options.tenant, len(waits) + 1, rng.choice(records), refusals)
            if waited is not None:
                waits.append(waited)
            time.sleep(rng.uniform(0.2, 0.4))
    print(json.dumps({"waits": waits, "refusals": refusals}), flush=True)


if __name__ == "__main__":
    main()
