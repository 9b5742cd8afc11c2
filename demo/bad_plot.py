"""Draws a bad minute as an SVG, for light and dark pages: a lane for each thing that is watched."""
from collections import Counter
from collections.abc import Callable, Iterable
from html import escape
from textwrap import wrap
from typing import Any

Data = dict[str, Any]
Point = tuple[float, float]

WIDTH, LEFT, RIGHT, TOP = 1200, 196, 18, 172
GAP = 30                    # between lanes
# name: on a light page, on a dark one; tell each other apart also without red and green
COLOURS = {
    "page": ("#ffffff", "#12161c"), "text": ("#1d2430", "#e8ecf2"), "dim": ("#5b6675", "#9aa6b5"),
    "grid": ("#dfe4ea", "#2b333e"), "band": ("#f3f5f8", "#1a2028"), "trouble": ("#fdf1e3", "#2a221a"),
    "well": ("#9fb8d6", "#4a6a91"), "refused": ("#e07b00", "#ff9f2e"), "broken": ("#b3203a", "#ff5c77"),
    "use": ("#0b57b0", "#6fb4ff"), "hidden": ("#1d2430", "#e8ecf2"),
    "one": ("#0b57b0", "#6fb4ff"), "two": ("#7a3fb5", "#c08cf5"), "three": ("#e07b00", "#ff9f2e"),
    "four": ("#0a8574", "#3fd0bb"), "half": ("#d9a400", "#f2c94c")}
TENANTS = ["one", "two", "three", "four"]


def style() -> str:
    """Returns the style sheet: a class to fill and one to draw for each colour."""
    def rules(which: int) -> str:
        return "".join(f".f-{name}{{fill:{colours[which]}}}.s-{name}{{stroke:{colours[which]}}}"
                       for name, colours in COLOURS.items())
    return ("text{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif;font-size:12px}"
            ".b{font-weight:600}.l{font-size:13px}.t{font-size:21px}.e{text-anchor:end}.m{text-anchor:middle}"
            "polyline,path{fill:none;stroke-width:2;stroke-linejoin:round}.g{stroke-width:1}.d{stroke-dasharray:5 4}"
            f"{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}")


def text(x: float, y: float, content: str, classes: str = "f-text") -> str:
    """Returns a text that begins at, or by its classes is about or ends at, x."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Returns a filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" class="f-{colour}"/>'


class Plot:
    """The picture so far."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.parts: list[str] = []
        self.bottom = float(TOP)
        self.begin = 0.0
        self.most = 1.0

    def x(self, at: float) -> float:
        """Returns where a time is."""
        return LEFT + max(at, 0) / self.data["end"] * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Returns where a value is in the lane."""
        return self.bottom - min(value, self.most) / self.most * (self.bottom - self.begin)

    def lane(self, title: str, unit: str, height: float, most: float, step: float,
             legend: list[tuple[str, str, str]]) -> None:
        """Begins a lane with its scale; the legend is of (shape, colour, what it is)."""
        self.begin, self.most = self.bottom + (GAP if self.parts else 0), most
        self.bottom = self.begin + height
        self.parts.append(text(10, self.begin + 11, title, "f-text b l"))
        self.parts.append(text(10, self.begin + 27, unit, "f-dim"))
        for number, (shape, colour, what) in enumerate(legend):
            y = self.begin + 46 + 17 * number
            self.parts.append(box(10, y - 9, 14, 10, colour) if shape == "box" else
                              f'<path d="M10 {y - 4:.1f}h14" class="s-{colour}{" d" if shape == "dashes" else ""}"/>')
            self.parts.append(text(30, y, what))
        value = 0.0
        while value <= most and step > 0:
            y = self.y(value)
            self.parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" class="s-grid g"/>')
            self.parts.append(text(LEFT - 6, y + 4, f"{value:g}", "f-dim e"))
            value += step

    def bar(self, second: int, y: float, height: float, colour: str) -> None:
        """Draws the bar of a second."""
        self.parts.append(box(self.x(second) + 1, y, self.x(1) - self.x(0) - 2, height, colour))

    def line(self, points: Iterable[Point], colour: str, dashes: bool = False) -> None:
        """Draws a line through (time, value)."""
        path = " ".join(f"{self.x(at):.1f},{self.y(value):.1f}" for at, value in points)
        self.parts.append(f'<polyline points="{path}" class="s-{colour}{" d" if dashes else ""}"/>')

    def steps(self, points: list[Point], colour: str, dashes: bool = False) -> None:
        """Draws a line that keeps each value until the next time."""
        corners = [point for (at, value), (until, _) in zip(points, [*points[1:], (self.data["end"], 0.0)])
                   for point in ((at, value), (until, value))]
        kept = [point for number, point in enumerate(corners)
                if number in (0, len(corners) - 1) or not corners[number - 1][1] == point[1] == corners[number + 1][1]]
        self.line(kept, colour, dashes)


def a_second(data: Data, wanted: Callable[[dict[str, Any]], bool]) -> list[int]:
    """Returns the number of such calls in each second."""
    counts = Counter(int(call["at"]) for call in data["calls"] if call["at"] >= 0 and wanted(call))
    return [counts[second] for second in range(int(data["end"]))]


def short(endpoint: str) -> str:
    """Returns the endpoint's last word."""
    return endpoint.split("/")[-1]


