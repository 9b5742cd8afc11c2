#!/usr/bin/env python3
"""An emulated third-party CRM: the judge of the demo.

It knows nothing of PostgreSQL or of the extension. It meters what arrives by its own arithmetic, in
integer nanoseconds of the monotonic clock: a rate with a burst (GCRA), the number of calls in
flight, and credits per call. Whatever exceeds them is answered with 429 and Retry-After. Each call
is one JSON line of the log, written when it arrives.

    POST /v1/contacts/search   1 credit
    POST /v1/contacts/enrich   5 credits

Headers a caller sends: X-Tenant (whose call it is) and Idempotency-Key (which call it is); both are
copied to the log. A record without a usable e-mail address is answered with 422 and costs no
credits, but it counts as a call.

Trouble is made by lines of JSON on stdin, which change what is wrong from then on:

    {"rate": 50}                    another rate; its refusals name a time every other time
    {"throttled": "some-tenant"}    that tenant may call twice a second; null: no more
    {"broken": "contacts/enrich"}   that endpoint answers 500
    {"overloaded": true}            calls get slower the more there are; of more than 4 at once: 503
"""
import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Any, TextIO

SECOND = 1_000_000_000
PRICES = {"contacts/search": 1, "contacts/enrich": 5}
INDUSTRIES = ["logistics", "healthcare", "retail", "software", "education"]
REASONS = {200: "OK", 404: "Not Found", 422: "Unprocessable Content", 429: "Too Many Requests",
           500: "Internal Server Error", 503: "Service Unavailable"}
THROTTLE = 2                # calls a second of a throttled tenant
OVERLOAD_CALLS = 4          # overloaded: works on so many calls at once,
OVERLOAD_MS = 40            # and for each that is under way a call takes so much longer


class Meter:
    """Generic cell rate algorithm: `rate` calls a second, `burst` of them at once."""

    def __init__(self, rate: int, burst: int) -> None:
        self.burst = burst
        self.expected = 0
        self.change(rate)

    def change(self, rate: int) -> None:
        """Another rate from now on."""
        self.interval = SECOND // rate
        self.tolerance = (self.burst - 1) * self.interval

    def wait(self, now: int) -> int:
        """Returns how many nanoseconds too early a call at `now` is; 0 or less: it conforms."""
        return self.expected - self.tolerance - now

    def count(self, now: int) -> None:
        """Counts one conforming call at `now`."""
        self.expected = max(self.expected, now) + self.interval


@dataclass
class Trouble:
    """What is wrong with the provider now."""

    throttled: str | None = None
    broken: str | None = None
    overloaded: bool = False
    meter: Meter = field(default_factory=lambda: Meter(THROTTLE, THROTTLE))
    tells: bool = False     # the last refusal by the rate named a time


@dataclass
class Refusal:
    """Why a call is refused; seconds to wait as far as they are told."""

    status: int
    limit: str
    seconds: int | None = None
    scope: str | None = None

    def headers(self) -> dict[str, str]:
        """What the answer says."""
        told = {"Retry-After": self.seconds, "X-RateLimit-Scope": self.scope}
        return {name: str(value) for name, value in told.items() if value is not None}


