#!/usr/bin/env python3
"""The digest of an evidence file (standard input), by docs/EVIDENCE.md alone: a second implementation.

Prints the digest that the invoice carries. With --terms: that of the rate cards, grants and credits.
"""

import hashlib
import json
import sys


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def root(lines):
    if not lines:
        return sha256()
    if len(lines) == 1:
        return sha256(b"\x00", lines[0])
    split = 1
    while split * 2 < len(lines):
        split *= 2
    return sha256(b"\x01", root(lines[:split]), root(lines[split:]))


def main():
    header, *lines = sys.stdin.buffer.read().splitlines()
    assert json.loads(header)["evidence"] == 1, "another format"
    starts = (b'{"card":', b'{"grant":', b'{"credit":', b'{"credit_day":')
    terms = [line for line in lines if line.startswith(starts)]
    events = [line for line in lines if not line.startswith(starts)]
    if "--terms" in sys.argv:
        print(root(terms).hex())
        return
    records = sha256(b"\x01", root(terms), root(events))
    print(sha256(b"\x01", sha256(b"\x00", header), records).hex())


main()
