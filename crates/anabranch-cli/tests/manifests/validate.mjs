// Validates manifests of KEDA and of the Prometheus operator against the schemas of their packages in npm.
// Argument: the folder with node_modules. Standard input: {file, document} objects in an array.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const PACKAGES = { "keda.sh": "keda", "monitoring.coreos.com": "prometheus-operator" };
const home = process.argv[2];
const problems = [];
let count = 0;
for (const { file, document } of JSON.parse(readFileSync(0, "utf8"))) {
  const [group, version] = document.apiVersion.split("/");
  const folder = join(home, "node_modules/@kubernetes-models", PACKAGES[group] ?? group, "_schemas");
  const ending = `${version[0].toUpperCase()}${version.slice(1)}${document.kind}.js`;
  const name = readdirSync(folder).find((name) => name.endsWith(ending) && !name.includes("Cluster"));
  if (!name) {
    problems.push(`${file}: no schema for ${document.kind}`);
    continue;
  }
  const { validate } = await import(pathToFileURL(join(folder, name)));
  count += 1;
  if (!validate(document)) {
    for (const error of validate.errors) problems.push(`${file}: ${error.instancePath} ${error.keyword} ${JSON.stringify(error.params)}`);
  }
}
if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
console.log(count);
