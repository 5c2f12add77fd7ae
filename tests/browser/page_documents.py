"""Pages without a server: the built page with documents in it, as heft export -f html writes them.
The documents come from a report (heft report --json) or are made up to the byte, for what no program
makes: hostile names, 100,000 nodes, files that tell little. What a report does not tell (live bytes
over time, heat map) is made up here and only there to be drawn."""

import base64
import gzip
import json
import pathlib

import pytest

import harness

PAGE = harness.BUILD / "web" / "heft.html"
EVERYTHING = ["peak", "live", "allocated", "times", "windows", "lifetimes", "heatmap", "threads", "matrix",
              "sizes", "temporary", "ledger", "source"]
POINTS = 200


def built_page():
    if not PAGE.exists():
        pytest.skip("the page is not built (no npm)")
    return PAGE.read_text(encoding="utf-8")


def write_page(path, documents):
    packed = base64.b64encode(gzip.compress(json.dumps(documents).encode())).decode()
    page = built_page()
    assert page.count("<!--heft-data-->") == 1
    path.write_text(page.replace("<!--heft-data-->",
                                 f'<script type="application/json" id="heft-data">{packed}</script>'),
                    encoding="utf-8")
    return path


def frame(f):
    module = pathlib.PurePath(f["module"]).name
    user = not module.startswith(("libc", "ld-", "libstdc", "libpthread")) and f["function"] != "_start"
    return {"function": f["function"], "file": f["file"], "line": f["line"], "module": module,
            "user": user, "inlined": f.get("inlined", False)}


def first_user(stack):
    return next((i for i, f in enumerate(stack) if f["user"]), 0)


def trend(site, points=60):
    """Up to the site's peak, down to what it left."""
    peak, end = site["peak_bytes"], site["live_bytes"]
    middle = points // 3
    return [peak * i // middle if i < middle else peak - (peak - end) * (i - middle) // (points - middle)
            for i in range(points)]


def site_row(site, measure="peak_bytes"):
    stack = [frame(f) for f in site["stack"]]
    f = stack[first_user(stack)]
    return {**{k: v for k, v in site.items() if k != "stack"},
            "place": {k: f[k] for k in ("function", "file", "line", "module")}, "value": site[measure],
            "called_by": [x["function"] for x in stack[first_user(stack) + 1:] if x["user"]][:3],
            "end_bytes": site["live_bytes"], "end_blocks": site["live_blocks"],
            "trend": trend(site), "freed_by": ""}


def tree(sites, measure="peak_bytes", unit="bytes"):
    """Nodes by (parent, frame), as the server makes them."""
    frames, known_frames, nodes = [], {}, {}
    parent, of, self, total = [-1], [-1], [0], [0]
    for site in sites:
        node = 0
        total[0] += site[measure]
        for f in reversed([frame(f) for f in site["stack"]]):
            key = json.dumps(f)
            if key not in known_frames:
                known_frames[key] = len(frames)
                frames.append(f)
            step = (node, known_frames[key])
            if step not in nodes:
                nodes[step] = len(parent)
                parent.append(node)
                of.append(step[1])
                self.append(0)
                total.append(0)
            node = nodes[step]
            total[node] += site[measure]
        self[node] += site[measure]
    return {"frames": frames, "parent": parent, "frame": of, "total": total, "self": self, "smaller": [],
            "other": [1000.0 * (i + 1) for i in range(len(parent))], "unit": unit, "sum": total[0],
            "pruned_nodes": 0}


