"""How large things in src may grow: a file, a function, a struct. Sources are as clang-format writes
them, so a body begins with "{" and ends with "}" at the start of a line, and a struct with "struct NAME {".

A struct with more fields than the limit says why in the comment right above it: "fields: WHY". The fields
of a struct within a struct count as its own, as does every name of "int a, b;"."""

import re

FILE_LINES = 600
FUNCTION_LINES = 100
STRUCT_FIELDS = 30

STRUCT = re.compile(r"^(?:typedef )?(?:static )?(?:const )?(struct|union)\b([^;(=]*)\{")
NAME = re.compile(r"(\w+)\s*\(")


def without_comments(text):
    """The same lines with nothing in comments and strings."""
    def blank(m):
        return m.group() if m.group()[0] == "'" and len(m.group()) == 3 else re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def functions(lines):
    """(name, line where it begins, lines) of each function, with the lines of its type and parameters."""
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
            while start and lines[start - 1].strip() and not lines[start - 1].startswith(("#", "}")):
                start -= 1
        elif line.startswith("}") and start is not None:
            head = " ".join(lines[start:number])
            m = NAME.search(re.sub(r"__attribute__\(\(.*?\)\)", "", head))
            yield (m.group(1) if m else "?"), start + 1, number - start + 1
            start = None


def field_count(body):
    """Fields between the outer braces of a struct."""
    count = 0
    body = re.sub(r"__attribute__\(\(.*?\)\)", "", body, flags=re.S)
    for part in re.split(r"[;{}]", body):
        part = re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", part)).strip()
        if not part or re.match(r"^(struct|union|enum)(\s+\w+)?$", part) or part.startswith(("#", "_Static_assert")):
            continue
        count += part.count(",") + 1
    return count


def structs(lines):
    """(name, line, fields) of each struct that begins at the start of a line."""
    number = 0
    while number < len(lines):
        m = STRUCT.match(lines[number])
        if not m:
            number += 1
            continue
        end = number
        while end < len(lines) and not lines[end].startswith("}"):
            end += 1
        body = "\n".join(line for line in lines[number:end] if not line.startswith("#"))
        yield m.group(2).split()[-1] if m.group(2).split() else "?", number + 1, field_count(body[m.end():])
        number = end + 1


def comment_above(lines, number):
    """The comment that ends on the line before this one; lines count from 1."""
    end = number - 1
    if end < 1 or not lines[end - 1].rstrip().endswith("*/"):
        return ""
    start = end
    while start > 1 and "/*" not in lines[start - 1]:
        start -= 1
    return "\n".join(lines[start - 1:end])


def check(root, files):
    """What is over a limit, in words, for every source."""
    problems = []
    for file in files:
        if not file.startswith("src/") or not file.endswith((".c", ".h")):
            continue
        text = (root / file).read_text(errors="replace")
        lines, code = text.splitlines(), without_comments(text).splitlines()
        code = [line.rstrip() for line in code]
        if len(lines) > FILE_LINES:
            problems.append(f"{file} has {len(lines)} lines, more than {FILE_LINES}")
        for name, number, count in functions(code):
            if count > FUNCTION_LINES:
                problems.append(f"{file}:{number}: {name}() has {count} lines, more than {FUNCTION_LINES}")
        for name, number, count in structs(code):
            if count > STRUCT_FIELDS and not re.search(r"\bfields: \S", comment_above(lines, number)):
                problems.append(f"{file}:{number}: struct {name} has {count} fields, more than {STRUCT_FIELDS}, "
                                "and no \"fields: WHY\" above it")
    return problems
