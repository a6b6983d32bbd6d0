"""What the program's own process must never load."""

import subprocess
import sys

MODULES = "mcphost.llm.remote, mcphost.llm.process, mcphost.llm.chat_api, mcphost.llm.demo, mcphost.auth.vault"
HEAVY = ("litellm", "openai", "httpx", "pydantic", "keyring", "aiohttp")


def test_the_model_layer_loads_no_heavy_library() -> None:
    code = f"import sys, {MODULES}; print(*(set(sys.modules) & {set(HEAVY)!r}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
