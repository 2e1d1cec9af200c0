// Answers a question about a table. A model writes Python for it; a sandbox with the code interpreter runs that. What
// it draws is saved as chart-1.png, chart-2.png, ... of the current directory.
//
//   node analyst.js TABLE.csv "QUESTION"
//
// E2B_API_KEY and ANTHROPIC_API_KEY must be set; E2B_API_URL, E2B_SANDBOX_URL, ANTHROPIC_BASE_URL and MODEL may be.
import { readFile, writeFile } from "node:fs/promises";
import Anthropic from "@anthropic-ai/sdk";
import { Sandbox } from "@e2b/code-interpreter";

const MODEL = process.env.MODEL ?? "claude-sonnet-5-5";
const TURNS_MAX = 20;
const RESULT_MAX = 20_000; // characters of a cell's result
const TABLE = "/tmp/table.csv";

const system = `The table is ${TABLE}. Look at it with pandas before you answer. Draw charts with matplotlib.`;
const tools = [
  {
    name: "python",
    description: "Runs a cell of Python and returns its output. Variables stay until the next one.",
    input_schema: { type: "object", properties: { code: { type: "string" } }, required: ["code"] },
  },
];

let charts = 0;

async function saveCharts(results) {
  for (const result of results.filter((r) => r.png)) {
    await writeFile(`chart-${++charts}.png`, Buffer.from(result.png, "base64"));
    console.error(`chart-${charts}.png`);
  }
}

async function run(sandbox, call) {
  const cell = await sandbox.runCode(call.input.code);
  await saveCharts(cell.results);
  const text = [...cell.logs.stdout, ...cell.logs.stderr, cell.text ?? "", cell.error?.traceback ?? ""].join("");
  const content = text.slice(0, RESULT_MAX) || "no output";
  return { type: "tool_result", tool_use_id: call.id, content, is_error: Boolean(cell.error) };
}

async function converse(client, sandbox, question) {
  const messages = [{ role: "user", content: question }];
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const answer = await client.messages.create({ model: MODEL, max_tokens: 4096, system, tools, messages });
    messages.push({ role: "assistant", content: answer.content });
    if (answer.stop_reason !== "tool_use") {
      return answer.content.filter((block) => block.type === "text").map((block) => block.text).join("");
    }
    const results = [];
    for (const call of answer.content.filter((block) => block.type === "tool_use")) {
      results.push(await run(sandbox, call)); // one after the other: cells share variables
    }
    messages.push({ role: "user", content: results });
  }
  throw new Error(`no answer after ${TURNS_MAX} turns`);
}

const [table, question] = process.argv.slice(2);
if (!question) {
  console.error('usage: node analyst.js TABLE.csv "QUESTION"');
  process.exit(2);
}
const sandbox = await Sandbox.create();
try {
  await sandbox.files.write(TABLE, await readFile(table, "utf8"));
  console.log(await converse(new Anthropic(), sandbox, question));
} finally {
  await sandbox.kill();
}
