// Who may do what, and what a refusal looks like: exception classes of the SDK, signed URLs used by a
// client that is none of E2B's, hosts below a domain over HTTPS.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import {
  AuthenticationError, FileNotFoundError, InvalidArgumentError, NotFoundError, RateLimitError, Sandbox,
  SandboxError, TimeoutError,
} from 'e2b'
import { all, atEnd, create, finish, home, origin, test, testNatively, until } from './harness.mjs'

const sb = await create()
const dir = `/tmp/access-${process.pid}-${Date.now()}`
await sb.files.makeDir(dir)
atEnd(() => sb.files.remove(dir))
const local = fs.mkdtempSync(`${os.tmpdir()}/sdk-access-`)
atEnd(async () => fs.rmSync(local, { recursive: true }))

// The status, and where it is not 200 the answer.
async function curl(...args) {
  const { stdout } = await promisify(execFile)('curl', ['-sS', '-w', '\n%{http_code}', ...args])
  const at = stdout.lastIndexOf('\n')
  return [Number(stdout.slice(at + 1)), stdout.slice(0, at)]
}

// --- exceptions ---

testNatively('400, 401, 404 of the control API', async () => {
  await assert.rejects(Sandbox.create({ timeoutMs: -1000 }), (e) => e instanceof SandboxError && e.statusCode === 400)
  await assert.rejects(Sandbox.create({ apiKey: 'nonsense' }), AuthenticationError)
  await assert.rejects(Sandbox.create('no-such-template'), (e) => e instanceof SandboxError)
  for (const call of [
    () => Sandbox.getInfo('inosuchsandbox'), () => Sandbox.connect('inosuchsandbox'),
    () => Sandbox.setTimeout('inosuchsandbox', 1000),
  ]) await assert.rejects(call(), NotFoundError)
  assert.equal(await Sandbox.kill('inosuchsandbox'), false)
  await assert.rejects(Sandbox.getInfo('not an id'), /400: Invalid sandbox ID/)
})

testNatively('429: one sandbox at a time', async () => {
  const apiKey = process.env.E2B_API_KEY_FEW
  const one = await Sandbox.create({ apiKey, envs: home })
  try {
    await assert.rejects(Sandbox.create({ apiKey }), RateLimitError)
  } finally {
    await one.kill()
  }
  await (await Sandbox.create({ apiKey, envs: home })).kill()
})

test('401, 404, 409 and 400 of envd', async () => {
  const thief = new Sandbox({ sandboxId: sb.sandboxId, envdVersion: '0.6.13', envdAccessToken: 'stolen' })
  await assert.rejects(thief.commands.run('true'), AuthenticationError)
  await assert.rejects(thief.files.read('/etc/hostname'), AuthenticationError)
  await assert.rejects(thief.files.write(`${dir}/x`, 'x'), AuthenticationError)
  await assert.rejects(thief.files.list('/'), AuthenticationError)
  assert.equal(await thief.isRunning(), true)
  await assert.rejects(sb.files.read(`${dir}/none`), FileNotFoundError)
  await assert.rejects(sb.commands.connect(4_000_000), NotFoundError)
  assert.equal(await sb.files.makeDir(dir), false)
  await assert.rejects(sb.files.read(dir), InvalidArgumentError)
  await assert.rejects(sb.files.read('/etc/hostname', { user: 'nosuchuser' }), AuthenticationError)
})

test('502: everything of a sandbox that was killed', async () => {
  const dead = await create()
  const running = await dead.commands.run('sleep 300', { background: true })
  const watching = await dead.files.watchDir('/tmp', () => {})
  const ended = running.wait().then(() => assert.fail('it ended well'), (e) => e)
  await dead.kill()
  assert.ok((await ended) instanceof SandboxError)
  assert.equal(await dead.isRunning(), false)
  await assert.rejects(dead.commands.run('true'), (e) => e.constructor.name === 'SandboxNotFoundError')
  for (const call of [
    () => dead.files.read('/etc/hostname'), () => dead.files.write('/tmp/x', 'x'),
    () => dead.files.exists('/tmp'), () => dead.commands.list(),
  ]) await assert.rejects(call(), TimeoutError)
  await assert.rejects(dead.getInfo(), NotFoundError)
  await assert.rejects(dead.setTimeout(1000), NotFoundError)
  await watching.stop()
})

