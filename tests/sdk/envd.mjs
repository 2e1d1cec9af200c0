// envd through the official SDK: processes, terminals, files, watching, and their errors.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import {
  CommandExitError, FileNotFoundError, InvalidArgumentError, NotFoundError, Sandbox, SandboxError,
  TimeoutError,
} from 'e2b'
import {
  atEnd, create, finish, native, origin, raw as raw_to, sleep, slow, test, until,
} from './harness.mjs'

let sb // shared by the tests
let dir // an empty directory of this run in the guest
const token = () => sb.envdAccessToken
const raw = (path, options) => raw_to(sb, path, options)

const rpc = (method, body, headers = {}) =>
  raw(`/${method}`, {
    method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'connect-protocol-version': '1', ...headers },
  })

function envelope(message) {
  const json = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(json.length, 1)
  return Buffer.concat([head, json])
}

function envelopes(bytes) {
  const found = []
  for (let at = 0; at < bytes.length;) {
    const n = bytes.readUInt32BE(at + 1)
    found.push([bytes[at], JSON.parse(bytes.subarray(at + 5, at + 5 + n))])
    at += 5 + n
  }
  return found
}

async function stream(method, body, headers = {}) {
  const r = await raw(`/${method}`, {
    method: 'POST', body,
    headers: { 'content-type': 'application/connect+json', ...headers },
  })
  return [r.status, r.headers.get('content-type'), envelopes(Buffer.from(await r.arrayBuffer()))]
}

// --- commands ---

test('run: output and exit code', async () => {
  const r = await sb.commands.run('echo out; echo err >&2; printf "ünï"')
  assert.equal(r.exitCode, 0)
  assert.equal(r.stdout, 'out\nünï')
  assert.equal(r.stderr, 'err\n')
})

test('run: a failing command', async () => {
  await assert.rejects(sb.commands.run('echo so far; echo no >&2; exit 3'), (e) => {
    assert.ok(e instanceof CommandExitError)
    assert.equal(e.exitCode, 3)
    assert.equal(e.stdout, 'so far\n')
    assert.equal(e.stderr, 'no\n')
    return true
  })
})

test('run: a command that does not exist', async () => {
  await assert.rejects(sb.commands.run('no-such-command-1'), (e) => e.exitCode === 127)
})

test('run: environment, directory, user', async () => {
  const r = await sb.commands.run('echo "$ONE|$EMPTY|$E2B_SANDBOX|$CREATED"; pwd', {
    envs: { ONE: "it's 1", EMPTY: '' }, cwd: '/usr',
  })
  assert.equal(r.stdout, "it's 1||true|at create\n/usr\n")
  assert.equal((await sb.commands.run('id -un')).stdout, native ? 'root\n' : 'user\n')
  assert.equal((await sb.commands.run('id -un', { user: 'root' })).stdout, 'root\n')
  assert.equal((await sb.commands.run('id -u', { user: 'nobody', cwd: '/' })).stdout, '65534\n')
})

test('run: a bad directory and a bad user', async () => {
  await assert.rejects(sb.commands.run('true', { cwd: '/no/such' }), InvalidArgumentError)
  await assert.rejects(sb.commands.run('true', { user: 'nosuchuser' }), /user/)
})

test('run: output arrives while the command runs', async () => {
  const lines = []
  let handle // each line is answered before the next is written, so none can have waited
  const answer = (s) => { lines.push(s); if (handle) sb.commands.sendStdin(handle.pid, '\n') }
  handle = await sb.commands.run('read x; for i in 1 2 3; do echo $i; read x; done', {
    background: true, stdin: true, onStdout: answer,
  })
  await sb.commands.sendStdin(handle.pid, '\n')
  await handle.wait()
  assert.deepEqual(lines, ['1\n', '2\n', '3\n'])
})

test('run: time limit kills', async () => {
  const mark = `31.${Date.now() % 100000}`
  await assert.rejects(sb.commands.run(`sleep ${mark}`, { timeoutMs: 700 * slow }), TimeoutError)
  await until('the end of sleep', async () =>
    (await sb.commands.run(`pgrep -fc '^sleep ${mark}' || true`)).stdout === '0\n')
})

