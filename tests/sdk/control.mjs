// The control API through the official SDK: rows of the protocol document's method table.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import {
  AuthenticationError, NotFoundError, Sandbox, SandboxError, Secret, SecretError, SecretNotFoundError, Template,
} from 'e2b'
import { all, create, finish, native, test, testNatively, until } from './harness.mjs'

const other = process.env.E2B_API_KEY_OTHER

test('create with defaults', async () => {
  const sandbox = await create({ timeoutMs: undefined })
  assert.match(sandbox.sandboxId, /^i[a-z0-9]{19}$/)
  const info = await sandbox.getInfo()
  assert.equal(info.sandboxId, sandbox.sandboxId)
  assert.match(info.templateId, /^[a-z0-9]{20}$/)
  assert.equal(info.name, 'base')
  assert.equal(info.state, 'running')
  assert.ok(info.cpuCount >= 1 && info.memoryMB >= 128)
  const life = info.endAt - info.startedAt
  assert.ok(Math.abs(life - 300_000) < 100, `default life is ${life} ms`)
  assert.equal(await sandbox.kill(), true)
})

test('create with metadata, environment and timeout', async () => {
  const sandbox = await create({
    metadata: { purpose: 'test', 'with blank': 'a&b=c%20+ü' },
    envs: { ONE: '1', EMPTY: '' },
    timeoutMs: 61_500,
  })
  const info = await sandbox.getInfo()
  assert.deepEqual(info.metadata, { purpose: 'test', 'with blank': 'a&b=c%20+ü' })
  assert.ok(Math.abs(info.endAt - info.startedAt - 62_000) < 100)
  await sandbox.kill()
})

test('create of an unknown template', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), (e) => /no-such-template/.test(e.message))
})

test('create with a bad timeout', async () => {
  await assert.rejects(create({ timeoutMs: 1000 * 3600 * 48 }), SandboxError)
})

test('network, and updateNetwork', async () => {
  const all = '0.0.0.0/0'
  const sandbox = await create({
    allowInternetAccess: false,
    network: {
      allowOut: ['example.com', '*.example.org', '192.0.2.0/24'],
      denyOut: ({ allTraffic }) => [allTraffic],
      allowPublicTraffic: true,
      maskRequestHost: 'masked:${PORT}',
    },
  })
  const about = async () => {
    const { network, allowInternetAccess } = await sandbox.getInfo()
    return JSON.parse(JSON.stringify({ network, allowInternetAccess })) // without what is undefined
  }
  assert.deepEqual(await about(), {
    allowInternetAccess: false,
    network: {
      allowOut: ['example.com', '*.example.org', '192.0.2.0/24'], denyOut: [all],
      allowPublicTraffic: true, maskRequestHost: 'masked:${PORT}',
    },
  })
  await sandbox.updateNetwork({ denyOut: ['198.51.100.0/24'], allowInternetAccess: true })
  const kept = { allowPublicTraffic: true, maskRequestHost: 'masked:${PORT}' }
  assert.deepEqual(await about(), {
    allowInternetAccess: true, network: { denyOut: ['198.51.100.0/24'], ...kept },
  })
  await Sandbox.updateNetwork(sandbox.sandboxId, {})
  assert.deepEqual((await about()).network, kept)
  for (const [network, text] of [
    [{ allowOut: ['example.com'] }, /you must include 'ALL_TRAFFIC' in deny out/], [{ denyOut: ['example.com'] }, /invalid denied CIDR example.com/],
    [{ allowOut: ['10.0.0.1'] }, /private/],
  ]) {
    await assert.rejects(sandbox.updateNetwork(network), text)
    await assert.rejects(Sandbox.create({ network }), text)
  }
  await sandbox.kill()
  await assert.rejects(sandbox.updateNetwork({}), NotFoundError)
})

test('ports that speak TLS', async () => {
  const sandbox = await create({ network: { httpsPorts: [8443] } })
  const network = async () => JSON.parse(JSON.stringify((await sandbox.getInfo()).network))
  assert.deepEqual(await network(), { httpsPorts: [8443] })
  await sandbox.updateNetwork({})
  assert.deepEqual(await network(), { httpsPorts: [8443] })
  await assert.rejects(Sandbox.create({ network: { httpsPorts: [49983] } }), /httpsPorts\[0\]/)
  await sandbox.kill()
})

testNatively('a proxy', async () => {
  const proxy = { address: 'proxy.example.com:1080', username: 'me' }
  const sandbox = await create({ network: { egressProxy: { ...proxy, password: 'hidden-word' } } })
  const shown = async () => JSON.parse(JSON.stringify((await sandbox.getInfo()).network.egressProxy ?? null))
  assert.deepEqual(await shown(), proxy)
  await sandbox.updateNetwork({ egressProxy: { address: '192.0.2.1:1080' } })
  assert.deepEqual(await shown(), { address: '192.0.2.1:1080' })
  await sandbox.updateNetwork({})
  assert.equal(await shown(), null)
  for (const [egressProxy, text] of [
    [{ address: 'x' }, /egressProxy\.address must be HOST:PORT/], [{ address: '127.0.0.1:1080' }, /private and reserved/],
    [{ ...proxy, username: undefined, password: 'p' }, /password needs a username/],
  ]) {
    await assert.rejects(sandbox.updateNetwork({ egressProxy }), text)
    await assert.rejects(Sandbox.create({ network: { egressProxy } }), text)
  }
  await sandbox.kill()
})

