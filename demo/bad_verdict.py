"""Judges a bad minute: figures from the provider's log and from what quota said of itself."""
from collections import Counter
from itertools import pairwise
from typing import Any

from driver import Report

Data = dict[str, Any]


def phase(data: Data, name: str) -> tuple[float, float]:
    """Returns when the phase begins and ends."""
    begins = [begin for begin, _ in data["phases"]] + [data["end"]]
    number = [title for _, title in data["phases"]].index(name)
    return begins[number], begins[number + 1]


def calls(data: Data, begin: float, end: float, **what: Any) -> list[dict[str, Any]]:
    """Returns the calls that arrived in between, and are so."""
    return [call for call in data["calls"] if begin <= call["at"] < end
            and all(call[key] == value for key, value in what.items())]


def rate(data: Data, begin: float, end: float, **what: Any) -> float:
    """Returns the calls a second."""
    return len(calls(data, begin, end, **what)) / (end - begin)


def in_use(data: Data, begin: float, end: float) -> list[float]:
    """Returns the part of the rate that was used, calls a second, look by look."""
    return [state["part"] * data["amount"] for state in data["states"]
            if begin <= state["at"] < end and state["part"] is not None]


def allowed(data: Data, begin: float, end: float) -> float:
    """Returns the calls that the part of the rate in use allowed while not all were paused."""
    return sum((later["at"] - state["at"]) * (state["part"] or 0) * data["amount"]
               for state, later in pairwise(data["states"])
               if begin <= state["at"] < end and "provider crm" not in (state["pauses"] or []))


def decreases(data: Data, begin: float, end: float) -> list[float]:
    """Returns when the part of the rate went down."""
    return [event["at"] for event in data["events"] if begin <= event["at"] < end
            and event["kind"] == "adapted" and "limit rate:" in event["detail"]
            and "the provider limits" in event["detail"]]


def judge_half(report: Report, data: Data) -> str:
    """The limit halves: what that costs, and how soon and how steadily the new one is used."""
    begin, end = phase(data, "the limit halves")
    # what is tried now and then shows in a longer time
    until = phase(data, "a tenant is throttled")[1]
    refused = calls(data, begin, end, limit="rate")
    report.check("the provider refused nothing while all was well",
                 all(call["status"] == 200 for call in calls(data, 0, begin)))
    report.check("the provider refuses after it halved its limit", bool(refused))
    if not refused:
        return ""
    first = refused[0]["at"]
    # one that arrives later was admitted after the first refusal was told
    wave = [call for call in refused if call["at"] < first + 0.2]
    flying = max(state["flight"] or 0 for state in data["states"] if first - 0.2 <= state["at"] <= first + 0.1)
    flying = max(flying, len(wave))
    down = decreases(data, begin, end)
    late = [call["at"] - first for call in calls(data, first, first + 0.9)]
    print(f"the limit halves   refused {len(refused)}: of {flying} calls in flight {len(wave)},"
          f" later {len(refused) - len(wave)} by {len(down) - 1} steps down; after the first one calls arrived for"
          f" {1000 * max(late):.0f} ms")
    report.check(f"at most one refusal for each call in flight then and for each step down after it ({len(refused)})",
                 len(refused) <= flying + len(down) - 1)
    report.check("the first one stops all workers at once: no call arrives from 0.2 s after it until the pause ends",
                 max(late) < 0.2)
    full = [second for second in range(int(end - begin) - 1)
            if rate(data, begin + second, begin + second + 1, status=200) >= 0.9 * data["half"]]
    used = rate(data, begin + 10, until, status=200) / data["half"]
    parts = in_use(data, begin + 10, until)
    low, high = min(parts) / data["half"], max(parts) / data["half"]
    print(f"                   90 % of the new limit in use {full[0] if full else 'never'} s later;"
          f" from 10 s on {100 * used:.0f} % of it are used, quota allows {100 * low:.0f} to {100 * high:.0f} %")
    report.check("90 % of the new limit are used within 10 periods", bool(full) and full[0] <= 10)
    report.check("and from then on", used >= 0.9)
    report.check("what quota allows swings by no more than 10 %", 0.9 <= low and high <= 1.1)
    return (f"{len(wave)} of {flying} calls in flight refused: all workers stop. The new limit is used to 90 %"
            f" {full[0] if full else '?'} s later, and to {100 * used:.0f} % from 10 s on.")


def judge_tenant(report: Report, data: Data) -> str:
    """A tenant is throttled: it alone waits."""
    begin, end = phase(data, "a tenant is throttled")
    throttled = data["throttled"]
    refused = calls(data, begin, end, status=429, tenant=throttled)
    others = [tenant for tenant in data["tenants"] if tenant != throttled]
    ratios = [rate(data, begin, end, status=200, tenant=tenant)
              / rate(data, begin - 10, begin, status=200, tenant=tenant) for tenant in others]
    used = len(calls(data, begin, end, status=200)) / allowed(data, begin, end)
    left = rate(data, begin, end, status=200, tenant=throttled)
    print(f"a tenant           {throttled}: {len(refused)} refused, {left:.1f} calls a second; the others"
          f" {', '.join(f'{100 * ratio - 100:+.0f} %' for ratio in ratios)}; {100 * used:.0f} % of what quota allows are used")
    report.check("each refusal stops the tenant for a second", len(refused) <= end - begin + 1)
    report.check("the others have what it leaves: each at least as much as before", min(ratios) >= 1)
    report.check("all that quota allows is used, 90 % at least", used >= 0.9)
    report.check("its refusals lower nobody's limit", not [
        at for at in decreases(data, begin, end)
        if not [call for call in calls(data, at - 0.3, at + 0.1) if call["limit"] == "rate"]])
    return f"{len(refused)} refusals stop {throttled} alone; the others get {100 * min(ratios) - 100:.0f} % more."


