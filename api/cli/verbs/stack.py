"""The verbs for the stack on this machine: show its page, check it, stop it, complete commands in a shell."""

from __future__ import annotations

import json
import os
import sys

import click

from api.cli.invocation import ERROR, FOUND, NOTHING, Invocation, verb
from api.cli.service.connection import always, connect, page_of
from api.stack.record import installation_home

#: Shells for which click writes the code of completion.
SHELLS = ("bash", "zsh", "fish")


def _complete_logs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from api.cli.logs import names_of

    return [name for name in names_of(installation_home()) if name.startswith(incomplete)]


@click.command(epilog="\b\nExamples:\n  foldex down\n  foldex down --json")
@click.option("--json", "as_json", is_flag=True, help='Print {"stopped": true}, or false if none runs.')
def down(as_json: bool) -> None:
    """Stop the Foldex that runs on this machine.

    It stops what `foldex index` or `foldex search` started, or `foldex up` in another terminal.
    """
    from api.cli.service.background import stop

    home = installation_home()
    was_running = stop(home)
    if as_json:
        click.echo(json.dumps({"stopped": was_running}))
    elif was_running:
        click.echo("Stopped. The data stays; the next `foldex index` or `foldex search` starts Foldex again.")
    else:
        click.echo(f"No Foldex runs in {home}.", err=True)
    sys.exit(FOUND if was_running else NOTHING)


@click.command(epilog="\b\nExamples:\n  foldex logs\n  foldex logs -f api worker-fast\n  foldex logs stack -n 200")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete_logs)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@click.option(
    "-n", "--lines", metavar="N", type=click.IntRange(0), default=20, show_default=True, help="Last lines of each log."
)
def logs(names: tuple[str, ...], follow: bool, lines: int) -> None:
    """Print the logs of the Foldex on this machine, running or not.

    NAME is a process, such as api or worker-fast, or stack for what starts them; default: all.
    """
    from api.cli.logs import logs_of, show

    home = installation_home()
    found = logs_of(home, names)
    if not found:
        click.echo(f"Foldex has written no log in {home} yet; `foldex up -d` starts it.", err=True)
        sys.exit(NOTHING)
    show(found, lines, follow=follow)


@verb("foldex open", "foldex open --print", "foldex open --server https://foldex.example.org")
@click.option("--print", "is_printed_only", is_flag=True, help="Print the address, and open no browser.")
def open_page(invocation: Invocation, is_printed_only: bool) -> int:
    """Open the page in a browser, and print its address.

    Starts Foldex if it does not run. Of the Foldex on this machine the address is a link: the page that it opens may
    add any folder. It works once.
    """
    import webbrowser

    from api.cli.terminal import output
    from api.stack.page_link import write_redirect

    with connect(invocation, start_if=always) as service:
        service.foldex.health()
        url = page_of(service)
        shown = url if service.home is None or is_printed_only else write_redirect(service.home, url)
    if invocation.as_json:
        output.print_json({"url": url})
    else:
        click.echo(url)
    if not is_printed_only and not webbrowser.open(shown):
        click.echo("No browser could be opened; open the address yourself.", err=True)
    return FOUND


# a function of that name would hide Python's own
open_page.name = "open"


@verb("foldex doctor", "foldex doctor --server https://foldex.example.org --key $KEY")
def doctor(invocation: Invocation) -> int:
    """Check service, key, models, hosts and folders.

    On a machine of an installation without the embedded stack, DATABASE_URL and the other settings of the environment
    say where to look. The exit status is 2 if something is wrong.
    """
    from api.cli.checks import examine
    from api.cli.terminal import output

    checks = []
    for check in examine(invocation):
        checks.append(check)
        if not invocation.as_json:
            mark = click.style("ok   ", fg="green") if check.is_well else click.style("wrong", fg="red")
            click.echo(f"{mark}  {output.clean(f'{check.what}: {check.detail}')}")
    if invocation.as_json:
        output.print_json({"items": [{"what": c.what, "ok": c.is_well, "detail": c.detail} for c in checks]})
    return FOUND if all(check.is_well for check in checks) else ERROR


@click.command(epilog="\b\nExamples:\n  foldex completion bash >> ~/.bashrc\n  foldex completion zsh >> ~/.zshrc")
@click.argument("shell", type=click.Choice(SHELLS), required=False, metavar="[SHELL]")
def completion(shell: str | None) -> None:
    """Print the code that completes commands in a shell.

    SHELL is bash, zsh or fish; default: the one that the variable SHELL names.
    """
    from click.shell_completion import get_completion_class

    name = shell or os.path.basename(os.environ.get("SHELL", ""))  # noqa: PTH119 - a string as it is
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        raise click.UsageError(f"The shell {name!r} is not known; name one of {', '.join(SHELLS)}.")
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "foldex", "_FOLDEX_COMPLETE").source())
