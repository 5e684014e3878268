"""The site's files outside docs/: the README as home page; notebooks, examples and tests that pages link to."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
WHOLE = r'<span class="whole">\g<0></span>'
"""What is not broken at the end of a line; see site.css."""


@event_priority(100)  # before the plugin that makes pages of notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside docs/, under the path that it has in the repository."""
    outside = [
        ROOT / name for name in ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE")
    ]
    outside += [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "tests").rglob("*.py")]
    outside += [path for path in (ROOT / "examples").rglob("*") if path.is_file()]
    for path in outside:
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    files.append(File.generated(config, "index.md", abs_src_path=str(ROOT / "README.md")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links of the repository, which has docs/ as a folder, into links of the site, which has it as its root."""
    return re.sub(r"\]\((\.\./(?=examples|notebooks|tests|[A-Z])|docs/)", "](", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep numbers such as 1e-5, and each word of inline code that fits on a phone, in one piece."""
    parts = re.split(r"(<pre.*?</pre>)", html, flags=re.S)
    parts[::2] = [re.sub(r">[^<]+<", _with_whole_numbers, part) for part in parts[::2]]
    parts[::2] = [re.sub(r"<code>([^<]*)</code>", _with_whole_words, part) for part in parts[::2]]
    return "".join(parts)


def _with_whole_numbers(text: re.Match[str]) -> str:
    return re.sub(r"(?<![\w.-])\d[\d.]*e-\d+(?!\w)", WHOLE, text[0])


def _with_whole_words(code: re.Match[str]) -> str:
    words = re.sub(r"(?<!\S)\S{1,36}(?!\S)", WHOLE, code[1])
    return f"<code>{words}</code>"


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Turn links of notebooks, which reach the page as HTML, into links of the site: to guides and other notebooks."""
    if not page.file.src_uri.endswith(".ipynb"):
        return output
    guides = re.sub(r'href="\.\./docs/([\w/]+)\.md(#[\w-]*)?"', r'href="../\1.html\2"', output)
    return re.sub(r'href="(\w+)\.ipynb"', r'href="\1.html"', guides)
