// An agent with one tool, a shell. It reads its prompt from standard input and writes what the model says to standard
// output as it comes. What its tool does goes to standard error.
//
// ANTHROPIC_API_KEY must be set; ANTHROPIC_BASE_URL and MODEL may be.
import { execFile } from "node:child_process";
import { text } from "node:stream/consumers";
import Anthropic from "@anthropic-ai/sdk";

const MODEL = process.env.MODEL ?? "claude-sonnet-5-5";
const TURNS_MAX = 20;
const RESULT_MAX = 20_000; // characters of a tool's result
const COMMAND_MS = 60_000;

const tools = [
  {
    name: "shell",
    description: "Runs a command of bash in this machine and returns what it prints and its exit status.",
    input_schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
  },
];

function shell({ command }) {
  return new Promise((resolve) => {
    const options = { timeout: COMMAND_MS, maxBuffer: 4 << 20 };
    execFile("bash", ["-c", String(command)], options, (error, stdout, stderr) => {
      const status = error ? (error.code ?? error.signal) : 0;
      resolve(`${stdout}${stderr}`.slice(0, RESULT_MAX) + `\nexit status: ${status}`);
    });
  });
}

async function use(tool) {
  console.error(`$ ${tool.input.command}`);
  return { type: "tool_result", tool_use_id: tool.id, content: await shell(tool.input) };
}

const client = new Anthropic();
const messages = [{ role: "user", content: await text(process.stdin) }];

for (let turn = 0; turn < TURNS_MAX; turn++) {
  const stream = client.messages.stream({ model: MODEL, max_tokens: 4096, tools, messages });
  stream.on("text", (piece) => process.stdout.write(piece));
  const answer = await stream.finalMessage();
  messages.push({ role: "assistant", content: answer.content });
  process.stdout.write("\n");
  if (answer.stop_reason !== "tool_use") {
    process.exit(0);
  }
  const calls = answer.content.filter((block) => block.type === "tool_use");
  messages.push({ role: "user", content: await Promise.all(calls.map(use)) });
}
console.error(`gave up after ${TURNS_MAX} turns`);
process.exit(1);
