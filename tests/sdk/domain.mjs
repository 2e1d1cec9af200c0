// Everything by host names below a domain over HTTPS, as E2B's cloud is used: no E2B_API_URL, no
// E2B_SANDBOX_URL. A program that access.mjs runs: domain.mjs URL. Prints `done`.
import assert from 'node:assert/strict'
import https from 'node:https'
import { Sandbox } from 'e2b'
import WebSocket from 'ws'
import { startFront } from './front.mjs'

process.env.E2B_DOMAIN = await startFront(new URL(process.argv[2]))
const envs = process.env.SDK_TEST_NATIVE ? { HOME: '/var/empty' } : {}
const port = 8100 + (process.pid % 1000)

function get(host) {
  return new Promise((resolve, reject) => {
    https.get(`https://${host}/`, async (r) => {
      let body = ''
      for await (const d of r) body += d
      resolve([r.statusCode, body])
    }).on('error', reject)
  })
}

const sb = await Sandbox.create({ envs, timeoutMs: 600_000 })
try {
  assert.equal(sb.getHost(port), `${port}-${sb.sandboxId}.${process.env.E2B_DOMAIN}`)
  assert.equal((await sb.commands.run('echo hello')).stdout, 'hello\n')
  const path = `/tmp/domain-${process.pid}`
  await sb.files.write(path, 'by host')
  assert.equal(await sb.files.read(path), 'by host')
  const url = await sb.downloadUrl(path)
  assert.ok(url.startsWith(`https://49983-${sb.sandboxId}.${process.env.E2B_DOMAIN}/files?`), url)
  assert.equal(await (await fetch(url)).text(), 'by host')
  await sb.files.remove(path)
  assert.equal((await get(sb.getHost(port)))[0], 502)
  await sb.commands.run(`cd /usr/share && exec python3 -m http.server --bind 127.0.0.1 ${port}`, { background: true, timeoutMs: 0 })
  let answer
  for (const end = Date.now() + 60_000; answer?.[0] !== 200 && Date.now() < end;) answer = await get(sb.getHost(port))
  assert.match(answer[1], /Directory listing/)
  const ws = new WebSocket(`wss://${sb.getHost(port)}/`)
  const [, response] = await new Promise((resolve) => ws.on('error', () => {}).on('unexpected-response', (...a) => resolve(a)))
  assert.equal(response.statusCode, 200, 'no upgrade, the answer as it is')
  ws.terminate()
} finally {
  await sb.kill()
}
assert.equal((await get(sb.getHost(port)))[0], 502)
assert.equal(await sb.isRunning(), false)
console.log('done')
process.exit(0)
