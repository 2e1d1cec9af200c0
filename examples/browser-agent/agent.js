// Does something in a browser as people do: a model looks at the screen of a sandbox, clicks and types. The last
// screen is saved as screen.png of the current directory.
//
//   node agent.js ADDRESS "TASK"
//
// The sandbox is of the template `desktop`. E2B_API_KEY and ANTHROPIC_API_KEY must be set; E2B_API_URL,
// E2B_SANDBOX_URL, ANTHROPIC_BASE_URL, MODEL and SETTLE_MS may be.
import { writeFile } from "node:fs/promises";
import Anthropic from "@anthropic-ai/sdk";
import { Sandbox } from "@e2b/desktop";

const MODEL = process.env.MODEL ?? "claude-sonnet-5-5";
const TURNS_MAX = 50;
const [WIDTH, HEIGHT] = [1024, 768];
const SETTLE_MS = Number(process.env.SETTLE_MS ?? 2_000); // after an action, until the screen shows what it did

const system =
  `You use a desktop with a browser. The screen has ${WIDTH} times ${HEIGHT} pixels. ` +
  "After each action you see it.";

function tool(name, description, properties) {
  return { name, description, input_schema: { type: "object", properties, required: Object.keys(properties) } };
}

const text = { type: "string" };
const number = { type: "integer" };
const tools = [
  tool("look", "Shows the screen.", {}),
  tool("click", "Clicks with the left button.", { x: number, y: number }),
  tool("write", "Types a text where the cursor is.", { text }),
  tool("press", "Presses keys together, such as ctrl+l or enter.", { keys: text }),
];

const actions = {
  look: async () => {},
  click: (desktop, { x, y }) => desktop.leftClick(x, y),
  write: (desktop, input) => desktop.write(input.text),
  press: (desktop, { keys }) => desktop.press(keys.split("+")),
};

async function use(desktop, call) {
  console.error(`${call.name} ${JSON.stringify(call.input)}`);
  await actions[call.name](desktop, call.input);
  await desktop.wait(SETTLE_MS);
  const data = Buffer.from(await desktop.screenshot()).toString("base64");
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data } };
  return { type: "tool_result", tool_use_id: call.id, content: [image] };
}

async function work(client, desktop, task) {
  const messages = [{ role: "user", content: task }];
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const answer = await client.messages.create({ model: MODEL, max_tokens: 4096, system, tools, messages });
    messages.push({ role: "assistant", content: answer.content });
    if (answer.stop_reason !== "tool_use") {
      return answer.content.filter((block) => block.type === "text").map((block) => block.text).join("");
    }
    const results = [];
    for (const call of answer.content.filter((block) => block.type === "tool_use")) {
      results.push(await use(desktop, call));
    }
    messages.push({ role: "user", content: results });
  }
  throw new Error(`not done after ${TURNS_MAX} turns`);
}

const [address, task] = process.argv.slice(2);
if (!task) {
  console.error('usage: node agent.js ADDRESS "TASK"');
  process.exit(2);
}
const desktop = await Sandbox.create({ resolution: [WIDTH, HEIGHT], timeoutMs: 900_000, requestTimeoutMs: 300_000 });
try {
  await desktop.open(address);
  console.log(await work(new Anthropic(), desktop, task));
  await writeFile("screen.png", await desktop.screenshot());
} finally {
  await desktop.kill();
}
