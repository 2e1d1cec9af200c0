// A creation with `mcp`: the official clients start the template's gateway (here mcp_gateway.py), and MCP's own client
// uses it over HTTPS by its host name. Natively; a login file of the sandbox's home directory puts the gateway into PATH.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox as CodeSandbox } from '@e2b/code-interpreter'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { CommandExitError, Sandbox, SandboxError, Template } from 'e2b'
import { startFront } from './front.mjs'
import { atEnd, create, finish, origin, test, until } from './harness.mjs'

const domain = await startFront(origin)
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sdk-mcp-'))
atEnd(async () => fs.rmSync(dir, { recursive: true }))
fs.copyFileSync(new URL('./mcp_gateway.py', import.meta.url), path.join(dir, 'mcp-gateway'))
fs.chmodSync(path.join(dir, 'mcp-gateway'), 0o755)
fs.writeFileSync(path.join(dir, '.bash_profile'), `PATH=${dir}:$PATH\n`)
// The gateway's file is this machine's: where one is already, nothing is tried with it.
const tokens = '/etc/mcp-gateway'
const token = !fs.existsSync(tokens)
if (token) {
  fs.mkdirSync(tokens)
  atEnd(async () => fs.rmSync(tokens, { recursive: true }))
}

const withGateway = (mcp, options = {}, Class = Sandbox) =>
  create({ domain, template: 'base', mcp, ...options, envs: { HOME: dir } }, Class)

async function connect(url, bearer) {
  const client = new Client({ name: 'test', version: '1' })
  const seen = []
  client.setNotificationHandler(ToolListChangedNotificationSchema, (n) => { seen.push(n.method) })
  await client.connect(new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { Authorization: `Bearer ${bearer}` } },
  }))
  return { client, seen }
}

async function use(sandbox, expected) {
  const { client, seen } = await connect(sandbox.getMcpUrl(), await sandbox.getMcpToken())
  assert.deepEqual((await client.listTools()).tools.map((t) => t.name), ['config', 'count'])
  const [{ text }] = (await client.callTool({ name: 'config' })).content
  assert.deepEqual(JSON.parse(text), expected)
  const steps = []
  const counted = await client.callTool({ name: 'count' }, undefined, { onprogress: (p) => { steps.push(p.progress) } })
  assert.equal(counted.content[0].text, 'counted')
  assert.deepEqual(steps, [1, 2, 3])
  await until('what the server says by itself', () => seen.length)
  await client.close()
}

test('the gateway of the template', async () => {
  const pid = path.join(dir, 'pid')
  const mcp = { pid, token, 'github/a/b': { runCmd: "it's \"quoted\" $HOME\n", envs: { A: 'ü' } } }
  const sandbox = await withGateway(mcp)
  assert.equal(sandbox.getMcpUrl(), `https://50005-${sandbox.sandboxId}.${domain}/mcp`)
  await use(sandbox, mcp)
  await assert.rejects(connect(sandbox.getMcpUrl(), 'wrong'), (e) => e.code === 401)
  if (token) await use(await Sandbox.connect(sandbox.sandboxId, { domain }), mcp)
  await sandbox.commands.run(`kill -9 $(cat ${pid})`)
  const gone = await until('its end', async () => {
    const answer = await fetch(sandbox.getMcpUrl(), { method: 'POST', body: '{}' })
    return answer.status === 502 && answer.json()
  })
  assert.equal(gone.message, 'The sandbox is running but port is not open')
  await sandbox.kill()
})

test('only those who have the traffic token reach it', async () => {
  const sandbox = await withGateway({}, { network: { allowPublicTraffic: false } })
  await assert.rejects(connect(sandbox.getMcpUrl(), await sandbox.getMcpToken()), (e) => e.code === 403)
  await sandbox.kill()
})

test("the code interpreter's class", async () => {
  const sandbox = await withGateway({}, {}, CodeSandbox)
  await use(sandbox, {})
  await sandbox.kill()
})

// What each of them rejects with; none leaves a sandbox behind.
const refused = async (options, check) => {
  const metadata = { mcp: `${process.pid}-${Math.random()}` }
  await assert.rejects(create({ domain, metadata, ...options }), check)
  assert.deepEqual(await Sandbox.list({ query: { metadata } }).nextItems(), [])
}

test('a gateway that does not start, and a template without one', async () => {
  await refused({ template: 'base', mcp: { fail: 'no server of this name' }, envs: { HOME: dir } },
    (e) => e instanceof SandboxError && e.message === 'Failed to start MCP gateway: no server of this name\n')
  await refused({ template: 'base', mcp: {} },
    (e) => !(e instanceof CommandExitError) && /^Failed to start MCP gateway: .*mcp-gateway: command not found\n$/.test(e.message))
})

test('the template that is taken if none is named', async () => {
  const other = { apiKey: process.env.E2B_API_KEY_OTHER }
  await refused({ mcp: {} }, /mcp-gateway/)
  const log = { onBuildLogs: () => {} }
  const info = await Template.build(Template().fromTemplate('base').setStartCmd('log x', 'true'), 'mcp-gateway', { ...other, ...log })
  const sandbox = await withGateway({}, { ...other, template: undefined })
  assert.equal((await sandbox.getInfo()).templateId, info.templateId)
  await use(sandbox, {})
  await sandbox.kill()
})

await finish('mcp')