def judge_endpoint(report: Report, data: Data) -> str:
    """An endpoint breaks: it alone is left alone, and tried now and then."""
    begin, end = phase(data, "an endpoint breaks")
    broken = [call for call in calls(data, begin, end, endpoint=data["broken"]) if call["status"] == 500]
    opened = [event["at"] for event in data["events"]
              if event["kind"] == "breaker_opened" and begin <= event["at"] < end]
    closed = [event["at"] for event in data["events"] if event["kind"] == "breaker_closed" and event["at"] > end]
    other = next(call["endpoint"] for call in data["calls"] if call["endpoint"] != data["broken"])
    at = opened[0] if opened else end
    probes = [call for call in broken if call["at"] > at + 0.2]
    before, while_open = rate(data, begin - 10, begin, endpoint=other), rate(data, at, end, status=200, endpoint=other)
    used = len(calls(data, at, end)) / allowed(data, at, end)
    print(f"an endpoint        {data['broken']} left alone after {at - begin:.1f} s and {len(broken) - len(probes)} failures,"
          f" then {len(probes)} probes; {other} from {before:.0f} to {while_open:.0f} calls a second;"
          f" {100 * used:.0f} % of what quota allows are used")
    report.check("the breaker opens, and then only probes go: at most three in three seconds",
                 bool(opened) and len(probes) <= end - at + 3)
    report.check("the other endpoint has what it leaves: at least as much as before", while_open >= before)
    report.check("all that quota allows is used, 90 % at least", used >= 0.9)
    report.check("the breaker closes when the endpoint is well again", bool(closed) and closed[0] < data["end"] - 5)
    report.check("no other breaker opens", not [event for event in data["events"]
                                                if event["kind"] == "breaker_opened" and other in event["detail"]])
    return (f"{len(broken) - len(probes)} calls fail, then only {len(probes)} probes go there."
            f" The other endpoint gets {100 * while_open / before - 100:.0f} % more.")


def judge_overload(report: Report, data: Data) -> str:
    """Overload: fewer calls at once, until hardly any is turned away."""
    begin, end = phase(data, "overload")
    half = (begin + end) / 2
    first, second = (len([call for call in calls(data, *times) if call["status"] == 503])
                     for times in ((begin, half), (half, end)))
    served = rate(data, half, end, status=200)
    print(f"overload           turned away {first} calls, then {second}; {served:.0f} calls a second are served")
    report.check("in the second half hardly any call is turned away (at most one in ten)",
                 second <= 0.1 * (second + served * (end - half)))
    report.check("and at least half of what it can do is done (20 calls a second)", served >= 10)
    return f"{first} calls turned away at first, {second} in the second half: fewer are made at once."


def judge_end(report: Report, data: Data) -> None:
    """All is well again: nothing is left of it, and no job was lost or done twice."""
    begin, end = phase(data, "all is well again")
    state = data["states"][-1]
    now = rate(data, end - 8, end, status=200)
    done = Counter(int(call["key"].split("-")[1]) for call in data["calls"] if call["status"] == 200)
    print(f"all is well again  {rate(data, begin, end, status=200):.0f} calls a second, at the end {now:.0f};"
          f" quota allows {in_use(data, end - 1, end)[-1]:.0f}")
    report.check("no breaker is open and no tenant paused",
                 set((state["breakers"] or {}).values()) <= {"closed"}
                 and not [scope for scope in state["pauses"] or [] if scope != "provider crm"])
    report.check("at least 90 % of half the limit are used again", now >= 0.9 * data["half"])
    report.check("each job was done once, none has failed", max(done.values()) == 1
                 and len(done) == data["jobs"]["succeeded"] and data["jobs"]["failed"] == 0)
    report.check("all processes ended well", data["bad_exits"] == 0)


def judge(data: Data) -> tuple[list[str], dict[str, str]]:
    """Prints and checks all figures; returns what did not hold, and what to write below each phase."""
    report = Report()
    print()
    caption = {"all is well": "quota begins with half of what is documented, and rises.",
               "the limit halves": judge_half(report, data),
               "a tenant is throttled": judge_tenant(report, data),
               "an endpoint breaks": judge_endpoint(report, data),
               "overload": judge_overload(report, data)}
    judge_end(report, data)
    caption["all is well again"] = ("That all of the limit is back is found out step by step:"
                                    " a try that fails stops everybody for a second, so they come ten seconds apart.")
    return report.failures, caption
