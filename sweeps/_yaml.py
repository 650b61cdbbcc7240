"""YAML as sweep files need it: PyYAML's safe loader, stricter about keys and kinder to numbers."""

import re
from pathlib import Path
from typing import Any

import yaml

from sweeps.errors import SpecError

# YAML 1.1, which PyYAML follows, takes 5e-5 for a text because it has no dot. Sweep files are full
# of such numbers, so they are read as YAML 1.2 reads them.
_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+")


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Before merge keys (<<) are expanded: overriding a merged key is no duplicate.
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return node


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds, as plain values.

    Raises:
        SpecError: the file cannot be read, is no YAML, or has a key twice; with line and column.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"{path}: cannot be read: {reason}") from None
    try:
        return yaml.load(text, _Loader)  # a SafeLoader: builds plain values only
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SpecError(f"{path}{place}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: is not YAML: {error}") from None
