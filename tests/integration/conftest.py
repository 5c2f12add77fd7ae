"""Brings the shared harness (tests/programs/harness.py) into this folder's tests."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))

from harness import built, compiled, heft_stand_in, no_leftovers, public_heft, record  # noqa: E402,F401
