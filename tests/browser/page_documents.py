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
    return {"id": site["id"], "place": {k: f[k] for k in ("function", "file", "line", "module")},
            "via": site["via"], "value": site[measure], "peakBytes": site["peak_bytes"],
            "liveBytes": site["live_bytes"], "liveBlocks": site["live_blocks"],
            "leftBytes": site["live_bytes"], "leftBlocks": site["live_blocks"],
            "allocations": site["allocations"], "allocatedBytes": site["allocated_bytes"],
            "temporary": site["temporary"], "p50Ns": site["lifetime_ns"]["p50"],
            "p99Ns": site["lifetime_ns"]["p99"], "trend": trend(site), "freedBy": ""}


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
            "prunedNodes": 0}


def timeline(report):
    duration = report["duration_ns"] or 1
    times = [duration * i // (POINTS - 1) for i in range(POINTS)]
    top = sorted(report["sites"], key=lambda s: -s["peak_bytes"])[:5]
    rows = [{"site": s["id"], "place": site_row(s)["place"], "bytes": trend(s, POINTS)} for s in top]
    everything = [sum(col) for col in zip(*(trend(s, POINTS) for s in report["sites"]))] or [0] * POINTS
    rss = report["totals"]["peak_rss_bytes"]
    return {"fromNs": 0, "toNs": duration, "timesNs": times, "bytes": everything, "rows": rows,
            "rss": [{"timeNs": t, "bytes": rss // 2 + (rss - rss // 2) * min(i, 66) // 66}
                    for i, t in enumerate(times)] if rss else [],
            "events": [report["totals"]["allocations"] * 1e9 / duration] * POINTS,
            "marks": [{"timeNs": duration // 4, "name": "loaded"}, {"timeNs": duration // 2, "name": "half"}],
            "limitBytes": 0}


def finding(f, sites):
    site = next((s for s in sites if s["id"] == f["site"]), None)
    row = site and site_row(site)
    evidence = [{"name": k.replace("_", " "), "value": v if isinstance(v, list) else str(v)}
                for k, v in f["evidence"].items()]
    return {"kind": f["kind"], "severity": f["severity"], "bytes": f["bytes"], "summary": f["summary"],
            "advice": f["advice"], "site": f["site"], "where": row and row["place"], "evidence": evidence,
            "trend": trend(site) if site else [], "explain": {"view": "flame", "mode": "live", "at": "peak"}}


def summary(report, has=EVERYTHING, **changes):
    t = report["totals"]
    names = {"allocations": "allocations", "reallocations": "reallocations", "frees": "frees",
             "allocatedBytes": "allocated_bytes", "peakBytes": "peak_bytes", "peakBlocks": "peak_blocks",
             "peakTimeNs": "peak_time_ns", "liveBytes": "live_bytes", "liveBlocks": "live_blocks",
             "leftBytes": "live_bytes", "leftBlocks": "live_blocks",
             "temporary": "temporary", "threads": "threads", "dropped": "dropped",
             "peakRssBytes": "peak_rss_bytes"}
    return {"id": "1", "name": "example.heft", "command": report["command"], "pid": report["pid"],
            "format": report["format"], "mode": report["mode"], "rateBytes": report["rate_bytes"],
            "start": report["start"], "durationNs": report["duration_ns"], "startNs": 0,
            "endNs": report["duration_ns"], "end": report["end"],
            "endWords": "exit status 0", "complete": report["complete"], "live": False,
            "has": {name: name in has for name in EVERYTHING},
            "totals": {**{k: t[v] for k, v in names.items()}, "peakRssTimeNs": report["duration_ns"] // 3},
            "quality": {"level": "good", "words": ["every allocation was recorded"]}, "notes": [],
            "findings": [finding(f, report["sites"]) for f in report["findings"]],
            "processCount": 1, "threadWords": "1 thread in 1 process",
            "processes": [{"number": 0, "pid": report["pid"], "ppid": 1, "program": report["command"][0],
                           "command": report["command"], "end": "exit", "startNs": 0,
                           "runNs": report["duration_ns"], "peakBytes": t["peak_bytes"],
                           "peakRssBytes": t["peak_rss_bytes"], "leftBytes": t["live_bytes"],
                           "leftBlocks": t["live_blocks"], "allocatedBytes": t["allocated_bytes"]}],
            "threads": [{"pid": x["pid"], "tid": x["tid"], "name": x["name"], "allocations": x["allocations"],
                         "allocatedBytes": x["allocated_bytes"]} for x in report["threads"]], **changes}


def sites(rows, measure):
    listed = sorted((site_row(s, measure) for s in rows), key=lambda r: -r["value"])
    return {"count": len(listed), "sum": sum(r["value"] for r in listed), "rows": listed[:200]}


def site(s, duration):
    row = site_row(s)
    stack = [frame(f) for f in s["stack"]]
    return {"row": row, "stack": stack, "firstUser": first_user(stack), "timesNs": [], "bytes": row["trend"],
            "lifetimes": [0] * 10 + [s["allocations"]] + [0] * 5,
            "freedBy": [{"share": 1, "stack": stack}], "handover": [{"from": "main", "to": "worker", "frees": 5}]}


def from_report(report, has=EVERYTHING, **changes):
    all_sites = report["sites"]
    api = "/api/r/1/"
    documents = {
        "/api/recordings": {"heft": report["heft"], "recordings": [
            {"id": "1", "name": "example.heft", "format": "heft", "live": False}]},
        api + "summary": summary(report, has, **changes),
        api + "timeline": timeline(report),
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