test('run: the server ends a command at its limit with deadline_exceeded', async () => {
  const [status, type, messages] = await stream('process.Process/Start',
    envelope({ process: { cmd: '/bin/sh', args: ['-c', 'echo a; sleep 20'] }, stdin: false }),
    { 'connect-timeout-ms': '400' })
  assert.equal(status, 200)
  assert.equal(type, 'application/connect+json')
  assert.ok(messages[0][1].event.start.pid > 0)
  const [flags, last] = messages.at(-1)
  assert.equal(flags, 2)
  assert.equal(last.error.code, 'deadline_exceeded')
})

test('background, wait, kill, list', async () => {
  const handle = await sb.commands.run('sleep 30; echo no', { background: true, envs: { K: 'v' } })
  const listed = (await sb.commands.list()).find((p) => p.pid === handle.pid)
  assert.equal(listed.cmd, '/bin/bash')
  assert.deepEqual(listed.args, ['-l', '-c', 'sleep 30; echo no'])
  assert.equal(listed.envs.K, 'v')
  assert.equal(await handle.kill(), true)
  await assert.rejects(handle.wait(), (e) => e instanceof CommandExitError && e.exitCode === -1 &&
    e.error === 'signal: killed')
  assert.equal(await sb.commands.kill(handle.pid), false)
  assert.ok(!(await sb.commands.list()).some((p) => p.pid === handle.pid))
})

test('standard input', async () => {
  const handle = await sb.commands.run('cat; echo end', { background: true, stdin: true })
  await sb.commands.sendStdin(handle.pid, 'hello ')
  await sb.commands.sendStdin(handle.pid, 'wörld\n')
  await sb.commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout, 'hello wörld\nend\n')
  await assert.rejects(sb.commands.sendStdin(handle.pid, 'x'), NotFoundError)
})

test('standard input: 1 MB in one call, and none by default', async () => {
  const handle = await sb.commands.run('wc -c', { background: true, stdin: true })
  await sb.commands.sendStdin(handle.pid, 'a'.repeat(1_000_000))
  await sb.commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout.trim(), '1000000')
  assert.equal((await sb.commands.run('wc -c')).stdout.trim(), '0')
})

test('disconnect leaves the process, connect finds it', async () => {
  let first = ''
  const handle = await sb.commands.run('while read line; do echo "got $line"; done',
    { background: true, stdin: true, onStdout: (s) => (first += s) })
  await sb.commands.sendStdin(handle.pid, '1\n')
  await until('its first output', () => first)
  await handle.disconnect()
  await sb.commands.sendStdin(handle.pid, '2\n')
  let seen = ''
  const again = await sb.commands.connect(handle.pid, { onStdout: (s) => (seen += s) })
  assert.equal(again.pid, handle.pid)
  await sb.commands.sendStdin(handle.pid, '3\n')
  await sb.commands.closeStdin(handle.pid)
  assert.equal((await again.wait()).exitCode, 0)
  assert.ok(seen.endsWith('got 3\n') && !seen.includes('got 1'), `new output only, not ${seen}`)
})

test('connect: two readers, one that comes late, one that is lost', async () => {
  const handle = await sb.commands.run('read x; echo both; exit 5', { background: true, stdin: true })
  const second = await sb.commands.connect(handle.pid)
  await sb.commands.sendStdin(handle.pid, '\n')
  const ends = await Promise.allSettled([handle.wait(), second.wait()])
  for (const end of ends) {
    assert.equal(end.reason.exitCode, 5)
    assert.equal(end.reason.stdout, 'both\n')
  }
  await assert.rejects((await sb.commands.connect(handle.pid)).wait(), (e) => e.exitCode === 5)
  await assert.rejects(sb.commands.connect(4_000_000), NotFoundError)
})

test('a slow reader does not lose or hold up anything', async () => {
  let n = 0
  const r = await sb.commands.run('head -c 3000000 /dev/zero | tr "\\0" y', {
    onStdout: async (s) => { n += s.length; await sleep(1) }, timeoutMs: 60_000,
  })
  assert.equal(n, 3_000_000)
  assert.equal(r.stdout.length, 3_000_000)
})

