"""`bw tag`: adds and removes tags, a note or a name of a stored session.

Decision: a command of its own, not options of `bw show`: commands that print a study never write to
it, so that they work on studies of other users and while a session runs.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Annotated, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.shared_options import AboutOptions
from benchwright.cli.terminal import write_answer
from benchwright.core.errors import InputError, argument_error
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, add_options, given, request_from
from benchwright.study.keys import SessionAbout, parse_tag
from benchwright.suite.common_options import Json

_USAGE = "bw tag [STUDY[@SESSION]] [+TAG...] [options]"
_EXAMPLES = """\
examples:
  bw tag +nightly +release-2.1                  the last session of ./bw-study
  bw tag bw-study@2 --session-name before       then: bw stats bw-study@before
  bw tag bw-study@before --remove nightly --note 'before the upgrade'
  bw tag bw-study@before                        print its tags
"""


class TagOptions(msgspec.Struct, frozen=True):
    """The options of `bw tag`, besides those of `AboutOptions`."""

    words: Annotated[
        tuple[str, ...],
        Option(
            "study or session: DIR, DIR@2, DIR@NAME (default: the last session of "
            "./bw-study); and tags to add, each after +",
            "STUDY|+TAG",
            positional=True,
            names="directory",
        ),
    ] = ()
    remove: Annotated[
        tuple[str, ...],
        Option("remove a tag (repeatable)", "TAG", parse_tag, no_default="it changes data"),
    ] = ()
    json: Json = False


_HELPS = {
    "session_name": "name it, unique in its study; an empty one removes the name",
    "tag": "add a tag, as +TAG does (repeatable)",
    "note": "replace its note; an empty one removes it",
}


def add_parser(commands: Any) -> None:
    """Add `bw tag` to the commands."""
    parser = add_command(commands, "tag", epilog=_EXAMPLES, usage=_USAGE)
    add_options(parser, TagOptions)
    add_options(parser, AboutOptions, helps=_HELPS)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw tag`; return the exit code. Raises InputError, StudyError."""
    from benchwright.cli.show import session_named
    from benchwright.study.catalogue import check_unused
    from benchwright.study.journal import Study
    from benchwright.views.sessions import tag_document, tag_text

    request = request_from(TagOptions, arguments)
    change = _Change.of(arguments, request)
    part = session_named(change.study)
    is_change = bool(change.added or change.removed or change.stated)
    open_study = Study.open_to_resume if is_change else Study.open_to_read
    with contextlib.closing(open_study(part.place)) as study:
        session = part.of(study)
        about = change.applied(session.about)
        if is_change and about != session.about:
            if about.name:
                check_unused(about.name, study, session.number)
            study.record_about(session.number, about)
    changed = about != session.about
    write_answer(
        json=request.json,
        document=lambda: tag_document(part.place, session.number, about, changed),
        text=lambda: tag_text(part.place, session.number, about),
    )
    return 0


class _Change(msgspec.Struct, frozen=True):
    """The checked request."""

    study: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    stated: dict[str, str]
    """The name and the note that are given, also empty ones."""

    @classmethod
    def of(cls, arguments: argparse.Namespace, request: TagOptions) -> _Change:
        """Return the change that is requested. Raises InputError with all mistakes."""
        about_options = request_from(AboutOptions, arguments)
        about, own = OptionReader(about_options), OptionReader(request)
        words = [word[1:] for word in request.words if word.startswith("+")]
        parsed = [own.parsed("+TAG", word, parse_tag, "write +nightly") for word in words]
        # A configuration file sets tags of new sessions, not of this one.
        typed = "tag" in [option.name for option in given(arguments, AboutOptions)]
        tags = about.values("tag") if typed else []
        added = [tag for tag in (*parsed, *tags) if tag is not None]
        removed = tuple(own.values("remove"))
        stated = {}
        for field, name in (("name", "session_name"), ("note", "note")):
            text = getattr(about_options, name)
            if text is not None:
                stated[field] = about.value(name, "") if text else ""
        studies = [word for word in request.words if not word.startswith("+")]
        if len(studies) > 1:
            message = "bw tag changes one session"
            own.wrong("STUDY", studies[1], message, f"to add a tag: +{studies[1]}")
        for tag in removed:
            if tag in added:
                own.wrong("--remove", tag, f"{tag} is added and removed")
        if wrong := [*own.found, *about.found]:
            raise InputError(wrong)
        return cls(studies[0] if studies else "bw-study", tuple(added), removed, stated)

    def applied(self, about: SessionAbout) -> SessionAbout:
        """Return the name, tags and note after the change.

        Raises InputError for a tag to remove that the session does not have.
        """
        for tag in self.removed:
            if tag not in about.tags:
                there = ", ".join(about.tags) or "none"
                message = f"the session has no tag {tag!r}"
                raise argument_error("--remove", tag, message, f"there are: {there}")
        tags = (*about.tags, *self.added)
        kept = tuple(tag for tag in dict.fromkeys(tags) if tag not in self.removed)
        return msgspec.structs.replace(about, tags=kept, **self.stated)
