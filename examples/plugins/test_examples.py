"""All examples together."""

import shutil
from pathlib import Path

import pytest

from bayplan.engine.registry import Registry

HERE = Path(__file__).parent
FILES = [path for path in sorted(HERE.glob("*/*.py")) if not path.name.startswith("test_")]


def test_all_of_them_can_be_in_one_config_map(tmp_path: Path) -> None:
    for path in FILES:
        shutil.copy(path, tmp_path)
    registry = Registry()
    registry.load_folder(tmp_path)
    names = {"AvoidNode", "GPUPriority", "HelloWorld", "MyScore", "TeamQuota"}
    assert names <= registry.known.keys()
    assert len(FILES) == len(names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_named_after_its_plugin_and_its_folder(path: Path) -> None:
    assert path.stem == path.parent.name
    assert f"class {path.stem.replace('_', '')}(plugin)" in path.read_text().lower()