test('Start: default standard input is open; keepalives; tag', async () => {
  const body = envelope({
    process: { cmd: 'sh', args: ['-c', 'sleep 2.3; read x; echo "got $x"'] }, tag: 'tagged',
  })
  const running = stream('process.Process/Start', body, { 'keepalive-ping-interval': '1' })
  await until('the tag', async () => (await (await rpc('process.Process/List', {})).json())
    .processes.some((p) => p.tag === 'tagged'))
  const input = { process: { tag: 'tagged' }, input: { stdin: Buffer.from('in\n').toString('base64') } }
  assert.deepEqual(await (await rpc('process.Process/SendInput', input)).json(), {})
  const [, , messages] = await running
  assert.ok(messages.some(([, m]) => m.event?.keepalive))
  const out = messages.map(([, m]) => m.event?.data?.stdout ?? '').join('')
  assert.equal(Buffer.from(out, 'base64').toString(), 'got in\n')
  assert.deepEqual(messages.at(-1), [2, {}])
  assert.equal(messages.at(-2)[1].event.end.status, 'exit status 0')
})

test('StreamInput', async () => {
  const handle = await sb.commands.run('wc -c', { background: true, stdin: true })
  const piece = Buffer.alloc(60_000, 'z').toString('base64')
  const body = Buffer.concat([
    envelope({ start: { process: { pid: handle.pid } } }),
    ...Array(20).fill(envelope({ data: { input: { stdin: piece } } })),
    envelope({ keepalive: {} }),
  ])
  const [status, , messages] = await stream('process.Process/StreamInput', body)
  assert.equal(status, 200)
  assert.deepEqual(messages, [[0, {}], [2, {}]])
  const start = envelope({ start: { process: { pid: handle.pid } } })
  assert.deepEqual((await stream('process.Process/StreamInput', start))[2], [[0, {}], [2, {}]])
  await sb.commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout.trim(), '1200000')
  const none = envelope({ start: { process: { pid: 4000000 } } })
  const empty = envelope({ data: { input: { stdin: '' } } })
  for (const [sent, code] of [[none, 'not_found'], [Buffer.concat([none, empty]), 'not_found'],
    [Buffer.alloc(0), 'invalid_argument'], [empty, 'invalid_argument']])
    assert.equal((await stream('process.Process/StreamInput', sent))[2].at(-1)[1].error?.code, code)
})

test('process errors', async () => {
  const code = async (method, body) => {
    const r = await rpc(`process.Process/${method}`, body)
    return [r.status, (await r.json()).code]
  }
  const handle = await sb.commands.run('sleep 20', { background: true })
  const process = { pid: handle.pid }
  const stdin = Buffer.from('x').toString('base64')
  assert.deepEqual(await code('SendSignal', { process, signal: 'SIGNAL_UNSPECIFIED' }), [501, 'unimplemented'])
  assert.deepEqual(await code('SendSignal', { process: { pid: 4000000 }, signal: 9 }), [404, 'not_found'])
  assert.deepEqual(await code('SendInput', { process, input: { pty: stdin } }), [500, 'internal'])
  assert.deepEqual(await code('SendInput', { process, input: { stdin } }), [500, 'internal'])
  assert.deepEqual(await code('Update', { process, pty: { size: { cols: 1, rows: 1 } } }), [500, 'internal'])
  assert.deepEqual(await code('SendInput', { input: { stdin } }), [400, 'invalid_argument'])
  assert.deepEqual(await code('CloseStdin', { process }), [200, undefined])
  assert.equal(await handle.kill(), true)
  await assert.rejects(handle.wait())
  const [status, type, messages] = await stream('process.Process/Start',
    envelope({ process: { cmd: '/bin/true', cwd: '/no/such' } }))
  assert.deepEqual([status, type], [200, 'application/connect+json'])
  assert.equal(messages.length, 1)
  assert.equal(messages[0][1].error.code, 'invalid_argument')
})

// --- terminals ---

test('pty: create, input, resize, kill', async () => {
  let out = ''
  const pty = await sb.pty.create({
    cols: 80, rows: 24, envs: { PS1: '$ ' }, onData: (d) => (out += Buffer.from(d).toString()),
  })
  const type = (s) => sb.pty.sendInput(pty.pid, new TextEncoder().encode(s))
  await type('stty size; echo $TERM\n')
  await until('its size', () => out.includes('24 80') && out.includes('xterm-256color'))
  await sb.pty.resize(pty.pid, { cols: 100, rows: 40 })
  await type('stty size\n')
  await until('its new size', () => out.includes('40 100'))
  assert.equal(await sb.pty.kill(pty.pid), true)
  await assert.rejects(pty.wait(), CommandExitError)
})

