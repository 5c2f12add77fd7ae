"""From samples to the tables and goals that make bench prints.

All figures are medians. An added cost is a median minus the plain median; where heft's is smaller
than the noise (the spread of plain against plain), the ratio is given as a lower bound, marked '>',
with the noise in its place: a ratio over nothing means nothing. Where the peer's is, it is an upper
bound, marked '<', for the same reason.
"""
import statistics

from bench_measure import median


class Bound(float):
    """A ratio of which only a bound is known: '>' at least this, '<' at most."""

    def __new__(cls, value, sign=">"):
        self = super().__new__(cls, value)
        self.sign = sign
        return self


def slowdown(result, variant):
    plain = plain_seconds(result)
    samples = result["samples"].get(variant) or []
    value = median(samples)
    if not plain or value is None:
        return None
    if any(sample["timed_out"] for sample in samples):
        return Bound(value / plain)
    if any(sample["status"] != plain_status(result) for sample in samples):
        return "failed"
    return value / plain


def plain_samples(result):
    return result["samples"].get("plain", []) + result["samples"].get("plain-again", [])


def plain_seconds(result):
    return median(plain_samples(result))


def plain_status(result):
    samples = plain_samples(result)
    return samples[0]["status"] if samples else 0


def noise_seconds(result):
    """How far two halves of the plain runs lie apart, but at least their standard error."""
    walls = [sample["wall_s"] for sample in plain_samples(result)]
    if len(walls) < 2:
        return 0.0
    apart = abs((median(result["samples"].get("plain", [])) or walls[0]) -
                (median(result["samples"].get("plain-again", [])) or walls[0]))
    return max(apart, statistics.stdev(walls) / len(walls) ** 0.5)


def added_ratio(result, theirs, ours):
    """Their added cost over ours; None where it cannot be said."""
    their_slowdown, our_slowdown = slowdown(result, theirs), slowdown(result, ours)
    if not isinstance(their_slowdown, float) or not isinstance(our_slowdown, float):
        return None
    plain = plain_seconds(result)
    their_added = (their_slowdown - 1) * plain
    our_added = (our_slowdown - 1) * plain
    noise = noise_seconds(result)
    if our_added <= noise:
        return Bound(their_added / noise) if noise > 0 and their_added > noise else None
    if their_added <= noise:
        return Bound(noise / our_added, "<")
    ratio = their_added / our_added
    return Bound(ratio) if isinstance(their_slowdown, Bound) else ratio


def show(value, pattern="{:.2f}"):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return (value.sign if isinstance(value, Bound) else "") + pattern.format(float(value))


def table(header, rows):
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        words = [row[0].ljust(widths[0])]
        words += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(words).rstrip())
    return "\n".join(lines)


def count(number):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def compared(results):
    return [result for result in results if result["group"] in ("micro", "real", "short", "start")]


def main_table(results):
    header = ["row", "plain s", "noise %", "heft", "heaptrack", "--raw", "library", "heft prog.",
              "added", "added raw", "added lib.", "cpu heft", "cpu heaptr.", "events", "B/event",
              "ns/event"]
    rows = []
    for result in compared(results):
        plain = plain_seconds(result)
        facts = result["recording"] or {}
        events = facts.get("events")
        heft = slowdown(result, "heft")
        added = (heft - 1) * plain if isinstance(heft, float) else None
        cpu_plain = median(plain_samples(result), "cpu_s")

        def cpu(variant):
            value = median(result["samples"].get(variant) or [], "cpu_s")
            return show(value / cpu_plain) if value is not None and cpu_plain else "-"

        rows.append([
            result["row"], f"{plain:.4f}", show(100 * noise_seconds(result) / plain, "{:.1f}"),
            show(heft), show(slowdown(result, "heaptrack")),
            show(slowdown(result, "heaptrack-raw")), show(slowdown(result, "library")),
            show(slowdown(result, "heft-program")),
            show(added_ratio(result, "heaptrack", "heft"), "{:.1f}"),
            show(added_ratio(result, "heaptrack-raw", "heft"), "{:.1f}"),
            show(added_ratio(result, "library", "heft-program"), "{:.2f}"),
            cpu("heft"), cpu("heaptrack"),
            (count(events) + ("!" if facts.get("dropped") else "")) if events else "-",
            show(facts.get("bytes_per_event")),
            show(added / events * 1e9 if added is not None and events and events > 50_000 else None,
                 "{:.0f}"),
        ])
    if not rows:
        return ""
    columns = {3: "heft", 4: "heaptrack", 5: "heaptrack-raw", 6: "library", 7: "heft-program"}
    last = ["median"] + [""] * (len(header) - 1)
    for column, variant in columns.items():
        last[column] = show(middle(slowdown(result, variant) for result in compared(results)))
    goals = [result for result in results if result.get("goal")]
    last[8] = show(middle(added_ratio(r, "heaptrack", "heft") for r in goals), "{:.1f}")
    last[9] = show(middle(added_ratio(r, "heaptrack-raw", "heft") for r in goals), "{:.1f}")
    last[10] = show(middle(added_ratio(r, "library", "heft-program") for r in goals))
    return table(header, [*rows, last])


def middle(values):
    numbers = [float(value) for value in values if isinstance(value, float)]
    return statistics.median(numbers) if numbers else None


def micro_table(results):
    """ns per malloc+free pair, measured inside the program: start-up and file end are outside."""
    variants = ["plain", "heft", "heft-program", "heaptrack", "heaptrack-raw", "library"]
    rows = []
    for result in results:
        if result["group"] != "micro":
            continue
        cells = [result["row"]]
        for variant in variants:
            cells.append(show(median(result["samples"].get(variant) or [], "ns_per_op"), "{:.1f}"))
        rows.append(cells)
    header = ["ns per pair, inside", *variants]
    return table(header, rows) if rows else ""