@dataclass
class Provider:
    """The provider's limits, what is spent of them, and its log."""

    meter: Meter
    concurrency: int
    credits_left: int
    log: TextIO
    rng: random.Random
    latency_ms: tuple[float, float]
    in_flight: int = 0
    connections: set[asyncio.Task[None]] = field(default_factory=set)
    trouble: Trouble | None = None

    def obey(self, order: dict[str, Any]) -> None:
        """Makes trouble, or ends it."""
        self.trouble = self.trouble or Trouble()
        if "rate" in order:
            self.meter.change(order["rate"])
        self.trouble.throttled = order.get("throttled", self.trouble.throttled)
        self.trouble.broken = order.get("broken", self.trouble.broken)
        self.trouble.overloaded = order.get("overloaded", self.trouble.overloaded)

    def troubled(self, now: int, tenant: str | None, endpoint: str) -> Refusal | None:
        """Returns why a call is refused by what is wrong, or None."""
        trouble = self.trouble
        if trouble is None:
            return None
        if trouble.overloaded and self.in_flight >= OVERLOAD_CALLS:
            return Refusal(503, "overload")
        if tenant == trouble.throttled:
            early = trouble.meter.wait(now)
            if early > 0:
                return Refusal(429, "tenant", -(-early // SECOND), "tenant")
            trouble.meter.count(now)
        return None

    def refusal(self, now: int, price: int, tenant: str | None, endpoint: str) -> Refusal | None:
        """Returns why a call at `now` is refused, or None."""
        if self.in_flight >= self.concurrency:
            return Refusal(429, "concurrency", 1)
        if price > self.credits_left:
            return Refusal(429, "credits", 3600)
        early = self.meter.wait(now)
        if early <= 0:
            return self.troubled(now, tenant, endpoint)
        if self.trouble is None:
            return Refusal(429, "rate", -(-early // SECOND), "account")
        self.trouble.tells = not self.trouble.tells
        return Refusal(429, "rate", -(-early // SECOND) if self.trouble.tells else None, "account")

    def service_ms(self) -> float:
        """Returns how long the call takes that has just come."""
        took = self.rng.uniform(*self.latency_ms)
        if self.trouble is not None and self.trouble.overloaded:
            took += OVERLOAD_MS * self.in_flight
        return took

    def write_log(self, now: int, headers: dict[str, str], endpoint: str, status: int,
                  credits: int, limit: str | None) -> None:
        """Appends one call to the log; `in_flight` includes this call if it was accepted."""
        self.log.write(json.dumps({
            "mono_ns": now, "wall": time.time(), "tenant": headers.get("x-tenant"),
            "key": headers.get("idempotency-key"), "endpoint": endpoint, "status": status,
            "credits": credits, "in_flight": self.in_flight, "limit": limit}) + "\n")

    async def answer(self, path: str, headers: dict[str, str], body: bytes
                     ) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Meters, logs and answers one call; returns status, extra headers and JSON body."""
        now = time.monotonic_ns()
        endpoint = path.removeprefix("/v1/")
        price = PRICES.get(endpoint)
        if price is None:
            self.write_log(now, headers, endpoint, 404, 0, None)
            return 404, {}, {"error": "no such endpoint"}
        refused = self.refusal(now, price, headers.get("x-tenant"), endpoint)
        if refused is not None:
            self.write_log(now, headers, endpoint, refused.status, 0, refused.limit)
            return refused.status, refused.headers(), {"error": f"{refused.limit} limit exceeded"}
        self.meter.count(now)
        self.in_flight += 1
        try:
            if self.trouble is not None and self.trouble.broken == endpoint:
                self.write_log(now, headers, endpoint, 500, 0, None)
                await asyncio.sleep(self.service_ms() / 1000)
                return 500, {}, {"error": "broken"}
            record = json.loads(body)
            valid = "@" in record.get("email", "")
            price = price if valid else 0
            self.credits_left -= price
            self.write_log(now, headers, endpoint, 200 if valid else 422, price, None)
            await asyncio.sleep(self.service_ms() / 1000)
        finally:
            self.in_flight -= 1
        if not valid:
            return 422, {"X-Credits-Charged": "0"}, {"error": "not an e-mail address"}
        return 200, {"X-Credits-Charged": str(price)}, result_of(endpoint, record)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one keep-alive connection, one after the other, until it closes."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        try:
            while True:
                path, headers, body = await read_request(reader)
                status, extra, content = await self.answer(path, headers, body)
                writer.write(response(status, extra, content))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.connections.discard(task)
            writer.close()


def result_of(endpoint: str, record: dict[str, Any]) -> dict[str, Any]:
    """Returns what the CRM would say about a record."""
    if endpoint == "contacts/search":
        return {"matches": [{"contact_id": record["contact_id"], "score": 0.97}]}
    number = sum(record["domain"].encode())
    return {"contact_id": record["contact_id"], "industry": INDUSTRIES[number % len(INDUSTRIES)],
            "founded": 1950 + number % 70}


async def read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """Reads one HTTP/1.1 request; returns path, headers (names in lower case) and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    path = head[0].split(" ")[1]
    headers: dict[str, str] = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return path, headers, body


def response(status: int, extra: dict[str, str], content: dict[str, Any]) -> bytes:
    """Returns the bytes of one HTTP/1.1 answer with a JSON body."""
    body = json.dumps(content).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **extra}
    lines = [f"HTTP/1.1 {status} {REASONS[status]}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def listen(provider: Provider, stop: asyncio.Event) -> None:
    """Obeys the orders that have come; stops when who gave them is gone."""
    text = os.read(sys.stdin.fileno(), 4096).decode()
    if not text:
        stop.set()
    for line in text.splitlines():
        provider.obey(json.loads(line))


async def run(options: argparse.Namespace) -> None:
    """Serves until SIGTERM, or until the process that holds the other end of stdin is gone."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    with open(options.log, "w", encoding="utf-8", buffering=1) as log:
        provider = Provider(Meter(options.rate, options.burst), options.concurrency, options.credits,
                            log, random.Random(options.seed), (options.latency[0], options.latency[1]))
        loop.add_reader(sys.stdin, listen, provider, stop)
        server = await asyncio.start_server(provider.serve, "127.0.0.1", options.port)
        print(server.sockets[0].getsockname()[1], flush=True)
        await stop.wait()
        server.close()
        for task in list(provider.connections):
            task.cancel()
        await asyncio.gather(*provider.connections, return_exceptions=True)


def main() -> None:
    """Reads the limits from the command line, prints the port listened on, and serves."""
    parser = argparse.ArgumentParser(description="emulated CRM provider")
    parser.add_argument("--log", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rate", type=int, default=100, help="calls per second")
    parser.add_argument("--burst", type=int, default=10)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--credits", type=int, default=50_000, help="credits of the account")
    parser.add_argument("--latency", type=float, nargs=2, default=(20.0, 60.0), metavar="MS")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
