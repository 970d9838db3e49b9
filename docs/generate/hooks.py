"""Hooks of MkDocs: put tables from code into pages, and add the pictures that pages show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.generate import figures, tables

_PLACE = re.compile(r"^\{\{ (\w+) \}\}$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures, each drawn by the function of its name."""
    for name, draw in figures.FIGURES.items():
        files.append(File.generated(config, f"figures/{name}.svg", content=figures.as_svg(draw)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace each line ``{{ name }}`` by the table of that name; raises KeyError where there is none."""
    return _PLACE.sub(lambda found: tables.TABLES[found[1]](), markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Remove what no reader of an English site loads: maps of scripts, and words of other languages."""
    site = Path(config.site_dir)
    for path in site.rglob("*.map"):
        path.unlink()
    shutil.rmtree(site / "assets/javascripts/lunr", ignore_errors=True)
