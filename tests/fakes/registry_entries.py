"""Entries of the test registry: every kind of package, several versions, and invalid or hostile entries."""

from typing import Any

from tests.fakes.registry_server import published

SHA256 = "fe333e598595000ae021bd27117db32ec69af6987f507ba7a63c90638ff633ce"
NPM_HOST = "registry.npm.example"
STDIO = {"type": "stdio"}


def package(kind: str, identifier: str, version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    """Return a package for a server.json; an empty version is omitted, as in OCI and MCPB packages."""
    numbers = {"version": version} if version else {}
    return {"registryType": kind, "identifier": identifier, **numbers, "transport": STDIO, **more}


def server(name: str, version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    """Return the content of a server.json."""
    return {"name": name, "description": f"What {name} does", "version": version, **more}


def weather(version: str, **more: Any) -> dict[str, Any]:
    """Return the server.json of one version of a weather server with arguments, variables and a secret."""
    return server(
        "io.github.ada/weather",
        version,
        title="Weather",
        repository={"url": "https://github.com/ada/weather", "source": "github"},
        packages=[
            package(
                "npm",
                "@ada/weather-mcp",
                version,
                registryBaseUrl=f"https://{NPM_HOST}",
                runtimeHint="npx",
                packageArguments=[
                    {"type": "positional", "value": "serve"},
                    {"type": "named", "name": "--units", "default": "metric", "choices": ["metric", "imperial"]},
                    {"type": "positional", "valueHint": "cache_dir", "format": "filepath", "isRequired": True},
                ],
                environmentVariables=[
                    {"name": "WEATHER_API_KEY", "isRequired": True, "isSecret": True, "description": "Your key"},
                    {"name": "LOG_LEVEL", "default": "info"},
                    {"name": "PROXY_NAME"},
                ],
                **more,
            )
        ],
    )


REMOTE = server(
    "com.example/tracker",
    "2.0.0",
    remotes=[
        {
            "type": "streamable-http",
            "url": "https://{tenant}.example.com/mcp",
            "variables": {"tenant": {"isRequired": True, "description": "Your tenant"}},
            "headers": [
                {
                    "name": "X-Key",
                    "value": "Bearer {token}",
                    "variables": {"token": {"isSecret": True, "isRequired": True}},
                },
                {"name": "X-Region", "default": "eu", "choices": ["eu", "us"]},
            ],
        },
        {"type": "sse", "url": "https://mcp.example.com/sse"},
    ],
)  # fmt: skip
DATABASE = server(
    "io.github.ada/database",
    packages=[
        package(
            "oci",
            f"ghcr.io/ada/database:1.0.0@sha256:{SHA256}",
            "",
            runtimeArguments=[
                {
                    "type": "named",
                    "name": "--mount",
                    "value": "type=bind,src={source},dst=/data",
                    "variables": {"source": {"format": "filepath", "isRequired": True}},
                }
            ],
            packageArguments=[{"type": "named", "name": "--port", "format": "number", "default": "5432"}],
            environmentVariables=[{"name": "DB_PASSWORD", "isSecret": True, "isRequired": True}],
        )
    ],
)
FILLER = [
    published(server(f"io.github.many/server-{number}", packages=[package("npm", f"server-{number}")]))
    for number in range(30)
]
BAD: list[Any] = [
    7,
    None,
    {"server": None},
    {"server": {"name": "no-slash", "description": "x", "version": "1"}},
    {"server": {"name": "io.github.аda/weather", "description": "Cyrillic a", "version": "1.0.0"}},
    {"server": {"name": "io.github.ada/no-version", "description": "x"}},
    {"server": {"name": "io.github.ada/long", "description": "x" * 5_000, "version": "1.0.0"}},
    {"server": {"name": "io.github.ada/types", "description": 7, "version": "1.0.0"}},
    {"server": {"name": "io.github.ada/control", "description": "x", "version": "1.0\x1b[2J"}},
]
ENTRIES: list[Any] = [
    published(weather("0.9.0"), status="deprecated", statusMessage="Use 1.0", isLatest=False),
    published(weather("1.0.0"), isLatest=False),
    published(weather("1.10.0"), isLatest=True),
    published(server("io.github.ada/clock", packages=[package("pypi", "clock-mcp", runtimeHint="uvx")])),
    published(DATABASE),
    published(server("io.github.ada/dotnet", packages=[package("nuget", "Ada.Sample.Mcp", "0.4.0-beta")])),
    published(server("io.github.ada/text-editor", packages=[
        package("mcpb", "https://github.com/ada/e/releases/download/v1/editor.mcpb", "", fileSha256=SHA256)
    ])),
    published(REMOTE),
    published(server("io.github.ada/old", description="Old \x1b[31mred\u202e"), status="deprecated"),
    published(server("io.github.ada/gone", packages=[package("npm", "gone")]), status="deleted"),
    published(server("io.github.ada/odd-status"), status="quarantined"),
    *FILLER,
]  # fmt: skip
"""More than 40 valid entries; the latest of io.github.ada/weather is 1.10.0."""