test('pty: its end, and connecting to it', async () => {
  const first = await sb.pty.create({ cols: 80, rows: 24, onData: () => {} })
  await first.disconnect()
  let out = ''
  const pty = await sb.pty.connect(first.pid, { onData: (d) => (out += Buffer.from(d).toString()) })
  await sb.pty.sendInput(pty.pid, new TextEncoder().encode('echo a$((1+1))b; exit 7\n'))
  await assert.rejects(pty.wait(), (e) => e.exitCode === 7)
  assert.ok(out.includes('a2b'))
})

// --- files ---

test('write and read: text, bytes, blob, stream, empty', async () => {
  const text = await sb.files.write(`${dir}/new/sub/a.txt`, 'hällo\n')
  assert.deepEqual([text.name, text.path, text.type], ['a.txt', `${dir}/new/sub/a.txt`, 'file'])
  assert.equal(await sb.files.read(text.path), 'hällo\n')
  const bytes = randomBytes(1000)
  await sb.files.write(`${dir}/b`, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + 1000))
  assert.deepEqual(Buffer.from(await sb.files.read(`${dir}/b`, { format: 'bytes' })), bytes)
  await sb.files.write(`${dir}/c`, new Blob(['blob']))
  assert.equal(await (await sb.files.read(`${dir}/c`, { format: 'blob' })).text(), 'blob')
  await sb.files.write(`${dir}/d`, new Response('streamed').body)
  const pieces = []
  for await (const p of await sb.files.read(`${dir}/d`, { format: 'stream' })) pieces.push(p)
  assert.equal(Buffer.concat(pieces).toString(), 'streamed')
  await sb.files.write(`${dir}/e`, '')
  assert.equal(await sb.files.read(`${dir}/e`), '')
  await sb.files.write(`${dir}/d`, 'shorter')
  assert.equal(await sb.files.read(`${dir}/d`), 'shorter')
})

test('write many, by directories in their names', async () => {
  const files = [...Array(30).keys()].map((i) => ({ path: `${dir}/many/${i % 3}/f${i}`, data: `${i}` }))
  const infos = await sb.files.write(files)
  assert.deepEqual(infos.map((i) => i.path), files.map((f) => f.path))
  assert.equal(await sb.files.read(`${dir}/many/2/f29`), '29')
})

test('5 MB up and down; gzip', async () => {
  const data = randomBytes(5_000_000)
  const hash = createHash('sha256').update(data).digest('hex')
  await sb.files.write(`${dir}/big`, new Blob([data]))
  assert.equal((await sb.commands.run(`sha256sum < ${dir}/big`)).stdout.slice(0, 64), hash)
  const back = Buffer.from(await sb.files.read(`${dir}/big`, { format: 'bytes' }))
  assert.equal(createHash('sha256').update(back).digest('hex'), hash)
  await sb.files.write(`${dir}/gz`, new Blob([data]), { gzip: true })
  assert.equal((await sb.commands.run(`sha256sum < ${dir}/gz`)).stdout.slice(0, 64), hash)
  assert.equal((await sb.files.read(`${dir}/gz`, { format: 'bytes', gzip: true })).length, data.length)
})

test('metadata', async () => {
  const info = await sb.files.write(`${dir}/meta`, 'x', { metadata: { Author: 'me', n: '1' } })
  assert.deepEqual(info.metadata, { author: 'me', n: '1' })
  assert.deepEqual((await sb.files.getInfo(`${dir}/meta`)).metadata, { author: 'me', n: '1' })
  await sb.files.write(`${dir}/meta`, 'y')
  assert.equal((await sb.files.getInfo(`${dir}/meta`)).metadata, undefined)
})