def middles(values: list[int]) -> list[Point]:
    """Returns the points of values by second, in the middle of each."""
    return [(second + 0.5, float(value)) for second, value in enumerate(values)]


def draw_calls(plot: Plot) -> None:
    """All calls by what came of them, with what the provider allows and what quota does."""
    data = plot.data
    kinds = [("well", lambda call: call["status"] == 200), ("refused", lambda call: call["status"] == 429),
             ("broken", lambda call: call["status"] >= 500)]
    plot.lane("Calls a second", "at the provider", 190, 112, 25, [
        ("dashes", "hidden", "what it allows"), ("line", "use", "what quota allows"), ("box", "well", "answered well"),
        ("box", "refused", "refused, 429"), ("box", "broken", "failed, 500 and 503")])
    below = [0] * int(data["end"])
    for colour, wanted in kinds:
        for second, count in enumerate(a_second(data, wanted)):
            if count:
                # a single refusal must be seen
                height = max(plot.y(0) - plot.y(count), 4.0 if colour == "refused" else 0.0)
                plot.bar(second, plot.y(below[second]) - height, height, colour)
                below[second] += count
    plot.steps([(state["at"], state["part"] * data["amount"]) for state in data["states"] if state["part"]], "use")
    begins = dict((name, begin) for begin, name in data["phases"])
    half, back = begins["the limit halves"], begins["all is well again"]
    plot.steps([(0, data["hidden"]), (half, data["half"]), (back, data["hidden"])], "hidden", dashes=True)


def draw_tenants(plot: Plot) -> None:
    """Calls that were answered well, by tenant."""
    data = plot.data
    lines = {tenant: a_second(data, lambda call, of=tenant: call["status"] == 200 and call["tenant"] == of)
             for tenant in data["tenants"]}
    plot.lane("By tenant", "answered well, a second", 120, max(max(line) for line in lines.values()) + 2, 10,
              [("line", colour, tenant) for colour, tenant in zip(TENANTS, data["tenants"])])
    for colour, tenant in zip(TENANTS, data["tenants"]):
        plot.line(middles(lines[tenant]), colour)


def draw_endpoints(plot: Plot) -> None:
    """Calls that were answered well, by endpoint."""
    data = plot.data
    names = sorted({call["endpoint"] for call in data["calls"]}, reverse=True)
    lines = {name: a_second(data, lambda call, of=name: call["status"] == 200 and call["endpoint"] == of)
             for name in names}
    plot.lane("By endpoint", "answered well, a second", 90, max(max(line) for line in lines.values()) + 2, 25,
              [("line", colour, short(name)) for colour, name in zip(("four", "two"), names)])
    for colour, name in zip(("four", "two"), names):
        plot.line(middles(lines[name]), colour)


def draw_flight(plot: Plot) -> None:
    """Calls in flight, and how many quota allows."""
    data = plot.data
    plot.lane("In flight", "calls at once", 80, 17, 4, [
        ("line", "use", "what quota allows"), ("box", "well", "in flight")])
    most: dict[int, int] = {}
    for state in data["states"]:
        second = int(max(state["at"], 0))
        most[second] = max(most.get(second, 0), state["flight"] or 0)
    for second, count in most.items():
        plot.bar(second, plot.y(count), plot.bottom - plot.y(count), "well")
    plot.steps([(state["at"], state["flight_limit"]) for state in data["states"] if state["flight_limit"]], "use")


