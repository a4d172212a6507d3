from __future__ import annotations

from pathlib import Path

import pytest

from relcode.errors import DataError
from relcode.formats.importing import import_facts


def folder_with(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


OPENKE = {"entity2id_txt": "2\nAda B.\t0\nc\t1\n", "relation2id_txt": "2\nr\t0\ns\t1\n", "train2id_txt": "2\n0 1 0\n1 0 1\n"}
ROTATE = {"entities_dict": "0\tc\n1\tAda B.\n", "relations_dict": "0\tr\n1\ts\n", "train_txt": "Ada B.\tr\tc\nc\ts\tAda B.\n"}


def test_openke_and_rotate_say_the_same(tmp_path: Path) -> None:
    openke = import_facts(folder_with(tmp_path / "o", **OPENKE, valid2id_txt="1\n0 0 0\n", test2id_txt="1\n1 1 1\n"))
    rotate = import_facts(folder_with(tmp_path / "r", **ROTATE, valid_txt="Ada B.\tr\tAda B.\n", test_txt="c\ts\tc\n"))
    assert openke.dataset.fingerprint == rotate.dataset.fingerprint
    assert openke.dataset.entities.names == ("Ada B.", "c")
    assert [source.form for source in openke.summary.sources] == ["OpenKE"] * 3
    assert [source.form for source in rotate.summary.sources] == ["RotatE"] * 3
    # The order in OpenKE's files is head, tail, relation: read as head, relation, tail the first fact would be (Ada B., s, Ada B.).
    head, relation, tail = openke.dataset.train[0].tolist()
    names = openke.dataset.entities[head], openke.dataset.relations[relation], openke.dataset.entities[tail]
    assert names == ("Ada B.", "r", "c")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({**OPENKE, "train2id_txt": "3\n0 1 0\n1 0 1\n"}, "the first line says 3 facts, there are 2"),
        ({**OPENKE, "train2id_txt": "0 1 0\n1 0 1\n"}, "line 1: expected the number of lines"),
        ({**OPENKE, "train2id_txt": "1\n0 1\n"}, "line 2: expected three numbers"),
        ({**OPENKE, "train2id_txt": "1\n0 -1 0\n"}, "line 2: expected three numbers"),
        ({**OPENKE, "train2id_txt": "1\n0 1_0 0\n"}, "line 2: expected three numbers"),
        ({**OPENKE, "train2id_txt": "1\n0 1 2\n"}, "line 2: a number that is not in"),
        ({**OPENKE, "train2id_txt": "1\n0 99999999999999999999 0\n"}, "line 2: expected three numbers"),
        ({**OPENKE, "entity2id_txt": "2\na\t0\nb\t2\n"}, "expected every number from 0"),
        ({**OPENKE, "entity2id_txt": "2\na\t0\nb\t0\n"}, "a second name for number 0"),
        ({**OPENKE, "entity2id_txt": "2\na\t0\na\t1\n"}, "listed twice"),
        ({**OPENKE, "entity2id_txt": "3\na\t0\nb\t1\n"}, "the first line says 3 names, there are 2"),
        ({**OPENKE, "entity2id_txt": b"2\na\t0\n\xff\t1\n"}, "line 3: not UTF-8"),
        ({**ROTATE, "train_txt": "Ada\tr\tc\n"}, "the entity 'Ada' is not in the folder's .dict"),
        ({**ROTATE, "train_txt": "c\tR\tc\n"}, "the relation 'R' is not in"),
        ({**ROTATE, "entities_dict": "c\t0\n"}, "line 1: expected a number, a tab and a name"),
        ({**ROTATE, "entities_dict": "0\tc\n2\td\n"}, "expected every number from 0"),
    ],
)
def test_damaged_folders_get_one_clear_line(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(DataError) as caught:
        import_facts(folder_with(tmp_path / "bad", **files))
    assert message in str(caught.value) and "\n" not in str(caught.value)