test('getInfo, exists, links', async () => {
  await sb.commands.run(
    `cd ${dir} && printf 12345 >f && chmod 640 f && ln -s f l && ln -s nowhere dangling && mkdir t && chmod 1777 t`)
  const f = await sb.files.getInfo(`${dir}/f`)
  assert.deepEqual([f.name, f.type, f.size, f.mode, f.permissions], ['f', 'file', 5, 0o640, '-rw-r-----'])
  assert.ok(f.owner && f.group && Math.abs(f.modifiedTime - Date.now()) < 60_000)
  const l = await sb.files.getInfo(`${dir}/l`)
  assert.deepEqual([l.type, l.mode, l.permissions, l.symlinkTarget], ['file', 0o640, 'Lrwxrwxrwx', `${dir}/f`])
  const d = await (await rpc('filesystem.Filesystem/Stat', { path: `${dir}/dangling` })).json()
  assert.equal(d.entry.type, undefined)
  assert.equal(d.entry.symlinkTarget, `${dir}/dangling`)
  assert.equal((await sb.files.getInfo(`${dir}/t`)).permissions, 'dtrwxrwxrwx')
  assert.equal(await sb.files.exists(`${dir}/f`), true)
  assert.equal(await sb.files.exists(`${dir}/none`), false)
  await assert.rejects(sb.files.getInfo(`${dir}/none`), FileNotFoundError)
})

test('list', async () => {
  const names = async (path, depth) =>
    (await sb.files.list(path, depth ? { depth } : {})).map((e) => e.path.slice(dir.length + 1))
  await sb.commands.run(`mkdir -p ${dir}/ls/b/c && touch ${dir}/ls/{z,a} ${dir}/ls/b/x && ln -s ls ${dir}/ll`)
  assert.deepEqual(await names(`${dir}/ls`), ['ls/a', 'ls/b', 'ls/z'])
  assert.deepEqual(await names(`${dir}/ls`, 3), ['ls/a', 'ls/b', 'ls/b/c', 'ls/b/x', 'ls/z'])
  assert.deepEqual(await names(`${dir}/ll`), ['ll/a', 'll/b', 'll/z'])
  assert.deepEqual(await names(`${dir}/ls/b/c`), [])
  await assert.rejects(sb.files.list(`${dir}/none`), FileNotFoundError)
  await assert.rejects(sb.files.list(`${dir}/ls/a`), InvalidArgumentError)
  await assert.rejects(sb.files.list(dir, { depth: 0 }), InvalidArgumentError)
})

test('list: 5,000 entries', async () => {
  await sb.commands.run(`mkdir ${dir}/lots && cd ${dir}/lots && seq -f 'f%05g' 5000 | xargs touch`)
  const entries = await sb.files.list(`${dir}/lots`)
  assert.equal(entries.length, 5000)
  assert.equal(entries[4999].name, 'f05000')
})

test('makeDir, rename, remove', async () => {
  assert.equal(await sb.files.makeDir(`${dir}/m/k/d`), true)
  assert.equal(await sb.files.makeDir(`${dir}/m/k/d`), false)
  await sb.files.write(`${dir}/m/file`, '1')
  await assert.rejects(sb.files.makeDir(`${dir}/m/file`), InvalidArgumentError)
  const moved = await sb.files.rename(`${dir}/m/file`, `${dir}/m/other/place`)
  assert.deepEqual([moved.name, moved.path, moved.type, moved.size], ['place', `${dir}/m/other/place`, 'file', 1])
  await assert.rejects(sb.files.rename(`${dir}/none`, `${dir}/x`), FileNotFoundError)
  await sb.files.remove(`${dir}/m`)
  assert.equal(await sb.files.exists(`${dir}/m`), false)
  await sb.files.remove(`${dir}/m`)
})

test('users own what they make; relative paths are below home', async () => {
  await sb.files.write(`${dir}/owned/by`, 'x', { user: 'nobody' })
  const info = await sb.files.getInfo(`${dir}/owned/by`)
  assert.equal(info.owner, 'nobody')
  assert.equal((await sb.files.getInfo(`${dir}/owned`)).owner, 'nobody')
  const home = (await sb.commands.run('getent passwd $(id -u) | cut -d: -f6')).stdout.trim()
  const name = `envd-test-${Date.now()}`
  assert.equal((await sb.files.write(name, 'h')).path, `${home}/${name}`)
  assert.equal(await sb.files.read(`~/${name}`), 'h')
  await sb.files.remove(`${home}/${name}`)
  await assert.rejects(sb.files.read('~other/x'), InvalidArgumentError)
})

test('file errors', async () => {
  await assert.rejects(sb.files.read(`${dir}/none`), FileNotFoundError)
  await assert.rejects(sb.files.read(dir), InvalidArgumentError)
  await assert.rejects(sb.files.write(dir, 'x'), InvalidArgumentError)
  await assert.rejects(sb.files.write(`${dir}/x`, 'y', { user: 'nosuchuser' }), /user/i)
  await sb.files.write(`${dir}/plain`, '')
  await assert.rejects(sb.files.write(`${dir}/plain/x`, 'y'),
    { message: `500: error ensuring directories: path is a file: ${dir}/plain` })
})

