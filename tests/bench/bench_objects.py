"""Builds dicts, lists and strings, as a script that reads and groups records does."""
import sys


def group(records, rounds):
    kept = 0
    for turn in range(rounds):
        by_name = {}
        for i in range(records):
            name = "name-%d" % (i * 7919 % (records // 4))
            entry = by_name.setdefault(name, {"seen": [], "bytes": 0})
            entry["seen"].append((i, str(i + turn)))
            entry["bytes"] += i
        lines = [",".join(text for _, text in entry["seen"]) for entry in by_name.values()]
        kept += sum(map(len, lines))
    return kept


print(group(int(sys.argv[1]), int(sys.argv[2])))
