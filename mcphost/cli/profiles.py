"""Command `profiles`: lists the profiles of config.toml, or shows one of them."""

import argparse
from typing import TYPE_CHECKING

from mcphost.cli.parser import build_options
from mcphost.cli.printing import print_json, print_note, print_table, print_text
from mcphost.translation import _, join_list

if TYPE_CHECKING:
    from mcphost.cli.parser import Options
    from mcphost.config.schema import HostConfig, ModelConfig, Profile

_MAX_SHOWN_SERVERS = 8


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `profiles` command to *parser*."""
    parser.add_argument("name", nargs="?", metavar="PROFILE", help="show all settings of this profile")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """List the profiles, or show the named one. Raises UsageError if there is no such profile."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)

    async def work() -> int:
        return await _show(options, args.name, as_json=args.json)

    return run_command(options, work)


async def _show(options: "Options", name: str | None, *, as_json: bool) -> int:
    from mcphost.cli.build_host import load_approved_configuration
    from mcphost.cli.command_runner import print_config_problems
    from mcphost.config.profiles import find_profile
    from mcphost.headless.json_output import profile_json

    config = await load_approved_configuration(options)
    print_config_problems(config, options)
    if name is not None:
        profile = find_profile(config, name)
        if as_json:
            print_json(profile_json(profile, is_selected=profile.name == config.profile))
        else:
            _print_profile(profile)
    elif as_json:
        profiles = [profile_json(one, is_selected=one.name == config.profile) for one in config.profiles]
        print_json({"selected": config.profile, "profiles": profiles})
    else:
        _print_list(config)
    return 0


def _print_list(config: "HostConfig") -> None:
    rows = [
        (
            profile.name,
            "" if profile.model is None else profile.model.name,
            "" if profile.model is None else join_list(_list_parameters(profile.model)),
            _describe_servers(profile),
            profile.description,
        )
        for profile in config.profiles
    ]
    print_table(rows, (_("Profile"), _("Model"), _("Parameters"), _("Servers"), _("Description")))
    if not rows:
        print_note(_("There is no profile in {file}. Add one: [profiles.NAME]").format(file=config.settings_file))
    else:
        print_note(_("All settings of a profile: mcphost profiles PROFILE"))
    if config.profile:
        print_note(_("Selected: {model}").format(model=config.profile))


def _print_profile(profile: "Profile") -> None:
    model = profile.model
    pairs = (
        (_("Description"), profile.description),
        (_("Model"), _("unchanged") if model is None else model.name),
        (_("Parameters"), "" if model is None else join_list(_list_parameters(model))),
        (_("Servers"), _("unchanged") if profile.servers is None else join_list(profile.servers) or _("none")),
        (_("System prompt"), _("unchanged") if profile.system_prompt is None else profile.system_prompt),
    )
    print_text(profile.name)
    for label, text in pairs:
        if text:
            print_text(f"  {label}: {text}")


def _describe_servers(profile: "Profile") -> str:
    if profile.servers is None:
        return ""
    names = list(profile.servers)
    more = [_("others")] if len(names) > _MAX_SHOWN_SERVERS else []
    return join_list([*names[:_MAX_SHOWN_SERVERS], *more]) or _("none")


def _list_parameters(model: "ModelConfig") -> list[str]:
    """Return the parameters that a model is used with, as they are written in config.toml."""
    values = {
        "reasoning_effort": model.reasoning_effort,
        "temperature": model.temperature,
        "top_p": model.top_p,
        "max_output_tokens": model.max_output_tokens,
        "context_window": model.context_window,
    }
    return [f"{key} = {value}" for key, value in values.items() if value or (value is not None and key in _ZERO)]


_ZERO = frozenset({"temperature"})
"""Parameters whose value may be zero; for the others, zero means that they are not set."""
