"""Tests that the main process never imports certain modules, such as litellm."""

import os
import subprocess
import sys
from pathlib import Path

MODULES = (
    "mcphost.llm.litellm_model, mcphost.llm.worker_client, mcphost.llm.chat_completions, mcphost.llm.demo_model,"
    " mcphost.auth.keyring_backend"
)
HEAVY = ("litellm", "openai", "httpx", "pydantic", "keyring", "aiohttp")


def test_the_model_layer_loads_no_heavy_library() -> None:
    code = f"import sys, {MODULES}; print(*(set(sys.modules) & {set(HEAVY)!r}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_the_garbage_collector_rests_while_the_worker_imports_its_library(tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text("import gc\nprint(gc.isenabled())\nraise ImportError")
    code = "import gc; from mcphost.llm import worker; worker.import_litellm([]); print(gc.isenabled())"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["False", "True"]