def timeline(report):
    duration = report["duration_ns"] or 1
    times = [duration * i // (POINTS - 1) for i in range(POINTS)]
    top = sorted(report["sites"], key=lambda s: -s["peak_bytes"])[:5]
    rows = [{"site": s["id"], "place": site_row(s)["place"], "bytes": trend(s, POINTS)} for s in top]
    everything = [sum(col) for col in zip(*(trend(s, POINTS) for s in report["sites"]))] or [0] * POINTS
    rss = report["totals"]["peak_rss_bytes"]
    return {"from_ns": 0, "to_ns": duration, "times_ns": times, "bytes": everything, "rows": rows,
            "rss": [{"time_ns": t, "bytes": rss // 2 + (rss - rss // 2) * min(i, 66) // 66}
                    for i, t in enumerate(times)] if rss else [],
            "events": [report["totals"]["allocations"] * 1e9 / duration] * POINTS,
            "marks": [{"time_ns": duration // 4, "name": "loaded"}, {"time_ns": duration // 2, "name": "half"}],
            "regions": [{"begin_ns": duration // 4, "end_ns": duration // 2, "name": "loading"}],
            "limit_bytes": 0}


def finding(f, sites):
    site = next((s for s in sites if s["id"] == f["site"]), None)
    row = site and site_row(site)
    return {**f, "where": row and row["place"], "trend": trend(site) if site else [],
            "explain": {"view": "flame", "mode": "live", "at": "peak"}}


def summary(report, has=EVERYTHING, **changes):
    totals = report["totals"]
    run = {k: v for k, v in report.items() if k not in ("schema", "heft", "sites", "processes")}
    return {**run, "id": "1", "name": "example.heft", "start_ns": 0, "end_ns": report["duration_ns"],
            "peak_rss_time_ns": report["duration_ns"] // 3, "end_words": "exit status 0", "live": False,
            "end_bytes": totals["live_bytes"], "end_blocks": totals["live_blocks"],
            "has": {name: name in has for name in EVERYTHING}, "totals": totals,
            "quality": {"level": "good", "words": ["every allocation was recorded"]}, "notes": [],
            "findings": [finding(f, report["sites"]) for f in report["findings"]],
            "process_count": 1, "thread_words": "1 thread in 1 process",
            "processes": [{"number": 0, "pid": report["pid"], "ppid": 1, "program": report["command"][0],
                           "command": report["command"], "end": "exit", "start_ns": 0,
                           "run_ns": report["duration_ns"], "totals": totals}], **changes}


def sites(rows, measure):
    listed = sorted((site_row(s, measure) for s in rows), key=lambda r: -r["value"])
    return {"count": len(listed), "sum": sum(r["value"] for r in listed), "rows": listed[:200]}


SECTIONS = [("heap", ["requested", "held_free", "large_mappings"]), ("other allocators", ["allocator"]),
            ("program and libraries", ["modules_private", "modules_shared", "bss"]), ("anonymous memory", ["anonymous"])]


def ledger_line(kind, words, resident):
    return {"kind": kind, "name": words, "words": words, "resident_bytes": resident, "private_bytes": resident,
            "shared_bytes": 0, "swapped_bytes": 0, "virtual_bytes": resident}


def ledger(moment, words, time, lines):
    rss = sum(line["resident_bytes"] for line in lines)
    return {"pid": 1, "process": 0, "moment": moment, "words": words, "time_ns": time, "share_of_peak": 0.98,
            "rss_bytes": rss, "peak_rss_bytes": rss, "private_bytes": rss, "shared_bytes": 0, "swapped_bytes": 0,
            "virtual_bytes": rss, "reserved_bytes": 0, "page_table_bytes": 90112, "huge_bytes": 0, "hugetlb_bytes": 0,
            "pause_ns": 1_300_000, "lines": lines}


def ledgers(report):
    """Made up: two, of a heap with what the report has, and of mappings that its functions have made."""
    peak, duration = report["totals"]["peak_bytes"], report["duration_ns"]
    makers = [ledger_line("anonymous", "made by " + (s["stack"][0]["function"] if s["stack"] else "?"), s["peak_bytes"])
              for s in report["sites"][:8]]
    lines = [ledger_line("requested", "requested", peak), ledger_line("held_free", "free, in bins", peak // 3),
             ledger_line("modules_shared", "libc.so.6, shared", peak // 5), *makers]
    return {"sections": [{"title": title, "kinds": [{"kind": kind, "title": kind.replace("_", " ")} for kind in kinds]}
                         for title, kinds in SECTIONS],
            "ledgers": [ledger("peak", "near the peak of its heap", duration // 2, lines),
                        ledger("exit", "when it exited", duration, lines[1:])], "left_out": 0}


def site(s, duration):
    row = site_row(s)
    stack = [frame(f) for f in s["stack"]]
    return {"row": row, "stack": stack, "first_user": first_user(stack), "times_ns": [], "bytes": row["trend"],
            "lifetime_log2": [0] * 10 + [s["allocations"]],
            "freed_by": [{"share": 1, "stack": stack}], "handover": [{"site": s["id"], "from_tid": 1, "from_name": "main", "to_tid": 2,
                          "to_name": "worker", "frees": 5}]}


def from_report(report, has=EVERYTHING, **changes):
    all_sites = report["sites"]
    api = "/api/r/1/"
    documents = {
        "/api/recordings": {"heft": report["heft"], "recordings": [
            {"id": "1", "name": "example.heft", "format": "heft", "live": False}]},
        api + "summary": summary(report, has, **changes),
        api + "timeline": timeline(report),
        api + "ledger": ledgers(report),
    }
    for query, measure in (("", "peak_bytes"), ("?at=end", "live_bytes"), ("?mode=allocated", "allocated_bytes")):
        documents[api + "tree" + query] = tree(all_sites, measure)
        documents[api + "sites" + query] = sites(all_sites, measure)
    for s in all_sites[:50]:
        documents[f"{api}site?site={s['id']}"] = site(s, report["duration_ns"])
    return documents


def made_up_site(number, stack, size, blocks=1):
    """A site of a report; stack: (function, file, line, module), innermost first."""
    return {"id": number, "via": "malloc", "allocations": blocks, "allocated_bytes": size * blocks,
            "peak_bytes": size * blocks, "live_bytes": size * blocks, "live_blocks": blocks, "temporary": 0,
            "lifetime_ns": {"mean": 1000, "p50": 1000, "p99": 2000, "max": 2000},
            "stack": [{"function": f, "file": file, "line": line, "module": module, "inlined": False}
                      for f, file, line, module in stack]}


def made_up_report(all_sites):
    total = sum(s["peak_bytes"] for s in all_sites)
    blocks = sum(s["live_blocks"] for s in all_sites)
    totals = {"allocations": blocks, "reallocations": 0, "frees": 0, "allocated_bytes": total,
              "peak_bytes": total, "peak_blocks": blocks, "peak_time_ns": 500_000_000, "live_bytes": total,
              "live_blocks": blocks, "temporary": 0, "threads": 1, "dropped": 0, "peak_rss_bytes": 2 * total}
    return {"heft": "0", "command": ["made-up"], "pid": 1, "format": "heft", "mode": "exact", "rate_bytes": 0,
            "start": "", "duration_ns": 1_000_000_000, "end": "exit", "complete": True, "totals": totals,
            "sites": all_sites, "findings": [],
            "threads": [{"pid": 1, "tid": 1, "name": "main", "allocations": blocks, "allocated_bytes": total}]}
