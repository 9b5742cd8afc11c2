#!/usr/bin/env python3
"""A queue worker: claims one job, calls the provider at once, says how it went, and again.

Everything about limits, fairness and credits is in the one statement that claims. The worker knows
no rate and no tier; it never sees a 429, and while nothing may be claimed it sleeps in quota_wait.
"""
import argparse
import signal
import time
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from crm import Answer, Crm

CLAIM = "SELECT * FROM quota_dequeue('crm', 1, worker => %s)"
WAIT = "CALL quota_wait('crm', '1 second')"
COMPLETE = "SELECT quota_complete(id => %s, attempt => %s, result => %s, latency => %s)"
FAIL = """SELECT quota_fail(id => %s, attempt => %s, error => %s, status => %s, headers => %s,
                           billed => false, retry => %s, latency => %s)"""

stopping = False


def stop(*_: object) -> None:
    """Signal handler: asks the loop to end after the job in hand."""
    global stopping
    stopping = True


def finish(db: psycopg.Connection[Any], job: dict[str, Any], answer: Answer, latency: timedelta) -> None:
    """Records the provider's answer; (id, attempt) proves that the job is still ours."""
    if answer.status == 200:
        db.execute(COMPLETE, (job["id"], job["attempt"], Jsonb(answer.body), latency))
        return
    temporary = answer.status in (0, 429) or answer.status >= 500
    db.execute(FAIL, (job["id"], job["attempt"], answer.body["error"], answer.status or None,
                      Jsonb(answer.headers), temporary, latency))


def work(db: psycopg.Connection[Any], crm: Crm, name: str) -> None:
    """Works until told to stop; a job in hand is always finished first."""
    while not stopping:
        job = db.execute(CLAIM, (name,)).fetchone()
        if job is None:
            db.execute(WAIT)
            continue
        key = f"job-{job['id']}-{job['attempt']}"
        began = time.monotonic()
        answer = crm.call(job["tenant"], job["endpoint"], key, job["payload"])
        finish(db, job, answer, timedelta(seconds=time.monotonic() - began))


def main() -> None:
    """Connects, says `ready`, and works until SIGTERM."""
    parser = argparse.ArgumentParser(description="demo worker")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--port", type=int, required=True, help="the provider's port")
    parser.add_argument("--name", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    with psycopg.connect(options.dsn, autocommit=True, row_factory=dict_row,
                         application_name=options.name) as db:
        print("ready", flush=True)
        work(db, Crm(options.port), options.name)


if __name__ == "__main__":
    main()
