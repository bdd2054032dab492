"""What `flashsac report` says of its arguments."""

from __future__ import annotations

import pytest

from flashsac.cli.main import main


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "the file cannot be read (No such file or directory)"),
        (b"", "it is no CSV of published curves, it has no column task, method"),
        (b"\xff\xfe\x00", "it is no CSV of published curves"),
        (b"task,method,metric,env_step,seeds,mean\n", "it has no column ci_low, ci_high."),
    ],
)
def test_a_file_without_published_curves_is_refused(tmp_path, capsys, content, complaint):
    file = tmp_path / "published.csv"
    if content is not None:
        file.write_bytes(content)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "curves"), "--published", str(file)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: --published {file}: ")
    assert complaint in said
