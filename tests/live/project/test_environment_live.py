"""pyproject.toml is the single source of dependencies: environment.yml and the locks agree with it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_setup_script_without_lock_file_creates_nothing(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "setup.sh").write_bytes((ROOT / "scripts" / "setup.sh").read_bytes())
    done = subprocess.run(
        ["sh", str(tmp_path / "scripts" / "setup.sh"), "requirements.lock"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2 and f"no lock requirements.lock in {tmp_path}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["scripts"]
