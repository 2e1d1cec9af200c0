// The official command line (npm package @e2b/cli), unmodified, with nothing but environment variables:
// create, list, info, exec, logs, metrics, connect, kill, template list.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import { fileURLToPath } from 'node:url'
import { atEnd, create, finish, home as shellHome, native, raw, test, testNatively, until } from './harness.mjs'

const program = fileURLToPath(new URL('./node_modules/@e2b/cli/dist/index.js', import.meta.url))
// A home without a login.
const home = fs.mkdtempSync(`${os.tmpdir()}/sdk-cli-`)
atEnd(async () => fs.rmSync(home, { recursive: true }))
const env = { ...process.env, HOME: home, NO_COLOR: '1', TERM: 'xterm' }

function start(command, args) {
  const child = spawn(command, args, { env })
  const cli = { child, out: '', err: '' }
  child.stdin.on('error', () => {}) // it may end without reading
  child.stdout.on('data', (d) => (cli.out += d))
  child.stderr.on('data', (d) => (cli.err += d))
  cli.ended = new Promise((resolve) => child.on('close', (status) => resolve((cli.status = status))))
  return cli
}

async function e2b(args, { input = '' } = {}) {
  const cli = start(process.execPath, [program, ...args])
  cli.child.stdin.end(input)
  await cli.ended
  return cli
}

// On a terminal of its own; type() is the keyboard.
function terminal(args) {
  const quoted = [process.execPath, program, ...args].map((a) => `'${a}'`).join(' ')
  const cli = start('script', ['-qefc', quoted, '/dev/null'])
  cli.type = (s) => cli.child.stdin.write(s)
  return cli
}

const sb = await create({ metadata: { made: 'for the cli' } })
const id = sb.sandboxId

