"""Prompts that a user may choose: how to find something, and how to prepare a change."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_types import GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage, TextContent

from api.agents.access import CallRefused

_FOLDER = PromptArgument(name="folder", description="Name or path of an indexed folder; without it, all.")


def _prompt(name: str, title: str, description: str, argument: PromptArgument) -> Prompt:
    return Prompt(name=name, title=title, description=description, arguments=[argument, _FOLDER])


_PROMPTS = {
    "answer": (
        _prompt(
            "answer",
            "Answer from a folder",
            "Answer a question from indexed files, with the places that say so.",
            PromptArgument(name="question", description="What to find out.", required=True),
        ),
        """Answer this question from the indexed files{where}: {question}

Begin with search. Use grep for exact words, and read_file only where an excerpt is too short. Name path:first-last for
each statement, and say what the files do not answer.""",
    ),
    "change": (
        _prompt(
            "change",
            "Prepare a change",
            "See what a change of a function, class or constant touches.",
            PromptArgument(name="name", description="Such as `Client.send`.", required=True),
        ),
        """I want to change {name}{where}. Call impact for it, and callers with depth 2 if it is called.

Check with read_file what is not `resolved`. List what must change, which tests cover it, and what is not sure.""",
    ),
}
LISTED = ListPromptsResult(prompts=[prompt for prompt, _ in _PROMPTS.values()])


def get_prompt(name: str, given: Mapping[str, str]) -> GetPromptResult:
    """A prompt with its arguments filled in. Raises `CallRefused`."""
    if name not in _PROMPTS:
        raise CallRefused(f"There is no prompt {name!r}; the prompts are {', '.join(_PROMPTS)}.")
    prompt, text = _PROMPTS[name]
    missing = [each.name for each in prompt.arguments or [] if each.required and not given.get(each.name)]
    if missing:
        raise CallRefused(f"The prompt {name} needs {', '.join(missing)}.")
    known = {each.name: given.get(each.name, "") for each in prompt.arguments or []}
    where = f" of {known['folder']}" if known["folder"] else ""
    said = text.format(where=where, **{name: value for name, value in known.items() if name != "folder"})
    message = PromptMessage(role="user", content=TextContent(type="text", text=said))
    return GetPromptResult(description=prompt.description, messages=[message])
