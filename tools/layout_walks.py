"""The paths of the data that ARCHITECTURE.md walks: numbered steps, each of which begins with a file
and its functions. Both must exist, and the way goes forward only: a folder that was left is not
entered again. Whatever else the text names in src, docs, tests, tools and web must be there too."""

import re

SECTION = "## Two ways through the code"
STEP = re.compile(r"^\d+\. (.*)$")
START = re.compile(r"^`(src/[\w/.]+)` ((?:`\w+`(?:, | and )?)+): ")
PLACE = re.compile(r"`((?:src|docs|tests|tools|web|man)/[\w/.-]+)`|\]\(((?:docs|web|man)/[\w/.-]+)(?:#[^)]*)?\)")


def defines(text, name):
    """A function has its name at the start of a line, behind its type at most, and no semicolon behind
    its parameters; a macro that makes functions has its #define."""
    for m in re.finditer(rf"^(?:#define |[A-Za-z_][^\n;={{}}#]*?\b){name}\(", text, re.M):
        if m.group().startswith("#define"):
            return True
        rest, depth = text[m.end():], 1
        for at, character in enumerate(rest):
            depth += (character == "(") - (character == ")")
            if depth == 0:
                if re.match(r"\s*(__attribute__\(\(.*?\)\)\s*)?\{", rest[at + 1:at + 200]):
                    return True
                break
    return False


def steps_of(section):
    """The paths: [[(line of text, ...)...]...], a new one wherever the numbers begin again."""
    paths = []
    for line in section.splitlines():
        m = STEP.match(line)
        if m and line.startswith("1. "):
            paths.append([])
        if m and paths:
            paths[-1].append(m.group(1))
    return paths


def check_path(root, steps):
    left, folder = set(), None
    for number, step in enumerate(steps, 1):
        m = START.match(step)
        if not m:
            yield f"step {number} does not begin with a file and its functions: {step[:60]}"
            continue
        file, names = m.group(1), re.findall(r"`(\w+)`", m.group(2))
        path = root / file
        if not path.is_file():
            yield f"step {number}: there is no {file}"
            continue
        text = path.read_text(errors="replace")
        yield from (f"step {number}: {file} has no {name}" for name in names if not defines(text, name))
        here = file.split("/")[1]
        if here != folder:
            if here in left:
                yield f"step {number} goes back to src/{here}"
            if folder:
                left.add(folder)
            folder = here


def check_table(text, may_include):
    """The table of folders in the text says the same as the one that includes are checked by. `base`,
    which all may include, is left out there."""
    rows = {m.group(1): m.group(2) for m in re.finditer(r"^\| `src/(\w+)` \|.*\| ([^|]+) \|$", text, re.M)}
    for folder in sorted(set(rows) | set(may_include)):
        if folder not in rows or folder not in may_include:
            yield f"only one of the two tables of folders has {folder}"
            continue
        words = set(re.findall(r"\w+", rows[folder])) - {"nothing"}
        if rows[folder].startswith("all but "):
            words = set(may_include) - words - {folder}
        if words - {"base"} != may_include[folder] - {"base"}:
            yield f"the table says that {folder} may include {rows[folder]}: check_layout.py says " + \
                  (", ".join(sorted(may_include[folder])) or "nothing")


def check(root):
    text = (root / "ARCHITECTURE.md").read_text()
    start = text.find(SECTION + "\n")
    section = text[start:text.find("\n## ", start + 1)] if start >= 0 else ""
    paths = steps_of(section)
    problems = [] if len(paths) == 2 else [f"{SECTION!r} has {len(paths)} lists of steps, not 2"]
    for path in paths:
        problems += check_path(root, path)
    named = {a or b for a, b in PLACE.findall(text)}
    problems += [f"there is no {place}" for place in sorted(named) if not (root / place).exists()]
    return problems
