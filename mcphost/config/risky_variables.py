"""Environment variables that can change the code, package sources, connections or settings of a program."""

from collections.abc import Iterable
from typing import Literal

from mcphost.serialization import Struct

Risk = Literal["code", "packages", "network", "settings"]

# Names from the documentation of interpreters, loaders, shells and build tools. A * stands for any prefix or suffix,
# because many programs have a NAME_COMMAND or NAME_HELPER, and no list is complete.
_NAMES_BY_RISK: dict[Risk, str] = {
    "code": """
        PATH LD_* DYLD_* GCONV_PATH LOCPATH GLIBC_TUNABLES PYTHON* NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE
        NPM_CONFIG_NODE_OPTIONS NPM_CONFIG_SCRIPT_SHELL ELECTRON_RUN_AS_NODE BUN_OPTIONS BUN_INSPECT_PRELOAD TS_NODE_*
        TSX_* DENO_DIR PERL5LIB PERL5OPT PERLLIB PERL5DB RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_GEMFILE BUNDLE_PATH
        BUNDLE_BIN* BUNDLER_* PHPRC PHP_INI_SCAN_DIR LUA_PATH* LUA_CPATH* LUA_INIT* CLASSPATH JAVA_TOOL_OPTIONS
        _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_HOME JAVA_OPTS MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS GRADLE_USER_HOME
        DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS DOTNET_ROOT* DOTNET_SHARED_STORE DOTNET_HOST_PATH DOTNET_GCNAME
        DOTNET_GCPATH DOTNET_ALTJIT* COMPLUS_* COR_PROFILER* CORECLR_* MSBUILD* PSMODULEPATH ERL_* ELIXIR_ERL_OPTIONS
        R_PROFILE* R_ENVIRON* R_LIBS* JULIA_* GUILE_LOAD_* TCLLIBPATH RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER
        RUSTFLAGS CARGO_HOME CARGO_BUILD_* CARGO_TARGET_* GOFLAGS GOROOT GOPATH GOBIN GOTOOLCHAIN CC CXX LD CFLAGS
        CXXFLAGS CPPFLAGS LDFLAGS LDSHARED CMAKE_* PKG_CONFIG* MAKEFLAGS MAKEFILES NODE_GYP_* NPM_EXECPATH
        NPM_NODE_EXECPATH NODE_V8_COVERAGE NODE_REDIRECT_WARNINGS BUN_INSTALL ASDF_* MISE_* CONTAINERS_*
        BASH_ENV BASH_FUNC_* ENV ZDOTDIR FPATH SHELL SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND IFS GIT_SSH*
        GIT_EXTERNAL_DIFF GIT_CONFIG* GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_DIR GIT_WORK_TREE GIT_PROXY* SVN_SSH SVN_EDITOR
        CVS_RSH RSYNC_RSH RSYNC_CONNECT_PROG SSH_AUTH_SOCK EDITOR VISUAL PAGER LESSOPEN LESSCLOSE MANPAGER BROWSER
        OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES QT_PLUGIN_PATH GTK_MODULES GTK_PATH GIO_EXTRA_MODULES
        GIO_MODULE_DIR VIRTUAL_ENV CONDA_PREFIX UV_PROJECT* UV_PYTHON* UV_WORKING_DIR* PIPX_* COREPACK_* VOLTA_HOME
        NVM_DIR PNPM_HOME COMPOSE_FILE
        COMPOSE_PROJECT_DIRECTORY COMPOSE_ENV_FILES ANSIBLE_* CLOUDSDK_PYTHON* CLOUDSDK_CONFIG AWS_CONFIG_FILE
        AWS_SHARED_CREDENTIALS_FILE CHROME_PATH CHROME_BIN TF_CLI_* TERRAFORM_CONFIG PYENV_* PLAYWRIGHT_BROWSERS_PATH
        VIMINIT GVIMINIT EXINIT *_BINARY_PATH *_LIBRARY_PATH
        *_COMMAND *_CMD *_ASKPASS *_HELPER *_RSH *_SHELL *_EDITOR *_PAGER *_BROWSER *_EXECUTABLE *_EXECUTABLE_PATH
        *_INTERPRETER *_WRAPPER *_LAUNCHER *_PROGRAM *_BINARY *_PRELOAD *_PLUGIN *_PLUGINS *_PLUGIN_PATH
        *_PLUGIN_PATHS *_PLUGIN_DIR
        *_HOOK *_HOOKS *_HOOKS_PATH *_INIT_SCRIPT *_STARTUP *_OPTS *_OPTIONS
    """,
    "packages": """
        NPM_CONFIG_* YARN_* PNPM_* UV_* PIP_* BUN_CONFIG_* GOPROXY GONOSUMDB GONOSUMCHECK GOSUMDB GOINSECURE
        GOPRIVATE RUBYGEMS_HOST HOMEBREW_* DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_CERT_PATH
        DOCKER_CONTENT_TRUST* CONTAINER_HOST KUBECONFIG NUGET_*
        NODEJS_ORG_MIRROR *_REGISTRY *_REGISTRY_URL *_INDEX_URL *_MIRROR
    """,
    "network": """
        *_PROXY SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS NODE_USE_SYSTEM_CA
        NODE_USE_ENV_PROXY NODE_TLS_REJECT_UNAUTHORIZED GIT_SSL_* AWS_CA_BUNDLE AWS_ENDPOINT_URL* HOSTALIASES
        RES_OPTIONS LOCALDOMAIN SSLKEYLOGFILE *_CA_BUNDLE *_CA_FILE *_CAFILE *_CA_CERT *_CA_CERTS *_CA_PATH *_CACERT
        *_SSL_CERT *_SSL_VERIFY *_SSLROOTCERT PGSSLROOTCERT DENO_CERT DENO_TLS_CA_STORE *_TLS_VERIFY
        *_VERIFY_SSL *_INSECURE
    """,
    "settings": """
        HOME USERPROFILE XDG_* APPDATA TMPDIR TMP TEMP CURL_HOME WGETRC NETRC INPUTRC TERMINFO* TERMCAP
        DOTNET_CLI_HOME GNUPGHOME KRB5_CONFIG MYSQL_HOME PGSERVICEFILE PGPASSFILE ODBCINI ODBCSYSINI TNS_ADMIN
        REGISTRY_AUTH_FILE *_CONFIG_FILE *_CONFIG_PATH *_CONFIG_DIR *_RCFILE
    """,
}
# Common variables that match a pattern above but do not have these effects.
_HARMLESS_TEXT = """
    PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8 PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONFAULTHANDLER
    PYTHONOPTIMIZE PYTHONDEVMODE PYTHONLEGACYWINDOWSSTDIO NPM_CONFIG_LOGLEVEL NPM_CONFIG_YES NPM_CONFIG_FUND
    NPM_CONFIG_UPDATE_NOTIFIER UV_NO_PROGRESS UV_LINK_MODE PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK XDG_SESSION_*
"""