def scale_table(results):
    rows = [result for result in results if result["group"] == "scale"]
    if not rows:
        return ""
    variants = ["plain", "heft", "heaptrack"]

    def per_allocation(result, variant):
        """Whole command over all allocations of all threads, in ns."""
        samples = result["samples"].get(variant) or []
        wall, operations = median(samples), median(samples, "operations")
        return wall / operations * 1e9 if wall is not None and operations else None

    lines = []
    for result in rows:
        cells = [result["row"]]
        values = {variant: per_allocation(result, variant) for variant in variants}
        cells += [show(values[variant], "{:.1f}") for variant in variants]
        for variant in ("heft", "heaptrack"):
            cells.append(show(values[variant] / values["plain"]
                              if values[variant] and values["plain"] else None))
        lines.append(cells)
    return table(["ns per allocation, whole", *variants, "heft/plain", "heaptr./plain"], lines)


def report_lines(results):
    for result in results:
        if result["group"] != "report":
            continue
        facts = result["recording"]
        if "error" in facts:
            return f"report: failed: {facts['error'].strip()}"
        out = [f"heft report on {count(facts['events'])} events ({count(facts['bytes'])}B,"
               f" recorded in {result['record']['wall_s']:.1f} s):"]
        for name, samples in result["samples"].items():
            out.append(f"  {name}: {median(samples):.3f} s, at most "
                       f"{max(sample['maxrss_kb'] for sample in samples) / 1024:.0f} MiB resident")
        return "\n".join(out)
    return ""


def goals(results):
    """Each goal with what was measured: (text, measured, met or None)."""
    out = []
    judged = [result for result in results if result.get("goal")]

    def ratios(theirs, ours):
        found = [(float(ratio), result["row"]) for result in judged
                 if (ratio := added_ratio(result, theirs, ours)) is not None]
        return sorted(found)

    def add(text, value, met, pattern="{}"):
        out.append((text, pattern.format(value), met))

    whole = ratios("heaptrack", "heft")
    if whole:
        value = statistics.median(ratio for ratio, _ in whole)
        add("added cost, heaptrack over heft: median at least 10", value, value >= 10, "{:.1f}")
        add("  and none under 4", f"{whole[0][0]:.1f} ({whole[0][1]})", whole[0][0] >= 4)
    side = ratios("library", "heft-program")
    if side:
        value = statistics.median(ratio for ratio, _ in side)
        add("program side, heaptrack's library over heft: median at least 3", value, value >= 3,
            "{:.2f}")
        add("  and none under 1", f"{side[0][0]:.2f} ({side[0][1]})", side[0][0] >= 1)
    sizes = sorted((facts["bytes_per_event"], result["row"]) for result in judged
                   if result["goal"] == "real" and (facts := result["recording"] or {})
                   and facts.get("bytes_per_event"))
    if sizes:
        add("at most 1 byte an event on real programs", f"{sizes[-1][0]:.2f} ({sizes[-1][1]})",
            sizes[-1][0] <= 1)
    for result in results:
        if result["row"] == "true" and result["samples"].get("heft"):
            added = (median(result["samples"]["heft"]) - plain_seconds(result)) * 1e3
            add("heft run true adds at most 20 ms", added, added <= 20, "{:.1f} ms")
        if result["group"] == "report" and "events" in result["recording"]:
            text = result["samples"]["text"]
            wall, rss = median(text), max(sample["maxrss_kb"] for sample in text) / 1024
            enough = result["recording"]["events"] >= 55e6
            add("heft report on 60 million events: under 1 s and 200 MB",
                f"{wall:.2f} s, {rss * 1.048576:.0f} MB"
                + ("" if enough else f" (only {count(result['recording']['events'])} events)"),
                wall < 1 and rss * 1.048576 < 200 and (enough or None))
    growth = scale_growth(results)
    if growth:
        add("1 to 8 threads: cost per allocation grows no more than plain's (+10 %)",
            f"{growth[0]:.2f} times plain's growth ({growth[1]})", growth[0] <= 1.1)
    return out


def scale_growth(results):
    """The worst of (heft at N over heft at 1) over (plain at N over plain at 1)."""
    walls = {}
    for result in results:
        if result["group"] == "scale" and result["samples"].get("heft"):
            threads = int(result["row"].rsplit("-", 1)[1])
            operations = median(result["samples"]["plain"], "operations")
            walls[threads] = [median(result["samples"][variant]) / operations
                              for variant in ("heft", "plain")]
    if 1 not in walls or len(walls) < 2:
        return None
    base = walls[1][0] / walls[1][1]
    return max((heft / plain / base, f"{threads} threads")
               for threads, (heft, plain) in walls.items() if threads > 1)


def problems(results):
    """Variants whose exit status differs from the plain one's, time-outs, lost events."""
    for result in compared(results) + [r for r in results if r["group"] == "scale"]:
        for variant, samples in result["samples"].items():
            for sample in samples:
                if sample["timed_out"]:
                    yield f"{result['row']} {variant}: stopped at the time limit"
                    break
                if sample["status"] != plain_status(result):
                    text = " ".join(sample.get("stderr", "").split())[-200:]
                    yield f"{result['row']} {variant}: exit status {sample['status']} {text}"
                    break
        facts = result["recording"] or {}
        if facts.get("error"):
            yield f"{result['row']}: report failed: {facts['error'].strip()}"
        elif facts.get("dropped"):
            yield f"{result['row']}: {facts['dropped']} events dropped"