test('a request that takes longer than the client waits', async () => {
  const tag = `t${Date.now()}`
  await assert.rejects(Sandbox.create({ requestTimeoutMs: 1, metadata: { tag } }))
  const mine = () => all(Sandbox.list({ query: { metadata: { tag } } }))
  await until('the end of what nobody waits for', async () => (await mine()).length === 0)
  await assert.rejects(sb.files.read('/dev/zero', { requestTimeoutMs: 300 }))
  assert.equal((await sb.commands.run('echo alive')).stdout, 'alive\n')
})

testNatively('what is no file is not read', async () => {
  await sb.commands.run(`mkfifo ${dir}/pipe`)
  await assert.rejects(sb.files.read(`${dir}/pipe`), InvalidArgumentError)
  await assert.rejects(sb.files.write(`${dir}/pipe`, 'x'), InvalidArgumentError)
})

// --- signed URLs ---

test('signed URLs: a stranger downloads and uploads', async () => {
  await sb.files.write(`${dir}/s +%1é.txt`, 'signed')
  const [status, got] = await curl(await sb.downloadUrl(`${dir}/s +%1é.txt`))
  assert.deepEqual([status, got], [200, 'signed'])
  fs.writeFileSync(`${local}/up.txt`, 'from curl')
  const up = await curl('-F', `file=@${local}/up.txt`, await sb.uploadUrl(`${dir}/up.txt`))
  assert.equal(up[0], 200)
  assert.deepEqual(JSON.parse(up[1]), [{ path: `${dir}/up.txt`, name: 'up.txt', type: 'file' }])
  assert.equal(await sb.files.read(`${dir}/up.txt`), 'from curl')
  const named = await curl('-F', `file=@${local}/up.txt;filename=${dir}/named.txt`, await sb.uploadUrl())
  assert.equal(named[0], 200)
  assert.equal(await sb.files.read(`${dir}/named.txt`), 'from curl')
})

test('signed URLs: for a user, with ranges', async () => {
  const url = await sb.uploadUrl(`${dir}/roots`, { user: 'root', useSignatureExpiration: 600 })
  fs.writeFileSync(`${local}/r`, '0123456789')
  assert.equal((await curl('-F', `file=@${local}/r`, url))[0], 200)
  assert.equal((await sb.files.getInfo(`${dir}/roots`)).owner, 'root')
  const down = await sb.downloadUrl(`${dir}/roots`, { user: 'root', useSignatureExpiration: 600 })
  assert.deepEqual(await curl('-r', '2-4', down), [206, '234'])
})

test('signed URLs: only for what was signed, and not for ever', async () => {
  await sb.files.write(`${dir}/secret`, 'secret')
  const url = await sb.downloadUrl(`${dir}/secret`, { useSignatureExpiration: 600 })
  const changed = (from, to) => curl(url.replace(from, to)).then(([status]) => status)
  assert.equal(await changed('secret', 'other'), 401)
  assert.equal(await changed(/signature_expiration=\d+/, 'signature_expiration=4000000000'), 401)
  assert.equal(await changed(/&?signature_expiration=\d+/, ''), 401)
  assert.equal((await curl('-F', 'file=x', url))[0], 401, 'reading does not allow writing')
  const short = await sb.downloadUrl(`${dir}/secret`, { useSignatureExpiration: 1 })
  await until('its expiry', async () => (await curl(short))[0] === 401)
  const dead = await create()
  const gone = await dead.downloadUrl('/etc/hostname')
  await dead.kill()
  assert.equal((await curl(gone))[0], 401)
})

// --- below a domain ---

// A program of its own: its environment knows no URL.
test('a domain over HTTPS, without E2B_API_URL', async () => {
  const { E2B_API_URL, E2B_SANDBOX_URL, ...env } = process.env
  const file = fileURLToPath(new URL('./domain.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [file, origin.href], { env })
  assert.match(stdout, /^done$/m, stdout)
})

await finish('access')
