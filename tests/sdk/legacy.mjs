// Older releases of the official SDK, unmodified. What is different in them:
//
//	1.13	knows no URL, only a domain: HTTPS, everything by host; v1 routes; not secure unless asked;
//		always names a user (Basic); connect() makes no request; list() is one page of GET
//		/sandboxes; all uploads are forms
//	2.45	checks the form of keys; v1 create and connect; lists by pages
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import * as v1 from 'e2b-1.13'
import * as v2 from 'e2b-2.45'
import { all, create, finish, native, origin, slow, test, until } from './harness.mjs'
import { startFront } from './front.mjs'

const domain = await startFront(origin)
// Where sandboxes are native agents there is no `user`, which 1.13 takes when none is given.
const as = native ? { user: 'root' } : {}
const key = process.env.E2B_API_KEY

const versions = [
  { name: '1.13', sdk: v1, options: { domain }, list: (o) => v1.Sandbox.list({ domain, ...o }) },
  { name: '2.45', sdk: v2, options: {}, list: (o) => all(v2.Sandbox.list(o)) },
]

for (const { name, sdk, options, list } of versions) {
  const { Sandbox } = sdk
  const tests = (what, fn) => test(`${name}: ${what}`, fn)
  let sb
  const dir = `/tmp/legacy-${name}-${process.pid}-${Date.now()}`

  tests('create, info, list, timeout, connect', async () => {
    sb = await create({ ...options, metadata: { version: name, 'a b': 'c&d' }, envs: { SET: 'at create' } }, Sandbox)
    const info = await Sandbox.getInfo(sb.sandboxId, options)
    assert.deepEqual(info.metadata, { version: name, 'a b': 'c&d' })
    assert.match(info.templateId, /^[a-z0-9]{20}$/)
    assert.ok(info.startedAt < info.endAt)
    const listed = await list({ query: { metadata: { version: name, 'a b': 'c&d' } } })
    assert.ok(listed.some((s) => s.sandboxId === sb.sandboxId))
    assert.deepEqual(await list({ query: { metadata: { version: 'none' } } }), [])
    await sb.setTimeout(1_200_000)
    assert.ok((await Sandbox.getInfo(sb.sandboxId, options)).endAt > info.endAt)
    const again = await Sandbox.connect(sb.sandboxId, options)
    assert.equal(again.sandboxId, sb.sandboxId)
    assert.equal((await again.commands.run('echo connected', as)).stdout, 'connected\n')
    assert.equal(await sb.isRunning(), true)
    assert.equal(sb.getHost(80), `80-${sb.sandboxId}.${options.domain ?? 'e2b.app'}`)
  })

  tests('metrics', async () => {
    const m = (await until('a sample', async () => {
      const samples = await Sandbox.getMetrics(sb.sandboxId, options)
      return samples.length && samples
    }))[0]
    assert.ok(m.cpuCount >= 1 && m.memTotal > 0)
  })

  tests('commands', async () => {
    const r = await sb.commands.run('echo "$SET $MORE"; pwd; id -un; echo err >&2', {
      envs: { MORE: 'and now' }, cwd: '/usr', user: 'root',
    })
    assert.equal(r.stdout, 'at create and now\n/usr\nroot\n')
    assert.equal(r.stderr, 'err\n')
    await assert.rejects(sb.commands.run('exit 3', as), (e) => e instanceof sdk.CommandExitError && e.exitCode === 3)
    await assert.rejects(sb.commands.run('sleep 60', { ...as, timeoutMs: 500 * slow }), sdk.TimeoutError)
    const handle = await sb.commands.run('sleep 60', { ...as, background: true })
    assert.ok((await sb.commands.list()).some((p) => p.pid === handle.pid))
    assert.equal(await handle.kill(), true)
    await assert.rejects(handle.wait(), sdk.CommandExitError)
    assert.equal(await sb.commands.kill(handle.pid), false)
  })

  tests('standard input, which stays open; connect', async () => {
    const handle = await sb.commands.run('read a; read b; echo "$a-$b"', { ...as, background: true, stdin: true })
    const second = await sb.commands.connect(handle.pid)
    await sb.commands.sendStdin(handle.pid, 'one\n')
    await sb.commands.sendStdin(handle.pid, 'two\n')
    assert.equal((await handle.wait()).stdout, 'one-two\n')
    assert.equal((await second.wait()).stdout, 'one-two\n')
  })

  tests('terminal', async () => {
    let out = ''
    const pty = await sb.pty.create({ ...as, cols: 80, rows: 24, onData: (d) => (out += Buffer.from(d)) })
    await sb.pty.sendInput(pty.pid, new TextEncoder().encode('stty size\n'))
    await until('its size', () => out.includes('24 80'))
    await sb.pty.resize(pty.pid, { cols: 100, rows: 40 })
    await sb.pty.sendInput(pty.pid, new TextEncoder().encode('stty size; exit\n'))
    await until('its new size', () => out.includes('40 100'))
    assert.equal((await pty.wait()).exitCode, 0)
  })

  tests('files', async () => {
    const data = randomBytes(300_000)
    const one = await sb.files.write(`${dir}/sub/ü 1`, 'text', as)
    assert.deepEqual([one.name, one.path], ['ü 1', `${dir}/sub/ü 1`])
    const many = await sb.files.write([{ path: `${dir}/b`, data: data.buffer.slice(data.byteOffset, data.byteOffset + data.length) },
      { path: `${dir}/c`, data: new Blob(['c']) }], as)
    assert.deepEqual(many.map((i) => i.path), [`${dir}/b`, `${dir}/c`])
    assert.equal(await sb.files.read(one.path, as), 'text')
    assert.deepEqual(Buffer.from(await sb.files.read(`${dir}/b`, { ...as, format: 'bytes' })), data)
    const listed = await sb.files.list(dir, { ...as, depth: 2 })
    assert.deepEqual(listed.map((e) => e.path), ['b', 'c', 'sub', 'sub/ü 1'].map((n) => `${dir}/${n}`))
    assert.equal((await sb.files.getInfo(`${dir}/b`, as)).size, data.length)
    assert.equal((await sb.files.rename(`${dir}/b`, `${dir}/d`, as)).path, `${dir}/d`)
    assert.equal(await sb.files.exists(`${dir}/b`, as), false)
    assert.equal(await sb.files.makeDir(`${dir}/sub`, as), false)
    await assert.rejects(sb.files.read(`${dir}/none`, as), sdk.NotFoundError)
    await assert.rejects(sb.files.list(`${dir}/none`, as), sdk.NotFoundError)
    await assert.rejects(sb.files.read(dir, as), sdk.InvalidArgumentError)
  })

  tests('watching', async () => {
    const seen = new Set()
    const handle = await sb.files.watchDir(dir, (e) => seen.add(`${e.type} ${e.name}`), { ...as, recursive: true })
    await sb.files.write(`${dir}/sub/new`, '1', as)
    await until('its events', () => seen.has('create sub/new') && seen.has('write sub/new'))
    await handle.stop()
    await sb.files.remove(dir, as)
    assert.equal(await sb.files.exists(dir, as), false)
  })

  tests('kill, and what is left', async () => {
    assert.equal(await Sandbox.kill(sb.sandboxId, options), true)
    assert.equal(await Sandbox.kill(sb.sandboxId, options), false)
    assert.equal(await sb.isRunning(), false)
    await assert.rejects(sb.commands.run('true', as), sdk.SandboxError)
    await assert.rejects(sb.files.read('/etc/hostname', as), sdk.TimeoutError)
    await assert.rejects(Sandbox.getInfo(sb.sandboxId, options), sdk.SandboxError)
  })

  tests('a key that is none', async () => {
    const apiKey = 'e2b_' + 'f'.repeat(40)
    const refused = (e) => e instanceof sdk.AuthenticationError || /^401: /.test(e.message)
    await assert.rejects(Sandbox.create({ ...options, apiKey }), refused)
    await assert.rejects(list({ apiKey }), refused)
  })
}