test('a full disk is 507', async () => {
  if (!native) return 'it needs a small file system'
  const r = await sb.commands.run(`mkdir ${dir}/full && mount -t tmpfs -o size=1m none ${dir}/full`).catch((e) => e)
  if (r.exitCode) return 'no small file system can be mounted'
  try {
    await assert.rejects(sb.files.write(`${dir}/full/f`, new Blob([randomBytes(3_000_000)])),
      (e) => e.constructor.name === 'NotEnoughSpaceError')
  } finally {
    await sb.commands.run(`umount ${dir}/full`)
  }
})

// --- /files past the SDK ---

test('GET /files: headers, ranges, conditions, HEAD', async () => {
  await sb.files.write(`${dir}/page é.html`, '0123456789')
  const path = `/files?path=${encodeURIComponent(`${dir}/page é.html`)}`
  const r = await raw(path)
  assert.equal(r.status, 200)
  assert.equal(r.headers.get('content-length'), '10')
  assert.match(r.headers.get('content-type'), /^text\/html/)
  assert.equal(r.headers.get('content-disposition'), "inline; filename*=utf-8''page%20%C3%A9.html")
  assert.equal(r.headers.get('vary'), 'Accept-Encoding')
  await r.arrayBuffer()
  const part = await raw(path, { headers: { range: 'bytes=2-4' } })
  assert.deepEqual([part.status, part.headers.get('content-range'), await part.text()], [206, 'bytes 2-4/10', '234'])
  const tail = await raw(path, { headers: { range: 'bytes=-3' } })
  assert.equal(await tail.text(), '789')
  assert.equal((await raw(path, { headers: { range: 'bytes=99-' } })).status, 416)
  const etag = r.headers.get('etag')
  assert.equal((await raw(path, { headers: { 'if-none-match': etag } })).status, 304)
  assert.equal((await raw(path, { headers: { 'if-match': '"other"' } })).status, 412)
  const date = r.headers.get('last-modified')
  assert.equal((await raw(path, { headers: { 'if-modified-since': date } })).status, 304)
  const head = await raw(path, { method: 'HEAD' })
  assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '10', ''])
  assert.equal((await raw(path, { headers: { 'accept-encoding': 'gzip, identity;q=0' } })).status, 406)
  assert.match(await (await raw('/files?path=/proc/cpuinfo')).text(), /processor/)
})

test('POST /files: what is refused', async () => {
  const post = async (query, options) => {
    const r = await raw(`/files${query}`, { method: 'POST', ...options })
    return [r.status, (await r.json()).code]
  }
  const octets = { 'content-type': 'application/octet-stream' }
  assert.deepEqual(await post('', { body: 'x', headers: octets }), [400, 400])
  assert.deepEqual(await post(`?path=${dir}/q`, { body: 'x', headers: { 'content-type': 'text/plain' } }), [400, 400])
  assert.deepEqual(await post(`?path=${dir}/q`,
    { body: 'no gzip', headers: { ...octets, 'content-encoding': 'gzip' } }), [400, 400])
  assert.deepEqual(await post(`?path=${dir}/q`,
    { body: gzipSync('x'.repeat(1000)).subarray(0, 20), headers: { ...octets, 'content-encoding': 'gzip' } }), [400, 400])
  assert.deepEqual(await post(`?path=${dir}/q`, { body: 'x', headers: { ...octets, 'x-metadata-a': 'y'.repeat(5000) } }), [400, 400])
  const twice = new FormData()
  twice.append('file', new Blob(['1']), `${dir}/twice`)
  twice.append('file', new Blob(['2']), `${dir}/twice`)
  assert.deepEqual(await post('', { body: twice }), [400, 400])
  assert.equal(await sb.files.read(`${dir}/twice`), '1')
  const other = new FormData()
  other.append('comment', 'x')
  assert.deepEqual(await post('', { body: other }), [200, undefined])
})

