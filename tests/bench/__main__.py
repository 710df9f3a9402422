"""``python -m tests.bench [NAME…] [--json FILE]``: print the measured figures beside their bars."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tests.bench import waiting
from tests.bench.rows import machine, show

BENCHES = {"check": waiting.check, "imports": waiting.imports}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHES)))
@click.option(
    "--json", "file", type=click.Path(path_type=Path), help="Also write the figures here."
)
def main(names: tuple[str, ...], file: Path | None) -> None:
    """Run the named benches, or all."""
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    results = {name: list(BENCHES[name]()) for name in names or BENCHES}
    for name, rows in results.items():
        show(name, rows)
    if file:
        figures = {name: [row.as_json() for row in rows] for name, rows in results.items()}
        file.write_text(json.dumps({"machine": about, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
