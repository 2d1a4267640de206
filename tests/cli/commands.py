"""How tests run commands."""

import json
import os
import subprocess
import sys

from typer.testing import CliRunner

from isobag.cli.app import app


def run(*args, stdin=None):
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)


def ask(*args, **options):
    """What a command prints as JSON."""
    result = run(*args, "--json", **options)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def start(*args, env=None, **options):
    """Start a command in a process of its own."""
    command = [sys.executable, "-m", "isobag", *map(str, args)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, env={**os.environ, **(env or {})}, **streams)


def finish(process):
    """Exit code, output and errors of a process, which is to write UTF-8."""
    out, err = process.communicate(timeout=600)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def assert_one_sentence(result, *facts, code=2):
    """A failure that says why in one line, and nothing else."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert result.stderr.startswith("Error: ") and "Traceback" not in result.stderr
    for fact in facts:
        assert fact in result.stderr, result.stderr