test('signed URLs', async () => {
  await sb.files.write(`${dir}/s +1.txt`, 'signed')
  const url = await sb.downloadUrl(`${dir}/s +1.txt`, { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(url)).text(), 'signed')
  assert.equal((await fetch(url.replace(/signature=v1_..../, 'signature=v1_AAAA'))).status, 401)
  const headers = { 'x-access-token': 'wrong', 'e2b-sandbox-id': sb.sandboxId, 'e2b-sandbox-port': '49983' }
  assert.equal((await fetch(url, { headers })).status, 401)
  const form = new FormData()
  form.append('file', new Blob(['up']), `${dir}/uploaded`)
  const up = await fetch(await sb.uploadUrl(), { method: 'POST', body: form })
  assert.equal(up.status, 200)
  assert.equal(await sb.files.read(`${dir}/uploaded`), 'up')
  const old = await sb.downloadUrl(`${dir}/uploaded`, { useSignatureExpiration: -10 })
  assert.equal((await fetch(old)).status, 401)
})

test('compose', async () => {
  const parts = [`${dir}/p1`, `${dir}/p2`, `${dir}/p3`]
  await sb.files.write(parts.map((path, i) => ({ path, data: `${i}`.repeat(200_000) })))
  const compose = async (body) => {
    const r = await raw('/files/compose', { method: 'POST', body: JSON.stringify(body) })
    return [r.status, await r.json()]
  }
  assert.deepEqual(await compose({ source_paths: parts, destination: `${dir}/whole` }),
    [200, { path: `${dir}/whole`, name: 'whole', type: 'file' }])
  assert.equal(await sb.files.read(`${dir}/whole`), [0, 1, 2].map((i) => `${i}`.repeat(200_000)).join(''))
  assert.equal(await sb.files.exists(parts[0]), false)
  assert.equal((await compose({ source_paths: [], destination: `${dir}/w` }))[0], 400)
  assert.equal((await compose({ source_paths: parts, destination: `${dir}/w` }))[0], 404)
  assert.equal((await compose({ source_paths: [`${dir}/whole`], destination: `${dir}/whole` }))[0], 400)
  assert.equal((await compose({ source_paths: [dir], destination: `${dir}/w` }))[0], 400)
})

// --- watching ---

test('watchDir', async () => {
  await sb.files.makeDir(`${dir}/w/sub`)
  const events = []
  const handle = await sb.files.watchDir(`${dir}/w`, (e) => events.push(e), { recursive: true, includeEntry: true })
  const saw = (type, name) => () => events.some((e) => e.type === type && e.name === name)
  await sb.files.write(`${dir}/w/a.txt`, '1')
  await until('create', saw('create', 'a.txt'))
  await until('write', saw('write', 'a.txt'))
  assert.equal(events.find((e) => e.name === 'a.txt' && e.entry).entry.path, `${dir}/w/a.txt`)
  await sb.files.write(`${dir}/w/sub/b`, '1')
  await until('create below', saw('create', 'sub/b'))
  await sb.files.rename(`${dir}/w/a.txt`, `${dir}/w/c.txt`)
  await until('rename', saw('rename', 'a.txt'))
  await until('its new name', saw('create', 'c.txt'))
  await sb.commands.run(`chmod 600 ${dir}/w/c.txt`)
  await until('chmod', saw('chmod', 'c.txt'))
  await sb.files.remove(`${dir}/w/c.txt`)
  await until('remove', saw('remove', 'c.txt'))
  await handle.stop()
})

test('watchDir: errors, time limit', async () => {
  await assert.rejects(sb.files.watchDir(`${dir}/none`, () => {}), FileNotFoundError)
  await sb.files.write(`${dir}/wf`, '')
  await assert.rejects(sb.files.watchDir(`${dir}/wf`, () => {}), InvalidArgumentError)
  let ended
  await sb.files.watchDir(dir, () => {}, { timeoutMs: 300, onExit: (e) => (ended = e ?? true) })
  await until('the end of the watch', () => ended)
})

