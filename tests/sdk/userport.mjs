// Ports of a sandbox through the daemon: by host, by headers, streams both ways, WebSocket, errors.
// The server in the sandbox is Node's own; so is the client, except for what only sockets can show.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import tls from 'node:tls'
import { Sandbox } from 'e2b'

const tests = []
const test = (name, fn) => tests.push([name, fn])
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const origin = new URL(process.env.E2B_SANDBOX_URL)
const secure = origin.protocol === 'https:'
const peer = { host: origin.hostname, port: Number(origin.port), servername: origin.hostname }
const port = 20000 + (process.pid % 20000)

const server = String.raw`
const http = require('http'), crypto = require('crypto')
const s = http.createServer((q, r) => {
  if (q.url === '/events') {
    r.writeHead(200, { 'content-type': 'text/event-stream' })
    let n = 0
    const t = setInterval(() => { r.write('data: ' + ++n + '\n\n'); if (n === 4) { clearInterval(t); r.end() } }, 150)
  } else if (q.url === '/hash') {
    const h = crypto.createHash('sha256')
    q.on('data', (d) => h.update(d)).on('end', () => r.end(h.digest('hex')))
  } else if (q.url === '/duplex') {
    r.writeHead(200); q.on('data', (d) => r.write(d)).on('end', () => r.end())
  } else if (q.url === '/big') {
    const piece = Buffer.alloc(1 << 16, 'x'); let left = 640
    const go = () => { while (left-- > 0) if (!r.write(piece)) return r.once('drain', go); r.end() }
    go()
  } else if (q.url === '/cut') {
    r.writeHead(200, { 'content-length': 100 }); r.write('x'); setTimeout(() => r.destroy(), 50)
  } else if (q.url === '/rude') q.socket.destroy()
  else if (q.url === '/junk') { q.socket.end('this is no HTTP\r\n\r\n') }
  else if (q.url === '/none') { r.writeHead(204); r.end() }
  else r.end(JSON.stringify({ method: q.method, url: q.url, headers: q.headers }))
})
s.on('upgrade', (q, sock) => {
  const key = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  sock.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + key + '\r\n\r\nhello')
  sock.on('data', (d) => sock.write(d)).on('end', () => sock.end()).on('error', () => {})
})
s.listen(Number(process.argv[2]), '127.0.0.1')
`

let sb

// By headers; `by: 'host'` by the Host of section 1.5.
function request({ path = '/', method = 'GET', headers = {}, body, by = 'headers', to = port, id = sb.sandboxId }) {
  const who = by === 'host' ? { host: `${to}-${id}.localhost` }
    : { 'e2b-sandbox-id': id, 'e2b-sandbox-port': String(to) }
  return new Promise((resolve, reject) => {
    const q = (secure ? https : http).request({ ...peer, path, method, headers: { ...who, ...headers } })
    q.on('error', reject).on('response', resolve)
    if (typeof body === 'function') body(q)
    else q.end(body)
  })
}

async function text(response) {
  let s = ''
  for await (const d of response) s += d
  return s
}

test('by host and by headers; what the guest sees', async () => {
  for (const by of ['host', 'headers']) {
    const r = await request({
      path: '/a%2Fb?c=%20d', by, headers: {
        'x-access-token': sb.envdAccessToken, 'e2b-traffic-access-token': 'secret',
        'x-own': 'kept', connection: 'keep-alive, x-hop', 'x-hop': 'dropped',
      },
    })
    assert.equal(r.statusCode, 200)
    const seen = JSON.parse(await text(r))
    assert.equal(seen.url, '/a%2Fb?c=%20d')
    assert.equal(seen.headers['x-own'], 'kept')
    for (const name of ['x-access-token', 'e2b-traffic-access-token', 'e2b-sandbox-id', 'e2b-sandbox-port', 'x-hop'])
      assert.equal(seen.headers[name], undefined, name)
    assert.ok(seen.headers['x-forwarded-for'])
  }
})

test("a service's own X-Access-Token passes", async () => {
  const r = await request({ headers: { 'x-access-token': 'mine' } })
  assert.equal(JSON.parse(await text(r)).headers['x-access-token'], 'mine')
})

test('methods and empty answers', async () => {
  for (const method of ['PUT', 'PATCH', 'DELETE', 'OPTIONS'])
    assert.equal(JSON.parse(await text(await request({ method, body: 'x', headers: { 'content-length': '1' } }))).method, method)
  assert.equal((await request({ path: '/none' })).statusCode, 204)
  const head = await request({ method: 'HEAD' })
  assert.deepEqual([head.statusCode, await text(head)], [200, ''])
})

