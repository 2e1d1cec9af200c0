// A creation with `mcp`: the official clients start the template's gateway (guest/mcp), and MCP's own client uses it over
// HTTPS by its host name. In microVMs the template is `mcp-gateway`. Natively a login file of the sandbox's home directory
// puts the gateway into PATH, and what it writes is below that directory, too.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox as CodeSandbox } from '@e2b/code-interpreter'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CommandExitError, Sandbox, SandboxError, Template } from 'e2b'
import { startFront } from './front.mjs'
import { atEnd, create, finish, native, origin, test, testNatively, until } from './harness.mjs'

const domain = await startFront(origin)
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sdk-mcp-'))
atEnd(async () => fs.rmSync(dir, { recursive: true }))
fs.writeFileSync(path.join(dir, '.bash_profile'), `PATH=${process.env.SDK_TEST_MCP}:$PATH\n`)
const program = fs.readFileSync(new URL('./mcp_server.py', import.meta.url), 'utf8')
const server = (name) => ({ command: 'python3', args: ['-c', program, name], env: { V: 'ü "$V"' } })

// What is at https://github.com/ for the git of these sandboxes.
const repository = path.join(dir, 'github/owner/tools')
fs.mkdirSync(repository, { recursive: true })
fs.writeFileSync(path.join(repository, 'server.py'), program)
for (const words of ['init -q', 'add .', '-c user.name=t -c user.email=t@example.com commit -qm t'])
  execFileSync('git', ['-C', repository, ...words.split(' ')])
const envs = !native ? {} : {
  HOME: dir, MCP_GATEWAY_ROOT: path.join(dir, 'root'), GIT_CONFIG_COUNT: '1', GIT_CONFIG_VALUE_0: 'https://github.com/',
  GIT_CONFIG_KEY_0: `url.file://${dir}/github/.insteadOf`,
}

const withGateway = (mcp, options = {}, Class = Sandbox) =>
  create({ domain, ...(native && { template: 'base' }), mcp, ...options, envs }, Class)

async function connect(url, bearer) {
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { Authorization: `Bearer ${bearer}` } },
  }))
  return client
}

const clientOf = async (sandbox) => connect(sandbox.getMcpUrl(), await sandbox.getMcpToken())
const names = async (client) => (await client.listTools()).tools.map((t) => t.name)
const call = async (client, name) => (await client.callTool({ name })).content[0].text

async function count(client, name) {
  const steps = []
  const counted = await client.callTool({ name }, undefined, { onprogress: (p) => { steps.push(p.progress) } })
  assert.deepEqual([counted.content[0].text, steps], ['counted', [1, 2, 3]])
}

test('servers that are programs', async () => {
  const sandbox = await withGateway({ one: server('one'), two: server('two') })
  assert.equal(sandbox.getMcpUrl(), `https://50005-${sandbox.sandboxId}.${domain}/mcp`)
  const client = await clientOf(sandbox)
  assert.deepEqual(await names(client), ['count', 'about', 'one-end', 'two_count', 'two_about', 'two-end'])
  for (const [name, tool] of [['one', 'about'], ['two', 'two_about']]) {
    const { there, ...about } = JSON.parse(await call(client, tool))
    assert.deepEqual(about, { name, cwd: '/', V: 'ü "$V"', token: false })
  }
  await Promise.all([count(client, 'count'), count(client, 'two_count'), count(client, 'count')])
  assert.deepEqual((await client.listResources()).resources.map((r) => r.uri), ['test://one', 'test://two'])
  assert.equal((await client.readResource({ uri: 'test://two' })).contents[0].text, 'of two')
  await assert.rejects(client.callTool({ name: 'three' }), /no server has three/)
  await assert.rejects(client.setLoggingLevel('debug').catch((e) => { throw e.code }), (e) => e === -32601)
  await assert.rejects(client.callTool({ name: 'one-end' }), /one: the server has ended/)
  assert.match(await call(client, 'two_about'), /"two"/)
  await client.close()
  await sandbox.kill()
})

