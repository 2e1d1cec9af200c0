// Ports of a sandbox through the daemon: by host, by headers, streams both ways, WebSocket, tokens,
// errors. The server in the sandbox is userport_server.py; the clients are Node's own and `ws`, except
// for what only sockets can show.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import tls from 'node:tls'
import WebSocket from 'ws'
import { burst, create, finish, native, origin, sleep, test, until } from './harness.mjs'

const secure = origin.protocol === 'https:'
const peer = { host: origin.hostname, port: Number(origin.port), servername: origin.hostname }
// Natively the port is the machine's, and below those that it gives to clients: those may be taken.
const port = native ? 10000 + (process.pid % 20000) : 8000
const program = fs.readFileSync(new URL('./userport_server.py', import.meta.url), 'utf8')

let sb

async function serve(sandbox, on = port, how = '') {
  await sandbox.files.write('/tmp/userport_server.py', program)
  const server = await sandbox.commands.run(`exec python3 /tmp/userport_server.py ${on} ${how}`, { background: true, timeoutMs: 0 })
  const headers = { 'e2b-traffic-access-token': sandbox.trafficAccessToken ?? '' }
  await until('the service', async () => {
    assert.equal(server.exitCode, undefined, server.stderr)
    return (await request({ id: sandbox.sandboxId, to: on, path: '/none', headers })).statusCode === 204
  })
}

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
  const r = await request({ path: '/events' })
  const got = []
  for await (const d of r) {
    got.push(String(d))
    await request({ path: '/ack' }) // the next one is sent only now
  }
  assert.deepEqual(got, [1, 2, 3, 4].map((n) => `data: ${n}\n\n`))
})

test('megabytes up, chunked and with a length, and down', async () => {
  const data = randomBytes(native ? 20_000_000 : 2_000_000)
  const hash = createHash('sha256').update(data).digest('hex')
  const chunked = await request({ path: '/hash', method: 'POST', body: (q) => q.end(data), headers: { 'transfer-encoding': 'chunked' } })
  assert.equal(await text(chunked), hash)
  const sized = await request({ path: '/hash', method: 'POST', body: data, headers: { 'content-length': data.length } })
  assert.equal(await text(sized), hash)
  const pieces = native ? 640 : 64
  let n = 0
  for await (const d of await request({ path: '/big', headers: { 'x-pieces': pieces } })) n += d.length
  assert.equal(n, pieces * 65536)
})

test('both ways at the same time', async () => {
  let send
  const r = await request({
    path: '/duplex', method: 'POST', headers: { 'transfer-encoding': 'chunked' },
    body: (q) => { send = q; q.write('1') },
  })
  let got = ''
  r.on('data', (d) => (got += d))
  for (const [before, next] of [['1', '2'], ['12', '3']]) {
    await until(before, () => got === before)
    send.write(next)
  }
  await until('123', () => got === '123')
  send.end()
  await new Promise((resolve) => r.on('end', resolve))
})

