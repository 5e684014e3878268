"""Write the recipe to submit to conda-forge: that of this folder, with a released source distribution as its source.

    python packaging/conda/for_conda_forge.py dist/jfstat-0.1.0.tar.gz ADDRESS > recipe.yaml

ADDRESS is where the file can be fetched. What the recipe still needs then are the project's home page under `about` and
the maintainers, as `extra: {recipe-maintainers: [...]}`.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

CHECKOUT = "source:\n  path: ../..\n"


def recipe(sdist: Path, address: str) -> str:
    """The recipe's text, without the comment that speaks of the checkout."""
    text = (Path(__file__).parent / "recipe.yaml").read_text()
    text = text[text.index("schema_version") :]
    if text.count(CHECKOUT) != 1:
        raise ValueError(f"recipe.yaml does not hold {CHECKOUT!r} once: put the new source into this program, too")
    checksum = hashlib.sha256(sdist.read_bytes()).hexdigest()
    return text.replace(CHECKOUT, f"source:\n  url: {address}\n  sha256: {checksum}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sdist", type=Path)
    parser.add_argument("address")
    arguments = parser.parse_args()
    print(recipe(arguments.sdist, arguments.address), end="")