def spans(data: Data, holds: Callable[[dict[str, Any]], bool]) -> list[Point]:
    """Returns from when to when something is so."""
    found: list[Point] = []
    since = None
    for state in [*data["states"], None]:
        is_so = state is not None and holds(state)
        at = state["at"] if state is not None else data["end"]
        if is_so and since is None:
            since = at
        elif not is_so and since is not None:
            found.append((since, at))
            since = None
    return found


def draw_states(plot: Plot) -> None:
    """Pauses and breakers, a row each."""
    data = plot.data
    rows: list[tuple[str, list[tuple[str, list[Point]]]]] = []

    def paused(scope: str) -> list[tuple[str, list[Point]]]:
        return [("refused", spans(data, lambda state: scope in (state["pauses"] or [])))]

    rows.append(("all calls", paused("provider crm")))
    for tenant in data["tenants"]:
        if paused(f"tenant {tenant}")[0][1]:
            rows.append((tenant, paused(f"tenant {tenant}")))
    for name in sorted({call["endpoint"] for call in data["calls"]}):
        rows.append((short(name), [(colour, spans(data, lambda state, of=name, what=what: (state["breakers"] or {}).get(
            f"breaker {of}") == what)) for colour, what in (("broken", "open"), ("half", "half_open"))]))
    plot.lane("What quota stops", "", 22 * len(rows), 1, 0, [])
    for number, (shape, colour, what) in enumerate([("box", "refused", "paused"), ("box", "broken", "breaker open"),
                                                    ("box", "half", "only probes")]):
        y = plot.begin + 30 + 17 * number
        plot.parts += [box(10, y - 9, 14, 10, colour), text(30, y, what)]
    for number, (name, parts) in enumerate(rows):
        y = plot.begin + 22 * number
        plot.parts.append(text(LEFT - 6, y + 15, name, "f-dim e"))
        plot.parts.append(f'<path d="M{LEFT} {y + 21:.1f}H{WIDTH - RIGHT}" class="s-grid g"/>')
        for colour, times in parts:
            for begin, end in times:
                plot.parts.append(box(plot.x(begin), y + 3, max(plot.x(end) - plot.x(begin), 2), 15, colour))


def draw_phases(plot: Plot, caption: dict[str, str]) -> list[str]:
    """What is wrong when: columns behind the lanes, their names above, what came of it below the names."""
    behind: list[str] = []
    begins = [*plot.data["phases"], (plot.data["end"], "")]
    for (begin, name), (end, _) in zip(begins, begins[1:]):
        trouble = not name.startswith("all is well")
        behind.append(box(plot.x(begin), 54, plot.x(end) - plot.x(begin), plot.bottom - 54,
                          "trouble" if trouble else "band"))
        behind.append(f'<path d="M{plot.x(begin):.1f} 54V{plot.bottom:.1f}" class="s-grid g"/>')
        letters = int((plot.x(end) - plot.x(begin) - 8) / 6.6)
        lines = [(line, "f-text b") for line in wrap(name, int(letters * 0.9))]
        lines += [(line, "f-dim") for line in wrap(caption.get(name, ""), letters)]
        behind += [text(plot.x(begin) + 6, 70 + 15 * number, line, classes)
                   for number, (line, classes) in enumerate(lines)]
    return behind


def draw(data: Data, caption: dict[str, str]) -> str:
    """Returns the SVG."""
    plot = Plot(data)
    for lane in (draw_calls, draw_tenants, draw_endpoints, draw_flight, draw_states):
        lane(plot)
    bottom = plot.bottom
    for second in range(0, int(data["end"]) + 1, 10):
        plot.parts.append(text(plot.x(second), bottom + 17, f"{second} s" if second else "0", "f-dim m"))
    height = bottom + 30
    head = [box(0, 0, WIDTH, height, "page"), text(10, 30, "A bad minute", "f-text b t"),
            text(LEFT, 30, "16 workers share one credential of a provider in trouble; none of them knows a limit."
                 " One real run.", "f-dim l"), *draw_phases(plot, caption)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"'
            f' height="{height:.0f}" role="img" aria-label="How quota reacts to a provider in trouble">'
            f"<style>{style()}</style>\n" + "\n".join([*head, *plot.parts]) + "\n</svg>\n")
