"""Every configuration of the factorial studies passes nginx's own check, and says what its study means."""

import shutil
import subprocess
from pathlib import Path

import pytest

from loadbook.services import InstanceContext, load_service, render
from loadbook.study.reader import read_study

STUDIES = Path(__file__).parents[3] / "studies"


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not there: apt-get install nginx-light")
@pytest.mark.parametrize("name", ["nginx-screening", "nginx-tuned-groups", "nginx-whole-file"])
def test_nginx_accepts_every_treatment_of_the_factorial_studies(name: str, tmp_path: Path) -> None:
    study, nginx = read_study(STUDIES / f"{name}.toml"), load_service("nginx", [])
    for treatment in study.treatments:
        rendered = render(nginx, study.vars_of(treatment, "web"), InstanceContext(str(tmp_path), "127.0.0.1", 18080))
        for file, content in rendered.files.items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_bytes(content)
        requested = ["nginx", "-t", "-q", "-p", f"{tmp_path}/", "-c", "nginx.conf"]
        done = subprocess.run(requested, capture_output=True, text=True)
        assert done.returncode == 0 and "[emerg]" not in done.stderr, f"{treatment}: {done.stderr}"
