// Prints what @asyncapi/parser finds in each document: a list of errors and warnings as JSON, one a line.
import { readFile } from "node:fs/promises";
import { Parser } from "@asyncapi/parser";

for (const file of process.argv.slice(2)) {
  const { diagnostics } = await new Parser().parse(await readFile(file, "utf8"));
  // Severity 2 is information: that there is a newer version of AsyncAPI, which few tools read yet.
  const found = diagnostics.filter(({ severity }) => severity < 2);
  const problems = found.map(({ code, message, path, severity }) => ({
    code,
    message,
    path: path.join("/"),
    severity,
  }));
  console.log(JSON.stringify(problems));
}
