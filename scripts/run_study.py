"""Run the command of a study: run_study.py STUDY ..., as scripts/reproduce_* and compare_policies do."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    study, *arguments = sys.argv[1:]
    sys.exit(import_module(f"studies.{study}.command").main(arguments))