testNatively('secrets', async () => {
  const name = `Secret-${randomUUID()}`
  const made = await Secret.create(name, 'first', { metadata: { team: 'x' } })
  assert.match(made.secretId, /^sec_/)
  assert.deepEqual([made.name, made.version, made.metadata], [name.toLowerCase(), 1, { team: 'x' }])
  assert.equal(made.createdAt.getTime(), made.updatedAt.getTime())
  await assert.rejects(Secret.create(name, 'again'), (e) => e instanceof SecretError && /there is a secret/.test(e.message))
  const changed = await Secret.update(made.secretId, 'second')
  assert.deepEqual([changed.version, changed.metadata], [2, { team: 'x' }])
  assert.ok(changed.updatedAt > made.updatedAt)
  assert.deepEqual((await Secret.update(name, 'third', { metadata: {} })).metadata, {})
  assert.equal((await Secret.getInfo(name)).version, 3)
  assert.equal(await Secret.exists(name), true)
  const others = await Promise.all([0, 1, 2].map((n) => Secret.create(`${name}-${n}`, 'v')))
  const listed = await all(Secret.list({ limit: 2 }))
  assert.deepEqual(listed.map((s) => s.name), [made, ...others].map((s) => s.name).sort())
  assert.ok(!JSON.stringify(listed).includes('third'), 'values are never told')
  assert.equal(await Secret.exists(name, { apiKey: other }), false)
  assert.equal(await Secret.destroy(name, { apiKey: other }), false)
  for (const one of [made, ...others]) assert.equal(await Secret.destroy(one.name), true)
  assert.equal(await Secret.destroy(name), false)
  await assert.rejects(Secret.update(name, 'x'), SecretNotFoundError)
  await assert.rejects(Secret.getInfo(made.secretId), SecretNotFoundError)
  await assert.rejects(Secret.create('a.b', 'x'), /letters, digits/)
  await assert.rejects(Secret.create(name, 'two\nlines'), /ends of lines/)
})

test('tokens of a sandbox', async () => {
  const iam = { tokens: { aws: Secret.iamToken({ audience: 'sts.example.com', tokenType: 'JWT-SVID' }) } }
  const rules = { 'api.example.com': [{ transform: ({ iam }) => ({ headers: { Authorization: `Bearer ${iam.tokens.aws}` } }) }] }
  const sandbox = await create({ iam, network: { rules } })
  const { network } = await sandbox.getInfo()
  assert.deepEqual(network.rules, {
    'api.example.com': [{ transform: { headers: { Authorization: 'Bearer ${e2b.identity.tokens.aws}' } } }],
  })
  await assert.rejects(create({ iam: { tokens: { ['a'.repeat(65)]: iam.tokens.aws } } }), /iam\.tokens/)
  await sandbox.kill()
})

test('rules of a network', async () => {
  const rules = { 'api.example.com': [{ transform: { headers: { Authorization: 'Bearer ${e2b.secrets.openai}' } } }] }
  const sandbox = await create({ network: { rules } })
  const network = async () => JSON.parse(JSON.stringify((await sandbox.getInfo()).network))
  assert.deepEqual((await network()).rules, rules)
  const others = { '*.example.org': [{ transform: { headers: { 'X-Key': 'plain' } } }] }
  await sandbox.updateNetwork({ rules: others })
  assert.deepEqual((await network()).rules, others)
  for (const [bad, text] of [
    [{ '*': [] }, /rules\['\*'\]/], [{ 'x.com': [{ transform: { headers: { A: '${e2b.secrets.' } } }] }, /does not end/],
    [{ 'x.com': [{ transform: { headers: { Host: 'y.com' } } }] }, /cannot be set/],
  ]) {
    await assert.rejects(sandbox.updateNetwork({ rules: bad }), text)
    await assert.rejects(Sandbox.create({ network: { rules: bad } }), text)
  }
  await sandbox.updateNetwork({})
  assert.equal((await network()).rules, undefined)
  await sandbox.kill()
})

test('wrong key', async () => {
  const apiKey = 'e2b_' + '0'.repeat(40)
  await assert.rejects(Sandbox.create({ apiKey }), AuthenticationError)
  await assert.rejects(all(Sandbox.list({ apiKey })), AuthenticationError)
})

test('kill, and kill again', async () => {
  const sandbox = await create()
  assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
  assert.equal(await sandbox.kill(), false)
  await assert.rejects(Sandbox.getInfo(sandbox.sandboxId), /not found/i)
})

