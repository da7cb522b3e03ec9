"""The objects of a file of `kubectl get -o json|yaml`: of a List its items, of a watch every state, one after the other.

YAML is read from its events, so that a List need not be held: kubectl writes plain trees, so anchors, aliases and tags are refused.
A time that YAML would take for a date stays text.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from runcast.data.errors import SourceError
from runcast.data.sources.blocks import open_log, read_piece
from runcast.data.sources.json_items import objects_or_items

_BLANKS = b"\xef\xbb\xbf \t\r\n"
_ITEMS = "items"
_DEEPEST = 200
_INTEGER = re.compile(r"[-+]?\d{1,18}", re.ASCII)
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "false": False}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_objects(path: Path) -> Iterator[Any]:
    """Yield the objects of a JSON or YAML file in its order; raises SourceError where it is missing, cut, or neither."""
    with open_log(path) as file:
        first = read_piece(file, path, 4096).lstrip(_BLANKS)[:1]
    return objects_or_items(path, _ITEMS) if first in (b"{", b"[") else _yaml_objects(path)


def _yaml_objects(path: Path) -> Iterator[Any]:
    with open_log(path) as file:
        events = yaml.parse(file, Loader=_LOADER)
        try:
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    yield from _document(events, path)
        except yaml.YAMLError as error:
            raise SourceError(
                f"{path}: neither JSON nor YAML as kubectl writes it: {' '.join(str(error).split())[:300]}"
            ) from None
        except UnicodeDecodeError as error:
            raise SourceError(f"{path}: not UTF-8 ({error})") from None


def _document(events: Iterator[Any], path: Path) -> Iterator[Any]:
    event = next(events)
    if isinstance(event, yaml.SequenceStartEvent):
        yield from _sequence(events, path)
    elif isinstance(event, yaml.MappingStartEvent):
        fields: dict[str, Any] = {}
        has_items = False
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            name = str(_value(event, events, path, 0))
            event = next(events)
            if name == _ITEMS and isinstance(event, yaml.SequenceStartEvent):
                has_items = True
                yield from _sequence(events, path)
            else:
                fields[name] = _value(event, events, path, 0)
        if not has_items:
            yield fields
    elif (value := _value(event, events, path, 0)) is not None:  # an empty document is nothing
        yield value


def _sequence(events: Iterator[Any], path: Path) -> Iterator[Any]:
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        yield _value(event, events, path, 0)


def _value(event: Any, events: Iterator[Any], path: Path, depth: int) -> Any:
    """Return the value that begins with `event`."""
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None or (event.tag is not None and event.tag != "!"):
        raise SourceError(
            f"{path}:{line}: an anchor, alias or tag of YAML, which kubectl does not write; export the objects again"
        )
    if depth > _DEEPEST:
        raise SourceError(f"{path}:{line}: nested more than {_DEEPEST} deep; no object of Kubernetes is")
    if isinstance(event, yaml.ScalarEvent):
        text = str(event.value)
        if not event.implicit[0]:  # quoted, or a block
            return text
        return _WORDS[text] if text in _WORDS else int(text) if _INTEGER.fullmatch(text) else text
    if isinstance(event, yaml.SequenceStartEvent):
        values = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            values.append(_value(event, events, path, depth + 1))
        return values
    fields: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        name = str(_value(event, events, path, depth + 1))
        fields[name] = _value(next(events), events, path, depth + 1)
    return fields
