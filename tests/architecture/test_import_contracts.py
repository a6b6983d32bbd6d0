"""Tests that the import contracts in `.importlinter` hold."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT

LINT = str(Path(sys.executable).with_name("lint-imports"))


def test_no_package_imports_a_higher_layer_or_a_sibling() -> None:
    done = subprocess.run([LINT, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
