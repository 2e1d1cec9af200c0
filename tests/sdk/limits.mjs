// Amounts and names through the official SDK: much output, many files, odd names, bounded memory.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { atEnd, burst, create, finish, native, sleep, test, testNatively } from './harness.mjs'

const MB = 1_000_000
const daemonMemoryMax = 64 * 1024 * 1024
const many = native ? 100 : 4 // MB

const sb = await create()
const dir = `/tmp/limits-${process.pid}-${Date.now()}`
await sb.files.makeDir(dir)
atEnd(() => sb.files.remove(dir))

// The most memory that the daemon has ever had, in bytes; undefined where it is out of sight.
function daemonPeak() {
  const pid = process.env.SDK_TEST_DAEMON_PID
  return pid && 1024 * Number(/VmHWM:\s*(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`))[1])
}

function assertDaemonIsSmall() {
  const peak = daemonPeak()
  assert.ok(peak === undefined || peak < daemonMemoryMax, `the daemon had ${peak} bytes`)
}

test(`${many} MB of output through callbacks`, async () => {
  let bytes = 0, only = true
  const r = await sb.commands.run(`head -c ${many * MB} /dev/zero | tr '\\0' y; printf x >&2`, {
    timeoutMs: 0, onStdout: (s) => { bytes += s.length; only &&= /^y*$/.test(s) },
  })
  assert.equal(bytes, many * MB)
  assert.ok(only)
  assert.equal(r.stdout.length, many * MB)
  assert.equal(r.stderr, 'x')
  assertDaemonIsSmall()
})

testNatively('a reader that falls behind holds the command up, and loses nothing', async () => {
  let n = 0
  const r = await sb.commands.run(`head -c ${many * MB / 4} /dev/zero | tr '\\0' y`, {
    timeoutMs: 0, onStdout: async (s) => { n += s.length; await (n % 7 ? setImmediate() : sleep(2)) },
  })
  assert.equal(n, many * MB / 4)
  assert.equal(r.stdout.length, n)
  assertDaemonIsSmall()
})

test(`${many} MB up and down`, async () => {
  const data = randomBytes(many * MB)
  const hash = createHash('sha256').update(data).digest('hex')
  await sb.files.write(`${dir}/big`, new Blob([data]), { requestTimeoutMs: 0 })
  assert.equal((await sb.commands.run(`sha256sum < ${dir}/big`, { timeoutMs: 0 })).stdout.slice(0, 64), hash)
  const back = createHash('sha256')
  for await (const piece of await sb.files.read(`${dir}/big`, { format: 'stream', requestTimeoutMs: 0 }))
    back.update(piece)
  assert.equal(back.digest('hex'), hash)
  assertDaemonIsSmall()
})

test('100 files in one call', async () => {
  const files = [...Array(100).keys()].map((i) => ({ path: `${dir}/many/${i % 7}/f ${i}.txt`, data: `${i}\n`.repeat(i) }))
  const infos = await sb.files.writeFiles(files)
  assert.deepEqual(infos.map((i) => i.path), files.map((f) => f.path))
  const texts = await Promise.all(files.map((f) => sb.files.read(f.path)))
  assert.deepEqual(texts, files.map((f) => f.data))
  assert.equal((await sb.files.list(`${dir}/many`, { depth: 2 })).filter((e) => e.type === 'file').length, 100)
})

const names = [
  'ümläut 日本語 🦊', ' blanks  at both ends ', 'per%cent %2F %25', 'plus+and&amp;=?#', "quotes '\"` \\ back",
  'line\nbreak', 'tab\there', '-dash', '...', 'semi;colon, comma', 'x'.repeat(255), '\u0001\u007f',
]

test('odd names: write, read, stat, list, rename, remove', async () => {
  for (const name of names) {
    const path = `${dir}/odd/${name}`
    const info = await sb.files.write(path, name)
    assert.deepEqual([info.name, info.path], [name, path])
    assert.equal(await sb.files.read(path), name)
    assert.equal((await sb.files.getInfo(path)).name, name)
    const moved = await sb.files.rename(path, `${dir}/odd/moved/${name}`)
    assert.equal(moved.path, `${dir}/odd/moved/${name}`)
    assert.equal(await sb.files.exists(path), false)
  }
  const listed = await sb.files.list(`${dir}/odd/moved`)
  assert.deepEqual(listed.map((e) => e.name).sort(), [...names].sort())
  for (const name of names) await sb.files.remove(`${dir}/odd/moved/${name}`)
  assert.deepEqual(await sb.files.list(`${dir}/odd/moved`), [])
})

testNatively('odd names: as directories, gzip, with metadata, watched', async () => {
  const seen = []
  await sb.files.makeDir(`${dir}/watched`)
  const handle = await sb.files.watchDir(`${dir}/watched`, (e) => seen.push(e.name), { timeoutMs: 0 })
  for (const name of names) {
    const path = `${dir}/watched/${name}`
    assert.equal(await sb.files.makeDir(path), true)
    await sb.files.write(`${path}/f`, 'zipped', { gzip: true, metadata: { k: 'v' } })
    assert.deepEqual((await sb.files.getInfo(`${path}/f`)).metadata, { k: 'v' })
    assert.equal(await sb.files.read(`${path}/f`, { gzip: true }), 'zipped')
    assert.equal((await sb.commands.run('cat f', { cwd: path })).stdout, 'zipped')
  }
  await handle.stop()
  assert.deepEqual([...new Set(seen)].sort(), [...names].sort())
})

testNatively('names with which a form carries them: several files at once', async () => {
  // a form's file names cannot hold quotes and line breaks (clients replace them)
  const files = names.filter((n) => !/["\n\\]/.test(n)).map((n) => ({ path: `${dir}/form/${n}`, data: n }))
  const infos = await sb.files.write(files)
  assert.deepEqual(infos.map((i) => i.path), files.map((f) => f.path))
  for (const f of files) assert.equal(await sb.files.read(f.path), f.data)
})

testNatively('a name that is too long, and a NUL', async () => {
  await assert.rejects(sb.files.write(`${dir}/${'y'.repeat(256)}`, 'x'))
  await assert.rejects(sb.files.write(`${dir}/a\0b`, 'x'), /InvalidArgument|400/)
  assert.equal(await sb.files.exists(`${dir}/a`), false)
})

testNatively('arguments and environment: large, and odd bytes', async () => {
  const big = 'b'.repeat(100_000)
  assert.equal((await sb.commands.run(`printf %s "$BIG" | wc -c`, { envs: { BIG: big } })).stdout.trim(), '100000')
  assert.equal((await sb.commands.run('printf %s "$ODD"', { envs: { ODD: names.join('\n') } })).stdout, names.join('\n'))
  await assert.rejects(sb.commands.run('true', { envs: { HUGE: 'h'.repeat(1_000_000) } }))
})

test(`${burst} commands at the same time`, async () => {
  const all = await Promise.all([...Array(burst).keys()].map((i) => sb.commands.run(`echo ${i}`)))
  all.forEach((r, i) => assert.equal(r.stdout, `${i}\n`))
})

testNatively(`${2 * burst} idle streams, and a command beside them`, async () => {
  const handles = []
  while (handles.length < 2 * burst)
    handles.push(...(await Promise.all([...Array(burst)].map(() =>
      sb.commands.run('exec sleep 300', { background: true, timeoutMs: 0 })))))
  assert.equal((await sb.commands.run('echo still here')).stdout, 'still here\n')
  assert.ok((await sb.commands.list()).length >= handles.length)
  const ended = handles.map((h) => h.wait().catch((e) => e.exitCode))
  for (const h of handles) assert.equal(await h.kill(), true)
  assert.deepEqual(new Set(await Promise.all(ended)), new Set([-1]))
  assertDaemonIsSmall()
})

await finish('limits', native ? 120_000 : 300_000)
