"""Detection of changes in the configuration files; most changes can be applied without a restart."""

import os
from collections.abc import Awaitable, Callable, Collection, Container, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio
import anyio.to_thread

from mcphost.config.env_file import env_file_path, with_env_file
from mcphost.config.loader import ConfigSources
from mcphost.config.restart_requests import RestartRequests
from mcphost.config.rules import Rule, decode_percent
from mcphost.config.schema import HostConfig, Profile, ServerConfig, find_unread_settings
from mcphost.errors import ConfigError, McpHostError, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.config_changes import ConfigChanges, format_sampling_model, list_for_audit
from mcphost.host.consent.config_rules import ConfigRules
from mcphost.host.model_selection import ModelSelection
from mcphost.host.runtime_settings import (
    RuntimeSettings,
    SettingChange,
    compare_settings,
    describe_kept_setting,
    keep_invalid_settings,
    keep_settings,
)
from mcphost.host.server_requests.root_folders import compare_roots, configured_roots
from mcphost.host.server_requests.roots import Roots
from mcphost.host.server_requests.sampling_models import SamplingModels
from mcphost.host.servers.servers import Servers
from mcphost.serialization import replace
from mcphost.store.large_results import ResultStore

POLL_SECONDS = 1.0


class ProjectInstructions(Protocol):
    """Interface to the setting that decides whether a project's instructions files are used."""

    @property
    def uses_project(self) -> bool:
        """Whether a project's instructions files are read."""
        ...

    @uses_project.setter
    def uses_project(self, value: bool) -> None: ...


class ConfigurableParts(NamedTuple):
    """Parts of the host to which a changed configuration is applied immediately."""

    servers: Servers
    model_selection: ModelSelection
    rules: ConfigRules
    instructions: ProjectInstructions
    settings: RuntimeSettings
    results: ResultStore
    audit: AuditLog
    roots: Roots
    sampling: SamplingModels