test('watchers that are polled', async () => {
  const call = async (method, body) => {
    const r = await rpc(`filesystem.Filesystem/${method}`, body)
    return [r.status, await r.json()]
  }
  await sb.files.makeDir(`${dir}/poll`)
  const [status, { watcherId }] = await call('CreateWatcher', { path: `${dir}/poll` })
  assert.equal(status, 200)
  assert.match(watcherId, /^w[a-z0-9]{20}$/)
  await sb.files.write(`${dir}/poll/x`, '1')
  const events = []
  await until('an event', async () => {
    events.push(...(await call('GetWatcherEvents', { watcherId }))[1].events)
    return events.some((e) => e.type === 'EVENT_TYPE_WRITE')
  })
  assert.deepEqual(events[0], { name: 'x', type: 'EVENT_TYPE_CREATE' })
  assert.deepEqual(await call('RemoveWatcher', { watcherId }), [200, {}])
  assert.equal((await call('GetWatcherEvents', { watcherId }))[1].code, 'not_found')
  assert.equal((await call('CreateWatcher', { path: `${dir}/none` }))[1].code, 'not_found')
})

// --- who may, and the rest ---

test('tokens', async () => {
  const status = async (path, headers, method = 'GET') => {
    const r = await raw(path, { method, headers })
    await r.arrayBuffer()
    return r.status
  }
  const none = { 'x-access-token': '' }
  assert.equal(await status('/health', none), 204)
  assert.equal(await status('/envs', none), 401)
  assert.equal(await status('/envs', { 'x-access-token': token() + 'x' }), 401)
  assert.equal(await status('/files?path=/etc/passwd', none), 401)
  assert.equal((await rpc('process.Process/List', {}, none)).status, 401)
  assert.equal(await status('/init', {}, 'POST'), 404)
  assert.equal(await status('/nothing', {}), 404)
  assert.equal(await status('/envs', {}, 'DELETE'), 405)
})

test('CORS', async () => {
  const r = await raw('/files?path=/x', {
    method: 'OPTIONS', headers: {
      origin: 'http://a.example', 'x-access-token': '', 'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,x-access-token',
    },
  })
  assert.equal(r.status, 204)
  assert.equal(r.headers.get('access-control-allow-origin'), '*')
  assert.equal(r.headers.get('access-control-allow-headers'), 'authorization,x-access-token')
  const got = await raw('/envs', { headers: { origin: 'http://a.example' } })
  assert.equal(got.headers.get('access-control-allow-origin'), '*')
})

test('/envs and /metrics', async () => {
  const envs = await (await raw('/envs')).json()
  assert.equal(envs.CREATED, 'at create')
  assert.equal(envs.E2B_SANDBOX_ID, sb.sandboxId)
  const m = await (await raw('/metrics')).json()
  assert.ok(m.cpu_count >= 1 && m.mem_total > m.mem_used && m.disk_total > 0 && m.ts > 1e9)
  assert.ok(m.cpu_used_pct >= 0 && m.cpu_used_pct <= 100)
})

test('requests that are no RPC', async () => {
  const r = await raw('/process.Process/List', { method: 'POST', body: '{', headers: { 'content-type': 'application/json' } })
  assert.deepEqual([r.status, (await r.json()).code], [400, 'invalid_argument'])
  assert.equal((await raw('/process.Process/List')).status, 405)
  assert.equal((await raw('/process.Process/List',
    { method: 'POST', body: 'x', headers: { 'content-type': 'text/plain' } })).status, 415)
  const [status, , messages] = await stream('process.Process/Start', Buffer.from([0, 0, 0, 0, 9, 1]))
  assert.equal(status, 200)
  assert.equal(messages[0][1].error.code, 'invalid_argument')
})

test('isRunning, and a dead sandbox', async () => {
  const other = await Sandbox.create()
  assert.equal(await other.isRunning(), true)
  const handle = await other.commands.run('sleep 60', { background: true })
  const ended = handle.wait().catch((e) => e)
  await other.kill()
  assert.equal(await other.isRunning(), false)
  assert.ok((await ended) instanceof SandboxError)
  await assert.rejects(other.commands.run('true'), SandboxError)
  await assert.rejects(other.files.read('/etc/passwd'), TimeoutError)
  const r = await fetch(`${origin}/health`, { headers: { 'e2b-sandbox-id': other.sandboxId, 'e2b-sandbox-port': '49983' } })
  assert.equal(r.status, 502)
  assert.equal((await r.json()).sandboxId, other.sandboxId)
})

// --- running them ---

sb = await create({ envs: { CREATED: 'at create' } })
dir = `/tmp/envd-${process.pid}-${Date.now()}`
await sb.files.makeDir(dir)
atEnd(() => sb.files.remove(dir))
await finish('envd')
