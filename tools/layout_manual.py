"""The manual pages against the verb table, which `heft help` prints: every verb has its page, the
overview refers to it, every option has its entry there with its letter, its argument and all values
that it can have, and stands in the synopsis; no page describes an option that its verb does not have,
and none names one that no verb has."""

import re
import subprocess

# Options of other programs that a page names, as it spells them.
FOREIGN = {"heft-report.1": {"-X"}}  # python3 -X perf

OPTION = re.compile(r"^  (?:-(\w), |    )--([a-z-]+)(?: (\S+)|\[=(\S+)\])?(?:  |$)")


class Option:
    def __init__(self, letter, name, value, optional):
        self.letter, self.name, self.value, self.optional = letter, name, value, optional

    def values(self):
        """All that it can be, where the table lists that: such values are in small letters."""
        return self.value.split("|") if self.value and self.value[0].islower() else []


def heft_help(heft, *verb):
    return subprocess.run([str(heft), "help", *verb], capture_output=True, text=True, check=True).stdout


def verb_table(heft):
    """{verb: [Option...]}, in the table's order."""
    verbs = re.findall(r"^  heft ([a-z]+) ", heft_help(heft), re.M)
    return {verb: [Option(m[1], m[2], m[3] or m[4], bool(m[4]))
                   for line in heft_help(heft, verb).splitlines() for m in [OPTION.match(line)] if m]
            for verb in verbs}


def named_options(line):
    """What a line of mdoc names: ("--name" or "-x", what follows up to the next option)."""
    found = []
    for m in re.finditer(r"\bFl (-?[A-Za-z][\w-]*)(.*?)(?=\bFl |$)", line):
        name, rest = m.group(1), m.group(2).strip()
        if name.startswith("-"):
            found.append(("-" + name, rest))
        else:  # letters that stand together
            found += [("-" + letter, rest if letter == name[-1] else "") for letter in name]
    return found


def takes(rest):
    """How a page spells the argument: "needed", "optional" or "none"."""
    if rest.startswith("Ns Op ="):
        return "optional"
    return "needed" if re.match(r"(Ns = Ns )?(Ar|Cm) ", rest) else "none"


def check_entry(option, entries):
    """What is wrong with the entries (".It" lines) of one option."""
    long, short = "--" + option.name, "-" + option.letter if option.letter else None
    mine = [entry for entry in entries if any(name == long for name, _ in entry)]
    if not mine:
        yield f"does not describe {long}"
        return
    wanted = "optional" if option.optional else "needed" if option.value else "none"
    for entry in mine:
        for name, rest in entry:
            if name in (long, short) and takes(rest) != wanted:
                yield f"the argument of {name} is {wanted} in the table, {takes(rest)} here"
    if short and not any(name == short for entry in mine for name, _ in entry):
        yield f"does not give {short} beside {long}"


def check_page(verb, options, page, everything):
    synopsis = page[page.find(".Sh SYNOPSIS"):page.find(".Sh DESCRIPTION")]
    entries = [named_options(line) for line in page.splitlines() if line.startswith(".It ")]
    entries = [entry for entry in entries if entry]
    own = {"--" + o.name for o in options} | {"-" + o.letter for o in options if o.letter}
    offered = {name for line in synopsis.splitlines() for name, _ in named_options(line)}
    for option in options:
        yield from check_entry(option, entries)
        for value in option.values():
            if not re.search(rf"^\.(.* )?Cm (.* )?{re.escape(value)}( |$)", page, re.M):
                yield f"does not say that --{option.name} can be {value}"
        if option.name != "help" and not offered & {"--" + option.name, "-" + (option.letter or "-")}:
            yield f"the synopsis lacks --{option.name}"
    described = offered | {name for entry in entries for name, _ in entry}
    yield from (f"describes {name}, which heft {verb} does not have" for name in sorted(described - own))
    named = {name for line in page.splitlines() for name, _ in named_options(line)}
    yield from (f"names {name}, which no verb has"
                for name in sorted(named - described - everything - FOREIGN.get(f"heft-{verb}.1", set())))


def check(root, heft):
    if not heft.is_file():
        return ["heft is not in the build directory"]
    table = verb_table(heft)
    problems = [] if table else ["heft help lists no verbs"]
    everything = {"--version"}
    for options in table.values():
        for o in options:
            everything |= {"--" + o.name} | ({"-" + o.letter} if o.letter else set())
    overview = (root / "man" / "heft.1").read_text()
    for verb, options in table.items():
        path = root / "man" / f"heft-{verb}.1"
        if not options:
            problems.append(f"heft help {verb} lists no options")
        if f".Xr heft-{verb} 1" not in overview:
            problems.append(f"heft.1 does not refer to heft-{verb}")
        if not path.is_file():
            problems.append(f"there is no {path.name}")
            continue
        problems += [f"{path.name}: {what}" for what in check_page(verb, options, path.read_text(), everything)]
    for path in sorted((root / "man").glob("heft-*.1")):
        if path.stem.removeprefix("heft-") not in table:
            problems.append(f"{path.name} is about no verb")
    named = {name for line in overview.splitlines() for name, _ in named_options(line)}
    problems += [f"heft.1: names {name}, which no verb has" for name in sorted(named - everything)]
    return problems
