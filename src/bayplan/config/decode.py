"""From plain data to a model, or an error for every wrong field, with path and hint."""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.alias_generators import to_snake

from bayplan.config.errors import FieldError
from bayplan.config.legacy_names import LEGACY_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic_core import ErrorDetails

T = TypeVar("T")

_EXPECTED = {
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
}


def decode(model: type[T], data: Any, path: str = "") -> tuple[T | None, list[FieldError]]:
    """Make a `model` (pydantic model or dataclass) of `data`, or say why not.

    Fields that the model does not have are errors unless its own pydantic configuration says
    otherwise. `path` is where `data` stands in the file.
    """
    decoded, details = _attempt(model, data)
    return decoded, [_field_error(model, detail, path) for detail in details]


def decode_any_case(model: type[T], data: Any, path: str = "") -> tuple[T | None, list[FieldError]]:
    """As `decode`, but a field ``max_count`` may be spelled ``maxCount`` in `data`, too.

    True and false are no numbers, which pydantic takes them for.
    """
    spelled: dict[str, str] = {}
    renamed = _in_snake_case(model, data, spelled)
    decoded, details = _attempt(model, renamed)
    for detail in details:
        detail["loc"] = _as_spelled(detail["loc"], spelled)
    errors = [_field_error(model, detail, path) for detail in details]
    for loc, expected in _booleans(model, renamed, ()):
        where = join(path, _as_spelled(loc, spelled))
        errors.append(FieldError(where, f"must be {expected}, not true or false"))
    return (None if errors else decoded), errors


_Loc = tuple[int | str, ...]


def _as_spelled(loc: _Loc, spelled: Mapping[str, str]) -> _Loc:
    return tuple(spelled.get(str(step), step) for step in loc)


def _booleans(annotation: Any, data: Any, loc: _Loc) -> Iterator[tuple[_Loc, str]]:
    """Where `data` has true or false in the place of a number, and what should be there."""
    options = get_args(annotation)
    if isinstance(data, bool):
        kinds = options or (annotation,)
        if bool not in kinds and (int in kinds or float in kinds):
            yield loc, "an integer" if int in kinds else "a number"
    elif isinstance(data, list):
        inner = [get_args(kind)[0] for kind in (annotation, *options) if _holds(kind, list, tuple)]
        for index, item in enumerate(data):
            yield from _booleans(inner[0] if inner else None, item, (*loc, index))
    elif isinstance(data, dict):
        values = [get_args(kind)[1] for kind in (annotation, *options) if _holds(kind, dict)]
        fields = {name: kind for m in _models_in(annotation) for name, kind in _fields(m).items()}
        for name, value in data.items():
            kind = values[0] if values else fields.get(name)
            yield from _booleans(kind, value, (*loc, name))


def _holds(annotation: Any, *origins: type) -> bool:
    return get_origin(annotation) in origins and bool(get_args(annotation))


def _in_snake_case(model: type, data: Any, spelled: dict[str, str]) -> Any:
    """`data` with the field names of `model`; `spelled` gets the file's names where different.

    Where both spellings of a field are given, the camelCase one stays, and is an unknown field.
    """
    if isinstance(data, list):
        return [_in_snake_case(model, item, spelled) for item in data]
    if not isinstance(data, dict):
        return data
    fields = _fields(model)
    renamed = {}
    for key, value in data.items():
        name = to_snake(str(key))
        if key in fields or name not in fields or name in data:
            name = key
        else:
            spelled[name] = key
        annotation = fields.get(name)
        inner = () if get_origin(annotation) is dict else tuple(_models_in(annotation))
        renamed[name] = _in_snake_case(inner[0], value, spelled) if len(inner) == 1 else value
    return renamed


def decode_what_fits(model: type[T], data: Any) -> tuple[T | None, list[FieldError]]:
    """Like `decode`, but remove wrong fields from `data` and go on without them.

    Returns no model when that does not help: an element of a list cannot be left out without
    moving the others.
    """
    decoded, details = _attempt(model, data)
    errors = [_field_error(model, detail, "") for detail in details]
    if details and all(_remove(data, detail["loc"]) for detail in details):
        decoded, _ = _attempt(model, data)
    return decoded, errors


def _attempt(model: type[T], data: Any) -> tuple[T | None, list[ErrorDetails]]:
    own = getattr(model, "model_config", None) or getattr(model, "__pydantic_config__", None) or {}
    try:
        return TypeAdapter(model).validate_python(data, extra=own.get("extra") or "forbid"), []
    except ValidationError as error:
        return None, error.errors()


def join(path: str, loc: Sequence[int | str]) -> str:
    """`path` followed by the steps of `loc`: names with dots, positions in brackets."""
    for step in loc:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".")


def suggestion(name: str, candidates: Sequence[str]) -> str:
    """` (did you mean X?)` when a candidate is near enough to `name`, else nothing."""
    near = difflib.get_close_matches(name, candidates, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def shown(value: Any) -> str:
    """`value` as an error tells it: scalars as in the file, texts in quotes, the rest by kind."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _remove(data: Any, loc: Sequence[int | str]) -> bool:
    for step in loc[:-1]:
        data = data[step]
    if not loc or not isinstance(data, dict):
        return False
    return data.pop(loc[-1], None) is not None


def _field_error(model: type, detail: ErrorDetails, path: str) -> FieldError:
    return FieldError(join(path, detail["loc"]), _message(model, detail))


def _message(model: type, detail: ErrorDetails) -> str:
    kind, loc = detail["type"], detail["loc"]
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        name = str(loc[-1])
        if name in LEGACY_FIELDS:
            return f"unknown field ({LEGACY_FIELDS[name]})"
        return "unknown field" + suggestion(name, _fields_at(model, loc[:-1]))
    if kind in ("missing", "missing_argument"):
        return "required"
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {shown(detail['input'])}"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    return detail["msg"].replace("Input should be", "must be")


def _fields_at(model: type, loc: Sequence[int | str]) -> list[str]:
    """The field names that the model allows at `loc`."""
    models = [model]
    for step in loc:
        if not isinstance(step, int):
            models = [inner for outer in models for inner in _models_in(_fields(outer).get(step))]
    return [name for outer in models for name in _fields(outer)]


def _fields(model: type) -> dict[str, Any]:
    if issubclass(model, BaseModel):
        return {f.alias or name: f.annotation for name, f in model.model_fields.items()}
    return get_type_hints(model)


def _models_in(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and (
        issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)
    ):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