class _NamePatterns(Struct, frozen=True):
    """Patterns for upper-case variable names: exact names, prefixes and suffixes."""

    exact: frozenset[str]
    prefixes: tuple[str, ...]
    suffixes: tuple[str, ...]

    def matches(self, name: str) -> bool:
        """Return whether an upper-case name matches any of the patterns."""
        return name in self.exact or name.startswith(self.prefixes) or name.endswith(self.suffixes)


def _parse_patterns(text: str) -> _NamePatterns:
    words = text.split()
    return _NamePatterns(
        frozenset(word for word in words if "*" not in word),
        tuple(word[:-1] for word in words if word.endswith("*")),
        tuple(word[1:] for word in words if word.startswith("*")),
    )


_PATTERNS_BY_RISK: dict[Risk, _NamePatterns] = {risk: _parse_patterns(text) for risk, text in _NAMES_BY_RISK.items()}
_HARMLESS_PATTERNS = _parse_patterns(_HARMLESS_TEXT)


def classify_variable(name: str) -> Risk | None:
    """Return the kind of risk that an environment variable poses, or None if no risk is known.

    Programs such as npm ignore case in these names and treat `-` like `_`, and so does this function.
    """
    upper = name.strip().upper().replace("-", "_")
    if _HARMLESS_PATTERNS.matches(upper):
        return None
    return next((risk for risk, names in _PATTERNS_BY_RISK.items() if names.matches(upper)), None)


def group_by_risk(names: Iterable[str]) -> dict[Risk, tuple[str, ...]]:
    """Return the risky variables among *names*, sorted and grouped by kind of risk."""
    ordered = sorted(names)
    groups: dict[Risk, tuple[str, ...]] = {
        risk: tuple(name for name in ordered if classify_variable(name) == risk) for risk in _PATTERNS_BY_RISK
    }
    return {risk: members for risk, members in groups.items() if members}
