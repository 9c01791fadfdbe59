"""Text of plugins, made safe for logs, events and conditions."""

from __future__ import annotations


def text_of(value: object) -> str:
    """``value`` as text; what UTF-8 cannot carry is escaped, such as bytes of a file's name."""
    try:
        text = str(value)
    except BaseException:  # noqa: BLE001 - of a plugin's class
        return f"a {type(value).__name__} without text"
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def error_text(error: BaseException) -> str:
    """What an exception is, and what it says."""
    return f"{type(error).__name__}: {text_of(error)}"
