"""The page of the command line, from click itself: usage, options with their defaults, what each command says."""

from __future__ import annotations

from collections.abc import Iterator

import click
from docstrings import plain, table

from loadbook.cli import COMMANDS, cli

HEAD = "# Command line"


def page() -> str:
    """Return the page: every command in the order in which they are used."""
    top = click.Context(cli, info_name="loadbook")
    rows = [[f"[`loadbook {name}`](#loadbook-{name})", COMMANDS[name][1]] for name in cli.list_commands(top)]
    parts = [HEAD, _said(cli), table(["command", "what for"], rows)]
    for name in cli.list_commands(top):
        command = cli.get_command(top, name)
        assert command is not None
        parts += _command(command, click.Context(command, info_name=name, parent=top), "##")
    return "\n\n".join(filter(None, parts)) + "\n"


def _command(command: click.Command, context: click.Context, marks: str) -> Iterator[str]:
    """Yield heading, usage, text and options of a command, then those of its own commands."""
    yield f"{marks} {context.command_path}"
    yield f"```\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield _said(command)
    yield table(["option", "means"], list(_options(command, context)))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            own = command.get_command(context, name)
            assert own is not None
            yield from _command(own, click.Context(own, info_name=name, parent=context), f"{marks}#")


def _said(command: click.Command) -> str:
    """Return what `--help` says above the options, a line per paragraph."""
    paragraphs = (command.help or "").strip().split("\n\n")
    return plain("\n\n".join(" ".join(text.split()) for text in paragraphs))


def _options(command: click.Command, context: click.Context) -> Iterator[list[str]]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        reported = record and (record[1] or isinstance(parameter, click.Option))  # arguments stand in the usage
        if record and reported and "--help" not in parameter.opts:
            yield [f"`{record[0]}`", record[1]]