test('create -d, list, info, kill', async () => {
  const made = await e2b(['sandbox', 'create', 'base', '-d', '--timeout', '900'])
  assert.equal(made.status, 0, made.err)
  const [mine] = /i[a-z0-9]{19}/.exec(made.out)
  const listed = JSON.parse((await e2b(['sandbox', 'list', '--format', 'json'])).out)
  assert.ok(listed.some((s) => s.sandboxId === mine && s.state === 'running'))
  const filtered = JSON.parse((await e2b(['sandbox', 'list', '-m', 'made=for the cli', '-f', 'json'])).out)
  assert.deepEqual(filtered.map((s) => s.sandboxId), [id])
  assert.match((await e2b(['sandbox', 'list', '--limit', '1'])).out, /SANDBOX ID/)
  const info = JSON.parse((await e2b(['sandbox', 'info', mine, '-f', 'json'])).out)
  assert.deepEqual([info.sandboxId, info.state, info.lifecycle], [mine, 'running', { onTimeout: 'kill', autoResume: false }])
  assert.equal(new Date(info.endAt) - new Date(info.startedAt), 900_000)
  const killed = await e2b(['sandbox', 'kill', mine])
  assert.match(killed.out, /has been killed/)
  assert.match((await e2b(['sandbox', 'kill', mine])).err, /wasn't found/)
  const gone = await e2b(['sandbox', 'info', mine])
  assert.equal(gone.status, 1)
  assert.match(gone.err, /wasn't found/)
})

test('exec: streams, status, user, directory, environment', async () => {
  const r = await e2b(['sandbox', 'exec', '-u', 'root', '-c', '/usr', '-e', 'A=1', id, 'echo "$A $(pwd) $(id -un)"; echo err >&2; exit 7'])
  assert.equal(r.out, '1 /usr root\n')
  assert.match(r.err, /^err\n/)
  assert.equal(r.status, 7)
  assert.equal((await e2b(['sandbox', 'exec', id, 'true'])).status, 0)
  assert.notEqual((await e2b(['sandbox', 'exec', id, 'kill -9 $$'])).status, 0)
})

test('exec: standard input is piped and closed', async () => {
  const text = 'line\n'.repeat(native ? 400_000 : 40_000)
  const r = await e2b(['sandbox', 'exec', id, 'wc -c'], { input: text })
  assert.deepEqual([r.status, r.out.trim()], [0, String(text.length)])
  assert.equal((await e2b(['sandbox', 'exec', id, 'cat'], { input: 'a\nb' })).out, 'a\nb')
})

testNatively('exec --background', async () => {
  const mark = `/tmp/cli-${process.pid}`
  const r = await e2b(['sandbox', 'exec', '--background', id, `echo done > ${mark}`])
  assert.equal(r.status, 0)
  await until('its file', () => sb.files.exists(mark))
  await sb.files.remove(mark)
})

testNatively('exec: a sandbox that is not there', async () => {
  const r = await e2b(['sandbox', 'exec', 'inosuchsandbox', 'true'])
  assert.notEqual(r.status, 0)
  assert.match(r.err, /not found/)
})

test('logs and metrics', async () => {
  const logs = await e2b(['sandbox', 'logs', id, '--format', 'json'])
  const lines = logs.out.trim().split('\n').map((l) => JSON.parse(l))
  assert.ok(lines.some((l) => l.logger === 'lifecycle' && /created/.test(l.message)))
  assert.match((await e2b(['sandbox', 'logs', id])).out, /INFO/)
  await until('a sample', async () => (await sb.getMetrics()).length)
  const metrics = (await e2b(['sandbox', 'metrics', id, '--format', 'json'])).out.trim().split('\n')
  assert.ok(JSON.parse(metrics[0]).memTotal > 0, metrics[0])
  assert.match((await e2b(['sandbox', 'metrics', id])).out, /CPU:.*Memory:.*Disk:/)
})

testNatively('logs -f ends with the sandbox', async () => {
  const other = await create()
  const following = start(process.execPath, [program, 'sandbox', 'logs', '-f', other.sandboxId])
  await until('its first lines', () => /created/.test(following.out))
  assert.equal(following.status, undefined)
  await other.kill()
  assert.equal(await following.ended, 0)
})

const homeOption = Object.entries(shellHome).flatMap(([k, v]) => ['-e', `${k}=${v}`])

// The shell's answer; what is typed before the terminal is raw may be lost.
async function shellAnswers(cli, command, answer) {
  await until(answer, () => {
    const found = answer.exec(cli.out)
    if (!found && !cli.typed) cli.type(`${command}\r`)
    cli.typed = (cli.typed ?? 0) > 100 ? 0 : (cli.typed ?? 0) + 1
    return found
  })
  return answer.exec(cli.out)
}

test('connect: a terminal', async () => {
  const cli = terminal(['sandbox', 'connect', id, ...homeOption])
  await shellAnswers(cli, 'tty; echo a$((1+1))b', /\/dev\/pts\/\d+[\s\S]*a2b/)
  cli.type('exit\r')
  assert.equal(await cli.ended, 0, cli.out)
  assert.equal(await sb.isRunning(), true, 'connect leaves the sandbox')
})

testNatively('create: a terminal in a new sandbox, which ends with it', async () => {
  const cli = terminal(['sandbox', 'create', 'base', ...homeOption])
  const [, made] = await shellAnswers(cli, 'echo id=$E2B_SANDBOX_ID=', /id=(i[a-z0-9]{19})=/)
  cli.type('exit\r')
  assert.equal(await cli.ended, 0, cli.out)
  const dead = { sandboxId: made, envdAccessToken: '' }
  await until('its end', async () => (await raw(dead, '/health')).status === 502)
})

test('template list', async () => {
  const r = await e2b(['template', 'list', '-f', 'json'])
  assert.equal(r.status, 0, r.err)
  const listed = JSON.parse(r.out)
  if (!native) assert.ok(listed.some((t) => t.aliases.includes('base')), r.out)
})

testNatively('template create, publish, unpublish, delete', async () => {
  const dir = fs.mkdtempSync(`${os.tmpdir()}/sdk-cli-`)
  atEnd(async () => fs.rmSync(dir, { recursive: true }))
  fs.writeFileSync(`${dir}/Dockerfile`, 'FROM debian:12\nWORKDIR /app\nCOPY Dockerfile .\nRUN true\n')
  const made = await e2b(['template', 'create', 'cli-made', '-p', dir, '-c', 'log from the cli', '--ready-cmd', 'true', '--memory-mb', '512'])
  assert.equal(made.status, 0, made.out + made.err)
  assert.match(made.out, /from the cli/)
  const find = async () => JSON.parse((await e2b(['template', 'list', '-f', 'json'])).out).find((t) => t.aliases.includes('cli-made'))
  assert.equal((await find()).public, false)
  for (const [verb, is] of [['publish', true], ['unpublish', false]]) {
    const r = await e2b(['template', verb, '-y', 'cli-made'])
    assert.equal(r.status, 0, r.out + r.err)
    assert.equal((await find()).public, is)
  }
  const gone = await e2b(['template', 'delete', '-y', 'cli-made'])
  assert.equal(gone.status, 0, gone.out + gone.err)
  assert.equal(await find(), undefined)
})

testNatively('kill --all, with a filter', async () => {
  const tag = `t${Date.now()}`
  const mine = await Promise.all([1, 2].map(() => create({ metadata: { tag } })))
  const r = await e2b(['sandbox', 'kill', '--all', '-m', `tag=${tag}`])
  assert.equal(r.status, 0, r.err)
  for (const one of mine) assert.equal(await one.isRunning(), false)
  assert.equal(await sb.isRunning(), true)
})

testNatively('a wrong key, and none', async () => {
  const key = env.E2B_API_KEY
  env.E2B_API_KEY = 'e2b_' + 'f'.repeat(40)
  const wrong = await e2b(['sandbox', 'list'])
  delete env.E2B_API_KEY
  const none = await e2b(['sandbox', 'list'])
  env.E2B_API_KEY = key
  assert.equal(wrong.status, 1)
  assert.match(wrong.err + wrong.out, /401|invalid API key/i)
  assert.equal(none.status, 1)
  assert.match(none.err + none.out, /logged in|E2B_API_KEY/)
})

await finish('cli')
