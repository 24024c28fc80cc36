// Prints what @asyncapi/parser finds in a document: a list of errors and warnings as JSON.
import { readFile } from "node:fs/promises";
import { Parser } from "@asyncapi/parser";

const text = await readFile(process.argv[2], "utf8");
const { diagnostics } = await new Parser().parse(text);
// Severity 2 is information: that there is a newer version of AsyncAPI, which few tools read yet.
const found = diagnostics.filter(({ severity }) => severity < 2);
const problems = found.map(({ code, message, path, severity }) => ({
  code,
  message,
  path: path.join("/"),
  severity,
}));
console.log(JSON.stringify(problems, null, 2));
