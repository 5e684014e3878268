"""Write codemeta.json from pyproject.toml and CITATION.cff: `python packaging/codemeta.py`; a test says when to."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def codemeta() -> dict[str, Any]:
    """The description of jfstat in the terms of CodeMeta 3.0."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = citation["references"]
    (preprint,) = paper["identifiers"]
    released = citation["date-released"].isoformat()
    return {
        "@context": "https://w3id.org/codemeta/3.0",
        "type": "SoftwareSourceCode",
        "name": project["name"],
        "description": project["description"],
        "version": citation["version"],
        "dateModified": released,
        "datePublished": released,
        "license": f"https://spdx.org/licenses/{project['license']}",
        "author": [{"type": "Organization", "name": one["name"]} for one in citation["authors"]],
        "keywords": project["keywords"],
        "applicationCategory": "Astronomy",
        "developmentStatus": "active",
        "programmingLanguage": {"type": "ComputerLanguage", "name": "Python"},
        "runtimePlatform": f"Python {project['requires-python']}",
        "operatingSystem": ["Linux", "macOS", "Windows"],
        "softwareRequirements": [requirement(line) for line in project["dependencies"]],
        "referencePublication": {
            "type": "ScholarlyArticle",
            "name": paper["title"],
            "author": [
                {"type": "Person", "givenName": one["given-names"], "familyName": one["family-names"]}
                for one in paper["authors"]
            ],
            "isPartOf": {"type": "Periodical", "name": paper["journal"]},
            "datePublished": str(paper["year"]),
            "identifier": preprint["value"],
        },
    }


def requirement(line: str) -> dict[str, str]:
    """A package that jfstat needs, with the versions that will do."""
    one = Requirement(line)
    return {"type": "SoftwareApplication", "name": one.name, "version": str(one.specifier)}


def text() -> str:
    """What codemeta.json holds."""
    return json.dumps(codemeta(), indent=2) + "\n"


if __name__ == "__main__":
    (ROOT / "codemeta.json").write_text(text())