class ConfigChangeDetector:
    """Detector of differences between the configuration in use and the configuration files on disk.

    New servers are added without confirmation, because each must be approved before it starts. Almost every other
    change waits for the user's confirmation, so that a program that can write the files cannot change a running
    conversation.
    """

    def __init__(
        self,
        config: HostConfig,
        sources: ConfigSources,
        parts: ConfigurableParts,
        state_dir: Path | None = None,
    ) -> None:
        """Create a detector for *config*, the configuration in use; changes are applied to *parts*.

        *state_dir* is the folder in which `mcphost servers restart` leaves its requests; if it is None, they are
        ignored.
        """
        self.config = config
        self._restarts = None if state_dir is None else RestartRequests(state_dir)
        self._load, self._files = sources
        self._parts = parts
        self._servers, self._model_selection, self._rules = parts.servers, parts.model_selection, parts.rules
        self._instructions, self._settings = parts.instructions, parts.settings
        self._has_applied = False
        """Whether changes were applied since the files were last checked by `watch`."""

        self._profile: str | None = None
        """The profile that the user chose in this run; None for the one given by the options or files."""

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles defined in config.toml."""
        return self.config.profiles

    @property
    def sources(self) -> ConfigSources:
        """The configuration files, and a function that loads them with the profile in use.

        If that profile has been removed from the files, the function loads them without a profile.
        """
        return ConfigSources(self._load_in_use, self._files)

    async def _load_in_use(self, profile: str | None) -> HostConfig:
        profile = self._profile if profile is None else profile
        try:
            return await self._load(profile)
        except UsageError:
            return await self._load("")

    async def check(self) -> ConfigChanges:
        """Read the files again, and return how they differ from the configuration in use.

        Raises ConfigError if the files cannot be loaded, and UsageError if the profile in use no longer exists.
        """
        changes = self._compare(await self._load(self._profile))
        started = [(one.config, one.approved_config) for one in self._servers if one.approved_config is not None]
        return await anyio.to_thread.run_sync(_add_env_files, changes, started, self.config.problems)

    async def use_profile(self, name: str) -> ConfigChanges:
        """Read the files again with the profile *name* ("" for none), apply the differences, and return them.

        Changes to limits and other settings that a profile cannot contain are not applied, but still wait for the
        user's confirmation. Raises ConfigError if the files cannot be loaded, and UsageError if the profile
        does not exist, or if applying it would also apply other changes that wait for confirmation. In all these
        cases, nothing is changed.
        """
        return await self._use_profile(name, await self._read_unchanged())

    async def edit_profile(self, name: str, edit: Callable[[Path], None], use: str) -> ConfigChanges:
        """Edit the profile *name* in config.toml by calling *edit*, and switch to the profile *use*.

        *edit* receives the path of config.toml, in a thread. See `use_profile` for the result and the errors.
        """
        await self._read_unchanged()
        await anyio.to_thread.run_sync(edit, Path(self.config.settings_file))
        return await self._use_profile(use, await self._read_unchanged(saved=name))

    async def _read_unchanged(self, saved: str = "") -> tuple[tuple[int, ...], ...]:
        """Return a signature of the configuration files, after checking that the profile can be switched.

        Raises UsageError if switching the profile would also apply a change that waits for the user's confirmation. A
        change of the profile named *saved* is allowed, because mcphost itself has just saved this profile.
        """
        signature = await self._read_signature()
        changes = await self.check()
        if replace(changes, profiles=tuple(name for name in changes.profiles if name != saved)).blocks_profile_change:
            raise _unconfirmed_error()
        return signature

    async def _use_profile(self, name: str, signature: tuple[tuple[int, ...], ...]) -> ConfigChanges:
        changes = self._compare(await self._load(name))
        if await self._read_signature() != signature:
            raise _unconfirmed_error()  # what was read now may not be what was checked
        config = replace(changes.config, **keep_settings(self.config))
        changes = replace(changes, config=config, settings=(), profiles=())
        self._profile = name
        self.apply(changes)
        return changes

    def apply(self, changes: ConfigChanges) -> None:
        """Apply changes to the running program; changed servers are reconnected.

        If the files have changed again since these changes were read, `watch` will report the new differences.
        """
        self._has_applied = True
        self._rules.never = changes.config.never_rules
        for name in changes.removed:
            if self._is_running(name):
                self._servers.remove(name)
        # Without the digest of the reviewed environment file, so that a later start uses what is approved then.
        changed = [replace(new, env_file_digest="", env_file_names=()) for _, new in changes.changed]
        for server in (*changed, *changes.added):
            self._servers.update(server) if self._is_running(server.name) else self._servers.add(server)
        if changes.system_prompt is not None:
            self._model_selection.system_prompt = changes.system_prompt
        if changes.project_instructions is not None:
            self._instructions.uses_project = changes.project_instructions
        if changes.model is not None:
            self._model_selection.select(changes.model)
        self._settings.use(changes.config)
        self._parts.results.config = self._settings.results
        self._parts.audit.config = self._settings.audit
        self._parts.sampling.config = self._settings.sampling
        self._parts.roots.use_configured(configured_roots(changes.config))
        self.config = changes.config
        if changes.needs_confirmation:
            self._parts.audit.queue_event(
                AuditSubject(kind="config"), "changed", who="person", detail={"changes": list_for_audit(changes)}
            )

    async def watch(self, on_change: Callable[["ConfigChanges | McpHostError"], Awaitable[None]]) -> None:
        """Call *on_change* whenever the files have changed and differ from the configuration in use, until cancelled.

        If the files cannot be loaded, *on_change* receives the error. After an error, or after changes that were
        not applied, it receives an empty ConfigChanges as soon as the files match the configuration in use again.

        Files are polled, which is fast enough for these few files and also works on network folders. They are read
        once they have been unchanged for POLL_SECONDS, so that no half-written file is read, and read again after
        changes were applied. This method also restarts the servers that `mcphost servers restart` names.
        """
        known: object = None  # taken now, to notice a change between the start and the first check
        seen = await self._read_signature()
        was_reported = False
        while True:
            await anyio.sleep(POLL_SECONDS)
            await self._restart_requested()
            before, seen = seen, await self._read_signature()
            if self._has_applied:
                # What was applied may be older than the files.
                known, was_reported, self._has_applied = None, False, False
            if seen == known or seen != before:
                continue
            known = seen
            try:
                changes = await self.check()
            except McpHostError as error:
                was_reported = True
                await on_change(error)
                continue
            if changes.is_empty:
                self.config = changes.config  # mcphost changed the file itself, or a change was taken back
            if was_reported or not changes.is_empty:
                was_reported = not changes.is_empty
                await on_change(changes)

    async def _restart_requested(self) -> None:
        requests = await anyio.to_thread.run_sync(self._restarts.take) if self._restarts is not None else ()
        for request in requests:
            if any((one.config.name, one.config.file) == (request.name, request.file) for one in self._servers):
                self._servers.restart(request.name)

    async def _read_signature(self) -> tuple[tuple[int, ...], ...]:
        """Return a signature of the configuration files and of the servers' environment files.

        The signature changes when one of these files is written.
        """
        servers = [one.config for one in self._servers if one.config.env_file]
        return await anyio.to_thread.run_sync(_signatures, self._files, servers)

    def _is_running(self, name: str) -> bool:
        return any(connection.config.name == name for connection in self._servers)

    def _compare(self, new: HostConfig) -> ConfigChanges:
        old = self.config
        problems = tuple(problem for problem in new.problems if problem not in old.problems)
        if find_unread_settings(new.problems):
            # All settings have defaults here; these must not replace the settings in use.
            new = _keep_settings(new, old)
        new = keep_invalid_settings(new, self._settings.apply_to(old))
        running = {connection.config.name: connection.config for connection in self._servers}
        before = {server.name: server for server in old.servers}
        after = {server.name: server for server in new.servers}
        unreadable = {
            server.name for server in old.servers if server.file and any(server.file in text for text in problems)
        }
        hooks_removed = tuple(hook for hook in old.hooks if hook not in new.hooks)
        hooks_added = tuple(hook for hook in new.hooks if hook not in old.hooks)
        if new.hooks != old.hooks and not hooks_removed and not hooks_added:
            hooks_added = new.hooks
        uses_project = new.context.project_instructions
        changes = (
            *compare_roots(old, new),
            *_compare_sampling_models(old, new),
            *compare_settings(self._settings.apply_to(old), new),
        )
        changed_names = {change.name for change in compare_settings(old, new)}  # the others were reported before
        return ConfigChanges(
            config=new,
            project_instructions=uses_project if uses_project != self._instructions.uses_project else None,
            hooks_added=hooks_added,
            hooks_removed=hooks_removed,
            profiles=self._changed_profiles(new.profiles),
            added=tuple(server for name, server in after.items() if name not in running),
            changed=tuple(
                (running[name], server)
                for name, server in after.items()
                if name in running and server not in (running[name], before.get(name))
            ),
            removed=tuple(name for name in running if name in before and name not in after and name not in unreadable),
            model_before=self._model_selection.config,
            model=new.model if new.model not in (old.model, self._model_selection.config) else None,
            system_prompt=new.system_prompt if new.system_prompt != self._model_selection.system_prompt else None,
            never_added=_format_rules(new.never_rules, self._rules.never),
            never_removed=_format_rules(self._rules.never, new.never_rules),
            theme=new.theme if new.theme != old.theme else None,
            settings=tuple(change for change in changes if not change.restart_reason),
            at_start=tuple(change for change in changes if change.restart_reason and change.name in changed_names),
            problems=tuple(map(describe_kept_setting, problems)),
        )

    def _changed_profiles(self, profiles: Iterable[Profile]) -> tuple[str, ...]:
        """Return the names of the profiles that were added, removed or changed.

        A profile is left out if the only change is that it now sets the selected model: when the user selects a
        model, mcphost itself saves this model in the profile.
        """
        before, after = {one.name: one for one in self.config.profiles}, {one.name: one for one in profiles}
        for name, profile in after.items():
            if name in before and profile.model == self._model_selection.config:
                before[name] = replace(before[name], model=profile.model)
        return tuple(name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name))


def _unconfirmed_error() -> UsageError:
    return UsageError(
        "The configuration files have changes that wait for your review, so the profile was not changed.",
        "Review them with /reload, then choose the profile again.",
    )


def _format_rules(rules: Iterable[Rule], without: Collection[Rule]) -> tuple[str, ...]:
    listed = tuple(rules)
    if not listed:
        return ()
    from mcphost.config.rule_syntax import format_rule, quote_rule

    known = {format_rule(rule) for rule in without}  # another spelling of the same rule is no change
    written = {quote_rule(rule) for rule in without}
    # If a project's entry has changed which servers a rule covers, its text is the same as before, and only the other
    # form shows the change.
    # Text with an unencoded "/" may stand for two rules; see parse_alternatives.
    return tuple(
        dict.fromkeys(
            decode_percent(format_rule(rule)) if (text := quote_rule(rule)) in written else text
            for rule in listed
            if format_rule(rule) not in known
        )
    )


def _keep_settings(new: HostConfig, old: HostConfig) -> HostConfig:
    """Return *old* with the servers and problems of *new*, and with the rules in `consent.never` from both."""
    rules = tuple(dict.fromkeys((*old.never_rules, *new.never_rules)))
    return replace(old, servers=new.servers, problems=new.problems, never_rules=rules)


def _file_signature(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _signatures(files: Iterable[Path], servers: Iterable[ServerConfig]) -> tuple[tuple[int, ...], ...]:
    return (*map(_file_signature, files), *map(_env_file_signature, servers))


def _env_file_signature(server: ServerConfig) -> tuple[int, ...]:
    try:
        return _file_signature(Path(env_file_path(server, os.environ)))
    except ConfigError:
        return ()


def _add_env_files(
    changes: ConfigChanges, started: Iterable[tuple[ServerConfig, ServerConfig]], known_problems: Container[str]
) -> ConfigChanges:
    """Return *changes*, extended by the servers whose environment file has changed since they were started.

    *started* contains a pair for each started server: its configuration in use, and the configuration that was
    approved when it started. An environment file that cannot be read is reported as a problem, not as a change.
    """
    changed = {new.name: (old, new) for old, new in changes.changed}
    unreadable: list[str] = []
    for config, approved in started:
        old, new = changed.get(config.name, (config, config))
        if not new.env_file or new.env_file != approved.env_file or new.disabled or new.name in changes.removed:
            continue
        try:
            current = with_env_file(new)
        except ConfigError as error:
            unreadable.append(str(error))
            continue
        if current.env_file_digest != approved.env_file_digest:
            digests = {"env_file_digest": approved.env_file_digest, "env_file_names": approved.env_file_names}
            changed[new.name] = replace(old, **digests), current
    return replace(
        changes,
        config=replace(changes.config, problems=(*changes.config.problems, *unreadable)),
        changed=tuple(changed.values()),
        problems=(*changes.problems, *(text for text in unreadable if text not in known_problems)),
    )


def _compare_sampling_models(old: HostConfig, new: HostConfig) -> tuple[SettingChange, ...]:
    """Return a change of "sampling.models" for each model that was added or removed.

    If only their order changed, each model is returned as added.
    """
    before, after = old.sampling.models, new.sampling.models
    if before == after:
        return ()
    removed = [model for model in before if model not in after]
    added = [model for model in after if model not in before]
    if not removed and not added:
        added = list(after)
    return (
        *(SettingChange("sampling.models", format_sampling_model(model), None) for model in removed),
        *(SettingChange("sampling.models", None, format_sampling_model(model)) for model in added),
    )
