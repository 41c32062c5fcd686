"""Validates the manifests of a folder against published schemas (strict: unknown fields are errors), and prints them as JSON.

Arguments: the folder, the versions of Kubernetes. What has no schema there is left to validate.mjs.
"""
import json
import pathlib
import sys

import kubernetes_validate
import yaml

folder, *versions = sys.argv[1:]
documents, problems = [], []
for path in sorted(pathlib.Path(folder).glob("*.yaml")):
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        entry = {"file": path.name, "document": document, "validated": []}
        documents.append(entry)
        for version in versions if "kind" in document else []:
            try:
                entry["validated"].append(kubernetes_validate.validate(document, version, strict=True))
            except kubernetes_validate.ValidationError as error:
                place = ".".join(str(part) for part in error.path)
                problems.append(f"{path.name} ({version}): {place}: {error.message}")
            except kubernetes_validate.SchemaNotFoundError:
                pass
if problems:
    sys.exit("\n".join(problems))
print(json.dumps(documents))