testNatively('a server of a repository; the token, and who has none', async () => {
  const mcp = { 'github/owner/tools': { installCmd: 'echo >installed', runCmd: 'exec python3 server.py "$N"', envs: { N: 'r' } } }
  const sandbox = await withGateway(mcp)
  const client = await clientOf(sandbox)
  const about = JSON.parse(await call(client, 'about'))
  assert.equal(about.cwd, `${dir}/root/opt/mcp-gateway/github/owner/tools`)
  assert.deepEqual([about.name, about.there], ['r', ['.git', 'installed', 'server.py']])
  await assert.rejects(connect(sandbox.getMcpUrl(), 'wrong'), (e) => e.code === 401)
  assert.equal(fs.readFileSync(`${dir}/root/etc/mcp-gateway/.token`, 'utf8'), await sandbox.getMcpToken())
  await sandbox.commands.run('kill -9 $(pgrep -f "[m]cp-gateway --config")')
  await until('its end', async () => { // one that it has just accepted is cut, which is 502 too
    const answer = await fetch(sandbox.getMcpUrl(), { method: 'POST', body: '{}' })
    return answer.status === 502 && (await answer.json()).message === 'The sandbox is running but port is not open'
  })
  await sandbox.kill()
})

test('a client that connects later has the token of the file', async () => {
  const directory = '/etc/mcp-gateway' // natively this machine's
  if (native && fs.existsSync(directory)) return `there is ${directory}`
  const sandbox = await withGateway({ one: server('one') })
  if (native) fs.symlinkSync(`${dir}/root${directory}`, directory)
  try {
    const again = await Sandbox.connect(sandbox.sandboxId, { domain })
    assert.equal(await again.getMcpToken(), await sandbox.getMcpToken())
  } finally {
    if (native) fs.rmSync(directory)
  }
  await sandbox.kill()
})

test('only those who have the traffic token reach it', async () => {
  const sandbox = await withGateway({}, { network: { allowPublicTraffic: false } })
  await assert.rejects(clientOf(sandbox), (e) => e.code === 403)
  await sandbox.kill()
})

test("the code interpreter's class", async () => {
  const sandbox = await withGateway({ one: server('one') }, {}, CodeSandbox)
  assert.equal((await names(await clientOf(sandbox))).length, 3)
  await sandbox.kill()
})

// What a creation rejects with; it leaves no sandbox behind.
const refused = async (options, check) => {
  const metadata = { mcp: `${process.pid}-${Math.random()}` }
  await assert.rejects(create({ domain, metadata, ...options }), check)
  assert.deepEqual(await Sandbox.list({ query: { metadata } }).nextItems(), [])
}

testNatively('a gateway that does not start, and a template without one', async () => {
  for (const [mcp, why] of [
    [{ exa: { apiKey: 'k' } }, /^exa: this gateway has no catalog/],
    [{ 'github/owner/tools/..': { runCmd: 'true' } }, /expected github\/OWNER\/NAME/],
    [{ 'github/owner/nothing': { runCmd: 'true' } }, /^github\/owner\/nothing: git clone https:.*: status 128: /],
    [{ 'github/owner/tools': { installCmd: 'echo no luck; exit 3', runCmd: 'true' } }, /status 3: no luck/],
    [{ one: server('one'), two: { command: 'false' } }, /^two: the server has ended/],
    [{ one: { command: '/does/not/exist' } }, /^one: .*No such file/],
    [{ one: { command: 5 } }, /^one: command is missing or of a wrong kind/],
    [[1], /expected an object/]]) {
    const begin = 'Failed to start MCP gateway: mcp-gateway: '
    await refused({ template: 'base', mcp, envs }, (e) => Array.isArray(mcp) ? /mcp must be an object/.test(e.message)
      : e instanceof SandboxError && e.message.startsWith(begin) && why.test(e.message.slice(begin.length)))
  }
  await refused({ template: 'base', mcp: {} },
    (e) => !(e instanceof CommandExitError) && /^Failed to start MCP gateway: .*mcp-gateway: command not found\n$/.test(e.message))
})

testNatively('the template that is taken if none is named', async () => {
  const other = { apiKey: process.env.E2B_API_KEY_OTHER }
  await refused({ mcp: {} }, /mcp-gateway/)
  const log = { onBuildLogs: () => {} }
  const info = await Template.build(Template().fromTemplate('base').setStartCmd('log x', 'true'), 'mcp-gateway', { ...other, ...log })
  const sandbox = await withGateway({ one: server('one') }, { ...other, template: undefined })
  assert.equal((await sandbox.getInfo()).templateId, info.templateId)
  assert.equal((await names(await clientOf(sandbox))).length, 3)
  await sandbox.kill()
})

await finish('mcp')
