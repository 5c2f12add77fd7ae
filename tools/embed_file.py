#!/usr/bin/python3
"""Turns files into C. embed_file.py OUT.c NAME=FILE... writes two constants for each file:
`const char NAME[]`, with a NUL at its end, and `const unsigned long NAME_size`, which does not count the NUL."""

import pathlib
import sys


def main():
    out = ["/* Made by tools/embed_file.py. */"]
    for argument in sys.argv[2:]:
        name, path = argument.split("=", 1)
        data = pathlib.Path(path).read_bytes()
        out.append(f"extern const char {name}[];\nextern const unsigned long {name}_size;")
        out.append(f"const unsigned long {name}_size = {len(data)}ul;\nconst char {name}[] = {{")
        for at in range(0, len(data), 24):
            # As signed values: char is signed where heft runs.
            out.append(",".join(str(b - 256 if b > 127 else b) for b in data[at:at + 24]) + ",")
        out.append("0};")
    pathlib.Path(sys.argv[1]).write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