test('server-sent events come one by one', async () => {
  const begin = Date.now(), at = []
  const r = await request({ path: '/events' })
  for await (const d of r) at.push([Date.now() - begin, String(d)])
  assert.equal(at.length, 4)
  assert.ok(at[3][0] - at[0][0] >= 300, JSON.stringify(at))
})

test('20 MB up, chunked and with a length; 40 MB down', async () => {
  const data = randomBytes(20_000_000)
  const hash = createHash('sha256').update(data).digest('hex')
  const chunked = await request({ path: '/hash', method: 'POST', body: (q) => q.end(data), headers: { 'transfer-encoding': 'chunked' } })
  assert.equal(await text(chunked), hash)
  const sized = await request({ path: '/hash', method: 'POST', body: data, headers: { 'content-length': data.length } })
  assert.equal(await text(sized), hash)
  let n = 0
  for await (const d of await request({ path: '/big' })) n += d.length
  assert.equal(n, 640 * 65536)
})

test('both ways at the same time', async () => {
  let send
  const r = await request({ path: '/duplex', method: 'POST', body: (q) => { send = q; q.write('1') } })
  const got = []
  r.on('data', (d) => got.push(String(d)))
  for (const s of ['2', '3']) {
    await sleep(100)
    send.write(s)
  }
  await sleep(200)
  assert.equal(got.join(''), '123')
  send.end()
  await new Promise((resolve) => r.on('end', resolve))
})

test('WebSocket becomes a tunnel', async () => {
  const sock = secure ? tls.connect(peer) : net.connect(peer)
  sock.write(`GET /ws HTTP/1.1\r\nHost: ${port}-${sb.sandboxId}.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')
  let got = Buffer.alloc(0)
  sock.on('data', (d) => (got = Buffer.concat([got, d])))
  const until = async (fn) => { for (let i = 0; i < 200 && !fn(); i++) await sleep(20); assert.ok(fn(), String(got).slice(0, 300)) }
  await until(() => got.includes('\r\n\r\nhello'))
  assert.match(String(got), /^HTTP\/1.1 101 .*s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/s)
  got = Buffer.alloc(0)
  const data = randomBytes(3_000_000)
  sock.write(data)
  await until(() => got.length === data.length)
  assert.ok(got.equals(data))
  const closed = new Promise((resolve) => sock.on('close', resolve))
  sock.end()
  await closed
})

test('nothing listens; no such sandbox', async () => {
  const closed = await request({ to: port + 1 })
  assert.equal(closed.statusCode, 502)
  const { message, ...body } = JSON.parse(await text(closed))
  assert.deepEqual(body, { sandboxId: sb.sandboxId, port: port + 1, code: 502 })
  assert.ok(message)
  const none = await request({ id: 'inosuchsandbox' })
  assert.equal(none.statusCode, 502)
  assert.equal(JSON.parse(await text(none)).port, undefined)
})

test('answers that are cut or no HTTP', async () => {
  for (const path of ['/rude', '/junk']) assert.equal((await request({ path })).statusCode, 502)
  await assert.rejects(text(await request({ path: '/cut' })))
})

test('many at the same time', async () => {
  const all = await Promise.all([...Array(60).keys()].map(async (i) => JSON.parse(await text(await request({ path: `/${i}` }))).url))
  assert.deepEqual(all, [...Array(60).keys()].map((i) => `/${i}`))
})

// This machine's own login files may do anything.
const home = process.env.SDK_TEST_NATIVE ? { HOME: '/var/empty' } : {}
sb = await Sandbox.create({ envs: home, timeoutMs: 200_000 })
await sb.files.write('/tmp/userport-server.cjs', server)
await sb.commands.run(`exec node /tmp/userport-server.cjs ${port}`, { background: true, timeoutMs: 0 })
for (let i = 0; i < 100 && (await request({})).statusCode !== 200; i++) await sleep(100)
let failed = 0
for (const [name, fn] of tests) {
  try {
    await Promise.race([fn(), sleep(30_000).then(() => assert.fail('no end after 30 s'))])
    console.log(`ok - userport: ${name}`)
  } catch (e) {
    failed++
    console.log(`not ok - userport: ${name}`)
    console.log(`  ${String(e.stack ?? e).replaceAll('\n', '\n  ')}`)
  }
}
await sb.kill()
process.exit(failed ? 1 : 0)
