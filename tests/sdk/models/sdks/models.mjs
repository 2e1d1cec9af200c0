// SDKs of model providers and of MCP, unmodified. BASE is a server of the tests that speaks their APIs, behind a
// sandbox's worker. Prints what each was told, as a line of JSON; tests/system/test_models compares.
import Anthropic from "@anthropic-ai/sdk"
import { GoogleGenAI } from "@google/genai"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import OpenAI from "openai"

const base = process.env.BASE
const SAID = "these are four words"
const tell = (name, value) => console.log(JSON.stringify({ name, ...value }))

async function anthropic() {
    const client = new Anthropic({ apiKey: "none", baseURL: base, maxRetries: 0 })
    const asked = { model: "claude-1", max_tokens: 50, messages: [{ role: "user", content: SAID }] }
    const m = await client.messages.create(asked)
    tell("anthropic", { tokensOut: m.usage.output_tokens, tool: m.content[1].name })
    const s = await client.messages.stream(asked).finalMessage()
    tell("anthropic stream", { tokensOut: s.usage.output_tokens, tool: s.content[1].name })
    try {
        await client.messages.create({ ...asked, max_tokens: 5000 })
    } catch (e) {
        tell("anthropic denied", { status: e.status })
    }
}

async function openai() {
    const client = new OpenAI({ apiKey: "none", baseURL: `${base}/v1`, maxRetries: 0 })
    const asked = { model: "gpt-5", messages: [{ role: "user", content: SAID }] }
    const c = await client.chat.completions.create(asked)
    tell("chat", { tokensOut: c.usage.completion_tokens, tool: c.choices[0].message.tool_calls[0].function.name })
    let usage
    for await (const e of await client.chat.completions.create(
        { ...asked, stream: true, stream_options: { include_usage: true } })) usage = e.usage ?? usage
    tell("chat stream", { tokensOut: usage.completion_tokens })
    const r = await client.responses.create({ model: "gpt-5", input: SAID })
    tell("responses", { tokensOut: r.usage.output_tokens, tool: r.output[1].name })
    for await (const e of await client.responses.create({ model: "gpt-5", input: SAID, stream: true }))
        if (e.type === "response.completed") tell("responses stream", { tokensOut: e.response.usage.output_tokens })
}

async function google() {
    const client = new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl: base } })
    const asked = { model: "gemini-2", contents: SAID, config: { maxOutputTokens: 100 } }
    const g = await client.models.generateContent(asked)
    tell("google", { tokensOut: g.usageMetadata.candidatesTokenCount + g.usageMetadata.thoughtsTokenCount })
    let usage
    for await (const e of await client.models.generateContentStream(asked)) usage = e.usageMetadata
    tell("google stream", { tokensOut: usage.candidatesTokenCount + usage.thoughtsTokenCount })
}

async function mcp() {
    const client = new Client({ name: "test", version: "1" })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`)))
    tell("mcp", { tools: (await client.listTools()).tools.map(t => t.name) })
    const good = await client.callTool({ name: "read_file", arguments: { path: "a" } })
    tell("mcp call", { text: good.content[0].text })
    try {
        await client.callTool({ name: "drop_all", arguments: {} })
    } catch (e) {
        tell("mcp denied", { message: e.message })
    }
    await client.close()
}

for (const run of [anthropic, openai, google, mcp]) await run()