test('an upgrade becomes a tunnel', async () => {
  const sock = secure ? tls.connect(peer) : net.connect(peer)
  sock.write(`GET /tunnel HTTP/1.1\r\nHost: ${port}-${sb.sandboxId}.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')
  let got = Buffer.alloc(0)
  sock.on('data', (d) => (got = Buffer.concat([got, d])))
  await until('the greeting', () => got.includes('\r\n\r\nhello'))
  assert.match(String(got), /^HTTP\/1.1 101 .*s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/s)
  got = Buffer.alloc(0)
  const data = randomBytes(native ? 3_000_000 : 300_000)
  sock.write(data)
  await until('the echo', () => got.length === data.length)
  assert.ok(got.equals(data))
  const closed = new Promise((resolve) => sock.on('close', resolve))
  sock.end()
  await closed
})

test('WebSocket: text, binary, ping, close', async () => {
  const ws = new WebSocket(new URL('/websocket', origin.href.replace(/^http/, 'ws')), {
    headers: { host: `${port}-${sb.sandboxId}.localhost` },
  })
  const got = []
  let pong
  ws.on('message', (data, binary) => got.push(binary ? data : String(data))).on('pong', (d) => (pong = String(d)))
  await new Promise((resolve, reject) => ws.on('open', resolve).on('error', reject))
  const data = randomBytes(native ? 1_000_000 : 70_000)
  ws.send('hällo')
  ws.send(data)
  ws.ping('are you there')
  await until('the echoes', () => got.length === 2 && pong)
  assert.equal(got[0], 'hällo')
  assert.ok(got[1].equals(data))
  assert.equal(pong, 'are you there')
  ws.close(1000, 'done')
  const [code, reason] = await new Promise((resolve) => ws.on('close', (...a) => resolve(a)))
  assert.deepEqual([code, String(reason)], [1000, 'done'])
})

test('traffic access token', async () => {
  const closed = await create({ network: { allowPublicTraffic: false } })
  assert.ok(closed.trafficAccessToken)
  await serve(closed, port + 2)
  for (const token of [{}, { 'e2b-traffic-access-token': 'wrong' }, { 'e2b-traffic-access-token': closed.trafficAccessToken + 'x' }])
    for (const by of ['host', 'headers']) {
      const r = await request({ id: closed.sandboxId, to: port + 2, by, headers: token })
      assert.equal(r.statusCode, 403)
      const { message, ...body } = JSON.parse(await text(r))
      assert.deepEqual(body, { sandboxId: closed.sandboxId, code: 403 })
      assert.ok(message)
    }
  const headers = { 'e2b-traffic-access-token': closed.trafficAccessToken }
  assert.equal((await request({ id: closed.sandboxId, to: port + 2, headers })).statusCode, 200)
  assert.equal((await closed.commands.run('echo envd needs none')).exitCode, 0)
  assert.equal(sb.trafficAccessToken ?? null, null)
  await closed.kill()
})

test('maskRequestHost', async () => {
  const seen = async (maskRequestHost) => {
    const sandbox = await create({ network: { maskRequestHost } })
    await serve(sandbox, port + 3)
    const r = await request({ id: sandbox.sandboxId, to: port + 3, by: 'host' })
    const host = JSON.parse(await text(r)).headers.host
    await sandbox.kill()
    return host
  }
  assert.equal(await seen('localhost:${PORT}'), `localhost:${port + 3}`)
  assert.equal(await seen('internal.example'), 'internal.example')
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
  const all = await Promise.all([...Array(burst).keys()].map(async (i) => JSON.parse(await text(await request({ path: `/${i}` }))).url))
  assert.deepEqual(all, [...Array(burst).keys()].map((i) => `/${i}`))
})

test('a port that speaks TLS', async () => {
  const own = await create({ network: { httpsPorts: [port + 1] } })
  const at = { id: own.sandboxId, to: port + 1 }
  await serve(own, port + 1, 'tls')
  assert.equal(JSON.parse(await text(await request({ ...at, path: '/x', by: 'host' }))).url, '/x')
  const data = randomBytes(1_000_000)
  const hash = createHash('sha256').update(data).digest('hex')
  assert.equal(await text(await request({ ...at, path: '/hash', method: 'POST', body: data, headers: { 'content-length': data.length } })), hash)
  let n = 0
  for await (const d of await request({ ...at, path: '/big', headers: { 'x-pieces': 16 } })) n += d.length
  assert.equal(n, 16 * 65536)
  const ws = new WebSocket(`${secure ? 'wss' : 'ws'}://${peer.host}:${peer.port}/websocket`, {
    headers: { host: `${port + 1}-${own.sandboxId}.localhost` }, servername: peer.servername,
  })
  const echo = await new Promise((resolve, reject) => {
    ws.on('error', reject).on('open', () => ws.send('through TLS')).on('message', (d) => resolve(String(d)))
  })
  ws.close()
  assert.equal(echo, 'through TLS')
  await own.kill()
})

sb = await create()
await serve(sb)
await finish('userport')
