#!/usr/bin/python3
"""Turns the page into C: embed_page.py PAGE.html OUT.c writes it gzipped as `const char view_page[]`
with `const unsigned long view_page_size`, its size when unpacked, and the Content-Security-Policy that
allows exactly the scripts and styles in it."""

import base64
import gzip
import hashlib
import pathlib
import re
import sys


def hashes(html, tag):
    texts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
    found = " ".join("'sha256-" + base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() + "'"
                     for t in texts)
    return found or "'none'"


def main():
    html = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    data = gzip.compress(html.encode(), 9, mtime=0)
    policy = (f"default-src 'none'; script-src {hashes(html, 'script')}; "
              f"style-src {hashes(html, 'style')}; connect-src 'self'; img-src 'self' data: blob:; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    out = ["/* Made by tools/embed_page.py. */", '#include "pages/view_page.h"', "",
           f"const unsigned long view_page_size = {len(data)}ul;",
           f"const unsigned long view_page_unpacked_size = {len(html.encode())}ul;",
           f'const char view_page_policy[] = "{policy}";', "const char view_page[] = {"]
    for at in range(0, len(data), 24):
        out.append(",".join(str(b - 256 if b > 127 else b) for b in data[at:at + 24]) + ",")
    out.append("};")
    pathlib.Path(sys.argv[2]).write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