test('1.13: not secure unless asked; signed URLs of a secure one', async () => {
  const path = `/tmp/legacy-secure-${process.pid}`
  const open = await create({ domain }, v1.Sandbox)
  assert.equal((await fetch(`https://49983-${open.sandboxId}.${domain}/envs`)).status, 200)
  await open.kill()
  const closed = await create({ domain, secure: true }, v1.Sandbox)
  assert.equal((await fetch(`https://49983-${closed.sandboxId}.${domain}/envs`)).status, 401)
  await closed.files.write(path, 'secret', as)
  const url = await closed.downloadUrl(path, { ...as, useSignatureExpiration: 600 })
  assert.equal(await (await fetch(url)).text(), 'secret')
  assert.equal((await fetch(url.replace(/signature=v1_.{6}/, 'signature=v1_AAAAAA'))).status, 401)
  await closed.files.remove(path, as)
  await closed.kill()
})

test('2.45: our keys have the form that it demands', async () => {
  assert.match(key, /^e2b_[0-9a-f]{40}$/)
  await assert.rejects(v2.Sandbox.create({ apiKey: 'nonsense' }), /API key/i)
  await assert.rejects(v2.Sandbox.create({ apiKey: 'nonsense', validateApiKey: false }), v2.AuthenticationError)
})

// Routes of releases between the two, which nothing here uses.
test('v1 routes: refresh, list, and the names of old clients', async () => {
  const sandbox = await create()
  const ask = async (method, path, body) => {
    const r = await fetch(new URL(path, origin), {
      method, body: body && JSON.stringify(body), headers: { 'x-api-key': key, 'content-type': 'application/json' },
    })
    const text = await r.text()
    return [r.status, text && JSON.parse(text)]
  }
  const end = async () => (await ask('GET', `/sandboxes/${sandbox.sandboxId}`))[1].endAt
  const before = await end()
  assert.deepEqual(await ask('POST', `/sandboxes/${sandbox.sandboxId}/refreshes`), [204, ''])
  assert.equal(await end(), before)
  assert.deepEqual(await ask('POST', `/sandboxes/${sandbox.sandboxId}-6532622b/refreshes`, { duration: 3000 }), [204, ''])
  assert.ok(await end() > before)
  const [status, listed] = await ask('GET', '/sandboxes')
  assert.equal(status, 200)
  assert.ok(listed.some((s) => s.sandboxID === sandbox.sandboxId))
  assert.equal((await ask('POST', '/sandboxes/inosuchsandbox/refreshes'))[0], 404)
  await sandbox.kill()
})

await finish('legacy')
