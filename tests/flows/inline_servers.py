"""Source code of small servers that are started with `python -c`."""

# A small server of the handshake era; CALL is the code of tools/call, START runs first.
HANDSHAKE_SERVER = """
import json, os, signal, sys, time
def send(m): sys.stdout.write(json.dumps(m) + "\\n"); sys.stdout.flush()
{start}
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    def answer(r): send({{"jsonrpc": "2.0", "id": m["id"], "result": r}})
    if m["method"] == "initialize":
        answer({{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{"listChanged": True}}}},
                "serverInfo": {{"name": "s", "version": "1"}}}})
    elif m["method"] == "tools/list":
        answer({{"tools": [{{"name": "t", "inputSchema": {{"type": "object"}}}}]}})
    elif m["method"] == "tools/call":
        {call}
    else:
        send({{"jsonrpc": "2.0", "id": m["id"], "error": {{"code": -32601, "message": "no"}}}})
"""


CHANGING_TOOL_SERVER = """
import json, os, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": ""}}
    elif m["method"] == "tools/list":
        words = open(os.environ["WORDS"]).read()
        r = {"tools": [{"name": "t", "description": words, "inputSchema": {"type": "object"}, "x-odd": words}]}
    elif m["method"] == "tools/call":
        r = {"content": [{"type": "text", "text": "ran"}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


# A server of the handshake era with a prompt that it returns once the FIFO of GATE was opened and closed.
WAITING_PROMPT_SERVER = """
import json, os, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-11-25", "capabilities": {"prompts": {}},
             "serverInfo": {"name": "s", "version": ""}}
    elif m["method"] == "prompts/list":
        r = {"prompts": [{"name": "p"}]}
    elif m["method"] == "prompts/get":
        open(os.environ["GATE"]).read()
        r = {"messages": [{"role": "user", "content": {"type": "text", "text": "from the prompt"}}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


# A server of the handshake era whose identity and tools are in the JSON file of SERVED.
FILE_DEFINED_SERVER = """
import json, os, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if not os.path.exists(os.environ["SERVED"]): sys.exit("there is nothing to serve")
    served = json.load(open(os.environ["SERVED"]))
    if m["method"] == "initialize":
        r = {"protocolVersion": served.get("revision", "2025-11-25"), "capabilities": {"tools": {}},
             "serverInfo": served["info"]}
    elif m["method"] == "tools/list":
        r = {"tools": served["tools"]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""