test('setTimeout lengthens and shortens', async () => {
  const sandbox = await create({ timeoutMs: 60_000 })
  const end = async () => +(await sandbox.getInfo()).endAt
  const first = await end()
  await sandbox.setTimeout(120_000)
  const later = await end()
  assert.ok(later >= first + 60_000, `${later - first}`)
  await Sandbox.setTimeout(sandbox.sandboxId, 30_500)
  assert.ok(await end() >= first - 29_000 && await end() < later, 'rounded up to 31 s, from now on')
  await sandbox.kill()
  await assert.rejects(sandbox.setTimeout(10_000), NotFoundError)
})

test('a sandbox ends at its deadline', async () => {
  const sandbox = await create()
  await sandbox.setTimeout(1000)
  await until('its end', () => sandbox.getInfo().then(() => false, (e) => e instanceof NotFoundError))
  assert.equal(await sandbox.kill(), false)
  assert.equal(await sandbox.isRunning(), false)
})

test('connect keeps the token and extends only', async () => {
  const sandbox = await create({ timeoutMs: 100_000 })
  const before = await sandbox.getInfo()
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10_000 })
  assert.equal(again.sandboxId, sandbox.sandboxId)
  assert.equal(again.envdAccessToken, sandbox.envdAccessToken)
  assert.equal(+(await again.getInfo()).endAt, +before.endAt)
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 200_000 })
  assert.ok((await again.getInfo()).endAt > before.endAt)
  await sandbox.kill()
  await assert.rejects(Sandbox.connect(sandbox.sandboxId), /not found/i)
})

test('list: filters, order, pages', async () => {
  const run = `r${Date.now()}`
  const ids = []
  for (let i = 0; i < 5; i++)
    ids.push((await create({ metadata: { run, n: `${i}`, 'a b': 'c&d' } })).sandboxId)
  const mine = (query, more = {}) => all(Sandbox.list({ query: { metadata: { run, ...query } }, ...more }))

  assert.deepEqual((await mine({})).map((s) => s.sandboxId), [...ids].reverse())
  assert.deepEqual((await mine({}, { order: 'asc' })).map((s) => s.sandboxId).sort(), [...ids].sort())
  assert.deepEqual((await mine({}, { limit: 2 })).map((s) => s.sandboxId), [...ids].reverse())
  assert.deepEqual((await mine({ n: '3' })).map((s) => s.sandboxId), [ids[3]])
  assert.equal((await mine({ 'a b': 'c&d' })).length, 5)
  assert.equal((await mine({ 'a b': 'c' })).length, 0)
  const state = (s) => all(Sandbox.list({ query: { metadata: { run }, state: s } }))
  assert.equal((await state(['running'])).length, 5)
  assert.equal((await state(['paused'])).length, 0)
  assert.equal((await state(['running', 'paused'])).length, 5)
  const one = (await mine({ n: '0' }))[0]
  assert.equal(one.state, 'running')
  assert.equal(one.metadata.n, '0')
  assert.ok(one.startedAt instanceof Date && one.endAt > one.startedAt)
  await Promise.all(ids.map((id) => Sandbox.kill(id)))
  assert.equal((await mine({})).length, 0)
})

test('getMetrics', async () => {
  const sandbox = await create()
  let metrics
  await until('a sample', async () => (metrics = await sandbox.getMetrics()).length)
  const m = metrics[0]
  assert.ok(m.timestamp instanceof Date)
  assert.ok(m.cpuCount >= 1 && m.cpuUsedPct >= 0)
  assert.ok(m.memTotal > 0 && m.memUsed > 0 && m.memUsed <= m.memTotal)
  assert.ok(m.diskTotal > 0 && m.diskUsed > 0)
  const none = await sandbox.getMetrics({ start: new Date(0), end: new Date(1000) })
  assert.deepEqual(none, [])
  await sandbox.kill()
})

test('another key sees nothing', async () => {
  const sandbox = await create({ metadata: { secret: 'yes' } })
  const apiKey = other
  await assert.rejects(Sandbox.getInfo(sandbox.sandboxId, { apiKey }), /not found/i)
  await assert.rejects(Sandbox.connect(sandbox.sandboxId, { apiKey }), /not found/i)
  await assert.rejects(Sandbox.setTimeout(sandbox.sandboxId, 1000, { apiKey }), /not found/i)
  assert.equal(await Sandbox.kill(sandbox.sandboxId, { apiKey }), false)
  assert.deepEqual(await all(Sandbox.list({ apiKey })), [])
  assert.equal((await sandbox.getInfo()).state, 'running')
  await sandbox.kill()
})

test('creates at the same time', async () => {
  const count = native ? 8 : 4 // an emulated host has 4 GB
  const sandboxes = await Promise.all(Array.from({ length: count }, () => create()))
  assert.equal(new Set(sandboxes.map((s) => s.sandboxId)).size, count)
  assert.equal(new Set(sandboxes.map((s) => s.envdAccessToken)).size, count)
  await Promise.all(sandboxes.map((s) => s.kill()))
})

test('getHost', async () => {
  const sandbox = await create()
  assert.ok(sandbox.getHost(3000).startsWith(`3000-${sandbox.sandboxId}.`))
  await sandbox.kill()
})

test('Template.exists', async () => {
  if (native) return 'no templates there'
  assert.equal(await Template.exists('base'), true)
  assert.equal(await Template.exists('no-such-template'), false)
})

await finish('control')
